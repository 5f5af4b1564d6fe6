// SPDX-License-Identifier: Apache-2.0
/* The segments of an open channel. */
#include "directory.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/ioprio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "clock.h"
#include "segment.h"

/* time for a batch that is being written to a segment whose file is gone */
#define DROP_PAUSE (10 * NSEC_PER_MSEC)
#define DROP_TRIES 20

bool segments_lack(const struct channel *c)
{
	return atomic_load(&c->made) + c->closed < c->config.segments;
}

static void io_priority(int class)
{
	/* of this thread; if it fails, this only disturbs others more */
	syscall(SYS_ioprio_set, IOPRIO_WHO_PROCESS, 0, IOPRIO_PRIO_VALUE(class, 0));
}

int segments_make(struct channel *c, const unsigned char *zeros, size_t length,
		  const atomic_bool *stop, struct error *e)
{
	struct ekr_segment_head head = store_head(&c->store, c->next_index);
	struct segment segment = { .index = head.index };
	int ret;

	if (!segments_lack(c))
		return 1;
	io_priority(atomic_load(&c->made) < 2 ? IOPRIO_CLASS_NONE : IOPRIO_CLASS_IDLE);
	ret = segment_make(c->directory, &head, zeros, length, stop, e);
	if (!ret) {
		segment.fd = segment_open(c->directory, head.index, e);
		ret = segment.fd < 0 ? segment.fd : 0;
	}
	io_priority(IOPRIO_CLASS_NONE);
	if (!ret) {
		c->next_index++;
		store_add(&c->store, &segment);
		atomic_fetch_add(&c->made, 1);
		if (!segments_lack(c))
			store_fail(&c->store, &c->less);
	} else if (ret != -ECANCELED) {
		store_fail(&c->store, e);
	}
	return ret;
}

void segments_expire(struct channel *c)
{
	_Alignas(EKR_BLOCK) unsigned char block[EKR_BLOCK] = { 0 };
	struct segment gone;

	while (store_expire(&c->store, monotonic_ns(), realtime_ns(), &gone)) {
		struct ekr_segment_head head = store_head(&c->store, gone.index);

		log_info("channel %s: the records of segment %08u.seg, generation %" PRIu64
			 ", are older than retain_time and are deleted",
			 c->config.name, gone.index, gone.generation);
		memcpy(block, &head, sizeof(head));
		segment_seal_head(block);
		if (pwrite(gone.fd, block, EKR_BLOCK, 0) != EKR_BLOCK || fdatasync(gone.fd))
			log_warning("channel %s: deleting the records of segment %08u.seg: %s",
				    c->config.name, gone.index, strerror(errno));
		/* it is used next, also if the head could not be written */
		gone.generation = 0;
		store_add(&c->store, &gone);
	}
}

bool segments_whole(const struct channel *c, const struct segment *s)
{
	struct stat st, named;
	char name[SEGMENT_NAME];

	if (fstat(s->fd, &st))
		return true;
	if (!st.st_nlink || (uint64_t)st.st_size != c->config.segment)
		return false;
	segment_name(name, s->index);
	if (fstatat(c->directory, name, &named, AT_SYMLINK_NOFOLLOW))
		return errno != ENOENT;
	return directory_same(&st, &named);
}

bool segments_drop(struct channel *c, const struct segment *s)
{
	const struct timespec pause = timespec_of(DROP_PAUSE);

	for (int i = 0; i < DROP_TRIES; i++) {
		if (store_drop(&c->store, s->index)) {
			close(s->fd);
			atomic_fetch_sub(&c->made, 1);
			return true;
		}
		nanosleep(&pause, NULL);
	}
	return false;
}
