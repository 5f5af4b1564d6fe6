// SPDX-License-Identifier: Apache-2.0
/* Finding, making and leaving segments. */
#include "prepare.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/ioprio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <systemd/sd-id128.h>

#include "clock.h"
#include "log.h"
#include "marker.h"
#include "recover.h"
#include "segment.h"
#include "thread.h"

#define ZEROS ((size_t)1 << 20)
#define RETRY (10 * NSEC_PER_SEC)
/* for a batch that is being written to a segment that is not there any more */
#define DROP_PAUSE (10 * NSEC_PER_MSEC)
#define DROP_TRIES 20
/* for a piece of a segment that is being made, and for marks, on a medium that is busy; systemd waits 10 s */
#define END_TIME (4 * NSEC_PER_SEC)

int prepare_open(struct prepare *p, const struct recorder_config *config, struct channel *channels,
		 unsigned int count, struct error *e)
{
	pthread_condattr_t attr;

	*p = (struct prepare){ .config = config, .channels = channels, .count = count };
	p->zeros = aligned_alloc(EKR_BLOCK, ZEROS);
	p->keepers = calloc(count + 1, sizeof(*p->keepers));
	if (!p->zeros || !p->keepers) {
		free(p->zeros);
		free(p->keepers);
		return set_error(e, ENOMEM, "allocating memory to create segments: out of memory");
	}
	memset(p->zeros, 0, ZEROS);
	for (unsigned int i = 0; i < count; i++)
		p->keepers[i] = (struct keeper){ .prepare = p, .channel = &channels[i] };
	pthread_mutex_init(&p->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&p->changed, &attr);
	pthread_condattr_destroy(&attr);
	return 0;
}

void prepare_close(struct prepare *p)
{
	free(p->zeros);
	free(p->keepers);
	pthread_mutex_destroy(&p->lock);
	pthread_cond_destroy(&p->changed);
}

static bool same_file(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* the directory of all channels; nothing must fill up the disk that it should be mounted on */
static int open_base(const struct recorder_config *config, struct error *e)
{
	struct stat here, above;
	int fd = open(config->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return set_errno(e, errno, "opening %s", config->directory);
	if (!config->mountpoint)
		return fd;
	if (fstat(fd, &here) || fstatat(fd, "..", &above, 0)) {
		set_errno(e, errno, "examining %s", config->directory);
	} else if (here.st_dev == above.st_dev && here.st_ino != above.st_ino) {
		set_error(e, ENODEV, "%s: nothing is mounted there; mount the recorder's partition",
			  config->directory);
	} else {
		return fd;
	}
	close(fd);
	return -e->code;
}

static int open_directory(const struct recorder_config *config, const char *name, struct error *e)
{
	int base = open_base(config, e), fd;

	if (base < 0)
		return base;
	if (!mkdirat(base, name, 0750))
		fsync(base);
	else if (errno != EEXIST) {
		set_errno(e, errno, "creating %s/%s", config->directory, name);
		close(base);
		return -e->code;
	}
	fd = openat(base, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		set_errno(e, errno, "opening %s/%s", config->directory, name);
	close(base);
	if (fd < 0)
		return -e->code;
	if (flock(fd, LOCK_EX | LOCK_NB)) {
		if (errno == EWOULDBLOCK)
			set_error(e, EBUSY, "%s/%s: another recorder is using it",
				  config->directory, name);
		else
			set_errno(e, errno, "locking %s/%s", config->directory, name);
		close(fd);
		return -e->code;
	}
	return fd;
}

/* the segments of a directory while they are looked into */
struct found {
	struct recovered_segment segments[SEGMENTS_MAX];
	int fds[SEGMENTS_MAX];	   /* for reading, in the order of segments; -1: it cannot be */
	int writes[SEGMENTS_MAX];  /* for writing; -1: it cannot be, or not yet */
	bool usable[SEGMENTS_MAX]; /* a file of the right size, and not given back */
	uint32_t closed;	   /* files that cannot be opened for reading or for writing */
	struct error why;	   /* not, the last of them */
	struct recovered r;
	bool fresh; /* there is none, not even one that was begun */
};

/* want of what this process may have, and no fault of the file: another try may find it */
static bool is_want(int code)
{
	return code == EMFILE || code == ENFILE || code == ENOMEM;
}

/* a file that is there all the same: nothing takes its place, and it is told when all are known */
static void note_closed(struct found *f, const struct error *why)
{
	f->closed++;
	f->why = *why;
}

static ssize_t read_found(void *ctx, uint32_t index, void *to, size_t length, uint64_t offset)
{
	struct found *f = ctx;
	ssize_t n;

	for (size_t i = 0; i < f->r.count; i++) {
		if (f->segments[i].index != index)
			continue;
		do {
			n = pread(f->fds[i], to, length, (off_t)offset);
		} while (n < 0 && errno == EINTR);
		return n;
	}
	return -1;
}

/* NULL, and errno says why */
static DIR *list(const struct channel *c)
{
	int again = openat(c->directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = again < 0 ? NULL : fdopendir(again);

	if (!dir && again >= 0)
		close(again);
	return dir;
}

static int list_segments(struct channel *c, struct found *f, struct error *e)
{
	DIR *dir = list(c);
	struct dirent *entry;
	bool more = false;
	uint32_t index;
	int ret;

	f->fresh = true;
	if (!dir)
		return set_errno(e, errno, "listing the segments");
	while ((errno = 0, entry = readdir(dir))) {
		struct stat st;
		struct error why;
		int fd;

		if (strstr(entry->d_name, ".seg"))
			f->fresh = false;
		if (!segment_index(entry->d_name, &index))
			continue;
		/* it keeps its name, whatever it is */
		if (index >= c->next_index)
			c->next_index = index + 1;
		if (f->r.count == SEGMENTS_MAX) {
			more = true;
			continue;
		}
		/* past the page cache: nobody else wants it, and it may be what a write has bypassed */
		fd = openat(c->directory, entry->d_name,
			    O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_DIRECT);
		/* removed since it was listed */
		if (fd < 0 && errno == ENOENT)
			continue;
		if (fd < 0) {
			set_errno(&why, errno, "opening %s", entry->d_name);
			if (is_want(why.code)) {
				closedir(dir);
				*e = why;
				return -e->code;
			}
			note_closed(f, &why);
		}
		/* also if it is closed: it may have been the newest */
		f->fds[f->r.count] = fd;
		f->writes[f->r.count] = -1;
		f->segments[f->r.count].size = fd < 0 || fstat(fd, &st) ? 0 : (uint64_t)st.st_size;
		f->segments[f->r.count++].index = index;
	}
	/* half a list would be taken for a recording that has lost the rest */
	ret = errno ? set_errno(e, errno, "listing the segments") : 0;
	closedir(dir);
	if (more)
		log_warning("channel %s: more than %u segments; the others are not used",
			    c->config.name, SEGMENTS_MAX);
	return ret;
}

/* the size of what is there already is that of what will be made */
static int settle_size(struct channel *c, const struct found *f, struct error *e)
{
	uint64_t size = f->r.valid ? f->r.valid->head.size : 0;

	for (size_t i = 0; i < f->r.count && !size; i++)
		size = f->segments[i].head.size;
	if (!size || size == c->config.segment)
		return 0;
	if (size < EKR_BLOCK + c->config.writeout)
		return set_error(e, EINVAL,
				 "its segments have %" PRIu64
				 " bytes, too small for a batch of %" PRIu64
				 "; remove them or lower writeout",
				 size, c->config.writeout);
	log_warning("channel %s: its segments keep %" PRIu64 " bytes instead of %" PRIu64,
		    c->config.name, size, c->config.segment);
	/* statistics tell both */
	pthread_mutex_lock(&c->store.lock);
	c->config.segment = size;
	c->config.segments = (c->config.retain + size - 1) / size + 1;
	if (c->config.segments > SEGMENTS_MAX)
		c->config.segments = SEGMENTS_MAX;
	pthread_mutex_unlock(&c->store.lock);
	return 0;
}

/*
 * Which can be used; of the others it is told why not. All are open before anything is
 * changed: what is short of descriptors leaves the channel as it is.
 */
static int open_usable(const struct channel *c, struct found *f, struct error *e)
{
	size_t count = 0;

	for (size_t i = 0; i < f->r.count; i++) {
		struct error why;
		struct stat st;

		if (f->fds[i] < 0)
			continue;
		if (fstat(f->fds[i], &st) || !S_ISREG(st.st_mode) ||
		    (uint64_t)st.st_size != c->config.segment) {
			log_warning("channel %s: %08u.seg is not a file of %" PRIu64
				    " bytes; it is not used",
				    c->config.name, f->segments[i].index, c->config.segment);
			continue;
		}
		f->writes[i] =
			segment_open(c->directory, f->segments[i].index, !c->config.cached, &why);
		f->usable[i] = f->writes[i] >= 0;
		count += f->usable[i];
		if (f->usable[i])
			continue;
		if (is_want(why.code)) {
			*e = why;
			return -e->code;
		}
		if (why.code != ENOENT)
			note_closed(f, &why);
	}
	/* with those that may still be made there would not be two to record in */
	if (f->closed && count < 2 && f->closed + 2 > c->config.segments)
		return set_error(e, f->why.code, "%u of its segments exist but cannot be used: %s",
				 f->closed, f->why.text);
	return 0;
}

static size_t count_usable(const struct found *f)
{
	size_t count = 0;

	for (size_t i = 0; i < f->r.count; i++)
		count += f->usable[i];
	return count;
}

/* the oldest use goes first, of those that were never used the last that was made; the newest stays */
static size_t to_give_back(const struct found *f)
{
	size_t found = f->r.count;

	for (size_t i = 0; i < f->r.count; i++) {
		const struct recovered_segment *s = &f->segments[i], *o = &f->segments[found];

		if (f->usable[i] && s != f->r.newest &&
		    (found == f->r.count || s->head.generation < o->head.generation ||
		     (s->head.generation == o->head.generation && s->index > o->index)))
			found = i;
	}
	return found;
}

/*
 * What the channel has beyond `retain`, which was more when they were made: who lowers
 * it wants the room for something else. Oldest first, and one after the other: a power
 * cut leaves a recording that lacks its beginning, and the next start goes on.
 */
static void give_back(struct channel *c, struct found *f)
{
	size_t count = count_usable(f), before = count;
	char name[SEGMENT_NAME];

	while (count > c->config.segments) {
		size_t i = to_give_back(f);

		segment_name(name, f->segments[i].index);
		if (unlinkat(c->directory, name, 0)) {
			log_warning("channel %s: deleting %s: %s; it stays in use", c->config.name,
				    name, strerror(errno));
			break;
		}
		f->usable[i] = false;
		count--;
	}
	if (count == before)
		return;
	/* else the journal gives the room to others minutes later */
	if (fsync(c->directory))
		log_warning("channel %s: flushing the deletion of segments: %s", c->config.name,
			    strerror(errno));
	log_info("channel %s: retain was lowered: the oldest %zu segments of %" PRIu64
		 " bytes were deleted",
		 c->config.name, before - count, c->config.segment);
}

/* segments that can be made */
static bool lacks(const struct channel *c)
{
	return atomic_load(&c->made) + c->closed < c->config.segments;
}

/* one that is made next is made anew; nobody comes for any other */
static void remove_unfinished(const struct channel *c)
{
	bool more = lacks(c);
	DIR *dir = list(c);
	struct dirent *entry;
	uint32_t index;

	while (dir && (entry = readdir(dir)))
		if (segment_unfinished(entry->d_name, &index) &&
		    !(more && index == c->next_index) && unlinkat(c->directory, entry->d_name, 0))
			log_warning("channel %s: removing the unfinished segment %s: %s",
				    c->config.name, entry->d_name, strerror(errno));
	if (dir)
		closedir(dir);
}

static void add_segments(struct channel *c, struct found *f, bool reuse_newest)
{
	c->closed = f->closed;
	for (size_t i = 0; i < f->r.count; i++) {
		const struct recovered_segment *s = &f->segments[i];
		struct segment segment = {
			.index = s->index,
			.generation = s->head.generation,
			.opened_realtime_ns = s->head.realtime_ns,
			.fd = f->writes[i],
		};

		if (!f->usable[i])
			continue;
		if (s->problem)
			log_warning(
				"channel %s: the head of %08u.seg is invalid (%s); the segment will be reused%s",
				c->config.name, s->index, s->problem,
				s->head.generation ? " in its turn" : "");
		if (reuse_newest && s == f->r.newest)
			segment.generation = 0;
		if (!memcmp(s->head.boot_id, c->store.boot_id, sizeof(s->head.boot_id)))
			segment.opened_ns = s->head.monotonic_ns;
		store_add(&c->store, &segment);
		f->writes[i] = -1;
		atomic_fetch_add(&c->made, 1);
	}
}

/* why it has less segments than it should, if it has all that can be made */
static void tell_closed(struct channel *c, const struct found *f)
{
	struct error e = { 0 };

	if (f->closed) {
		set_error(&e, f->why.code,
			  "%u segments cannot be used, and none is created in their place: %s",
			  f->closed, f->why.text);
		log_warning("channel %s: %s", c->config.name, e.text);
	}
	c->less = e;
	if (f->closed || !lacks(c))
		store_fail(&c->store, &e);
}

static bool same_boot(const struct ekr_segment_head *head, const uint8_t boot_id[16])
{
	return !memcmp(head->boot_id, boot_id, sizeof(head->boot_id));
}

/* what a reader of this segment was told still holds */
static bool same_terms(const struct ekr_segment_head *head, const struct channel_config *config)
{
	return head->record_size == config->record_size && head->period_ns == config->period_ns &&
	       head->window_ns == config->window_ns && head->size == config->segment &&
	       !(head->flags & EKR_SEGMENT_CACHED) == !config->cached;
}

/* what is damaged may have been newer than all that was found: a mark, unless it is noise, knows */
static void after_mark(const struct marker *m, bool in_order, uint64_t *generation, uint64_t *next)
{
	if (m->generation > *generation && m->generation - *generation <= UINT32_MAX)
		*generation = m->generation;
	if (m->next_sequence > *next && (in_order || m->next_sequence - *next <= UINT32_MAX))
		*next = m->next_sequence;
}

/* begins where the recording ended, and tells a gap if that was not in order */
static int go_on(struct channel *c, struct found *f, struct error *e)
{
	const struct recovered *r = &f->r;
	bool in_order, reuse = r->newest && r->only_restarts;
	uint64_t generation = r->generation, next = r->next_sequence;
	struct marker m = { 0 };
	sd_id128_t boot;
	int ret = settle_size(c, f, e);

	if (!ret)
		ret = open_usable(c, f, e);
	if (ret)
		return ret;
	ret = marker_take(c->directory, &m, e);
	if (ret && ret != -ENOENT)
		return ret;
	/* ahead of the segments, which may take all the room that there is; without it the stop tries again */
	marker_make(c->directory, &(struct error){ 0 });
	/* a recording that is not there has not been stopped either */
	in_order = f->fresh;
	if (ret)
		m = (struct marker){ 0 };
	else
		in_order = m.generation == (r->newest ? r->newest->head.generation : 0) &&
			   m.end == r->end && m.batches == r->batches &&
			   m.next_sequence >= r->next_sequence && !r->damaged;
	c->in_order = in_order;
	c->found = m;
	after_mark(&m, in_order, &generation, &next);
	if (sd_id128_get_boot(&boot))
		memset(&boot, 0, sizeof(boot));
	if (r->valid)
		memcpy(c->id, r->valid->head.channel_id, sizeof(c->id));
	else if (getrandom(c->id, sizeof(c->id), 0) != sizeof(c->id))
		return set_errno(e, errno, "getting a random number for the channel");
	intake_open(&c->intake, &c->buffer, (uint32_t)c->config.record_size, next);
	store_set(&c->store, generation, c->intake.next_sequence, c->id, boot.bytes);
	give_back(c, f);
	add_segments(c, f, reuse && !in_order);
	tell_closed(c, f);
	remove_unfinished(c);
	if (in_order && r->newest && !r->newest->problem &&
	    same_boot(&r->newest->head, boot.bytes) && same_terms(&r->newest->head, &c->config))
		store_continue(&c->store, r->newest->index, r->end, r->batches);
	if (!in_order) {
		/* ahead of everything that this start records */
		intake_lose(&c->intake, EKR_GAP_RESTART, 0);
		intake_tell(&c->intake);
		if (r->any)
			log_warning(
				"channel %s: it was not shut down cleanly; what was submitted after record %" PRIu64
				" is lost",
				c->config.name, r->last_sequence);
		else
			log_warning("channel %s: it was not shut down cleanly; it holds no record",
				    c->config.name);
	}
	if (r->damaged)
		log_warning(
			"channel %s: segment %08u.seg is damaged; 'ek-recorder verify' shows where",
			c->config.name, r->newest->index);
	return 0;
}

/*
 * While it records: its name leads to another directory than before. What is found there is
 * gone on with if it is this recording, as of a medium that was mounted again, or of a copy that
 * was put back; what another one has left, or a recorder that came later, is not touched.
 */
static int come_back(struct channel *c, struct found *f, struct error *e)
{
	const struct recovered *r = &f->r;
	struct marker m;
	int ret;

	if (r->count &&
	    (!r->valid || memcmp(r->valid->head.channel_id, c->id, sizeof(c->id)) != 0 ||
	     r->valid->head.size != c->config.segment ||
	     (r->newest && r->newest->head.generation > c->store.generation)))
		return set_error(e, EINVAL,
				 "its directory now holds another recording; remove that, or "
				 "restart the recorder");
	ret = open_usable(c, f, e);
	if (ret)
		return ret;
	ret = marker_take(c->directory, &m, e);
	if (ret && ret != -ENOENT)
		return ret;
	marker_make(c->directory, e);
	/* all that was written is on the medium or waits to be written again: it ends where this one does */
	c->found = (struct marker){ 0 };
	if (r->newest)
		c->found = (struct marker){ .generation = r->newest->head.generation,
					    .end = r->end,
					    .batches = r->batches };
	c->found_after = c->store.counts.batches;
	store_pass(&c->store, r->generation);
	give_back(c, f);
	add_segments(c, f, false);
	tell_closed(c, f);
	remove_unfinished(c);
	return 0;
}

int prepare_leave(struct channel *c, struct error *e)
{
	return c->in_order ? marker_write(c->directory, &c->found, e) : 0;
}

/* --- whose turn it is on a medium ---------------------------------------------------- */

/* nobody works on its medium, and nobody who waits there has fewer segments */
static bool is_next(const struct keeper *k)
{
	const struct prepare *p = k->prepare;
	uint32_t made = atomic_load(&k->channel->made);

	for (unsigned int i = 0; i < p->count; i++) {
		const struct keeper *o = &p->keepers[i];
		uint32_t theirs = atomic_load(&o->channel->made);

		if (o == k || o->medium != k->medium)
			continue;
		if (o->works || (o->waits && (theirs < made || (theirs == made && o < k))))
			return false;
	}
	return true;
}

/* waits for it; false: it is to stop */
static bool take_turn(struct keeper *k)
{
	struct prepare *p = k->prepare;
	bool stop;

	pthread_mutex_lock(&p->lock);
	k->waits = true;
	while (!atomic_load(&p->stop) && !is_next(k))
		pthread_cond_wait(&p->changed, &p->lock);
	stop = atomic_load(&p->stop);
	k->waits = false;
	k->works = !stop;
	pthread_mutex_unlock(&p->lock);
	return !stop;
}

static void end_turn(struct keeper *k)
{
	struct prepare *p = k->prepare;

	pthread_mutex_lock(&p->lock);
	k->works = false;
	pthread_cond_broadcast(&p->changed);
	pthread_mutex_unlock(&p->lock);
}

/* --- opening a channel --------------------------------------------------------------- */

/* what is done with what is found in the channel's directory: go_on() or come_back() */
typedef int going(struct channel *c, struct found *f, struct error *e);

static int look_into(struct channel *c, going *go, struct error *e)
{
	struct found *f = calloc(1, sizeof(*f));
	struct medium medium = { .read = read_found, .ctx = f };
	/* given back at once: all memory is locked */
	unsigned char *buffer = mmap(NULL, RECOVER_BUFFER, PROT_READ | PROT_WRITE,
				     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int ret = 0;

	if (!f || buffer == MAP_FAILED)
		ret = set_error(e, ENOMEM, "reading the segments: out of memory");
	if (!ret) {
		f->r.segments = f->segments;
		ret = list_segments(c, f, e);
	}
	if (!ret)
		ret = recover(&medium, c->config.name, &f->r, buffer, e);
	if (!ret)
		ret = go(c, f, e);
	for (size_t i = 0; f && i < f->r.count; i++) {
		if (f->fds[i] >= 0)
			close(f->fds[i]);
		if (f->writes[i] >= 0)
			close(f->writes[i]);
	}
	if (buffer != MAP_FAILED)
		munmap(buffer, RECOVER_BUFFER);
	free(f);
	return ret;
}

/* what can be read but not written is left as it is, and tried again when it can */
static int check_writable(const struct channel *c, struct error *e)
{
	struct statvfs fs;

	if (fstatvfs(c->directory, &fs))
		return set_errno(e, errno, "examining its file system");
	return fs.f_flag & ST_RDONLY ? set_errno(e, EROFS, "opening it for recording") : 0;
}

/* @k: takes its turn on the medium; NULL: there are no others */
static int open_channel(const struct recorder_config *config, struct channel *c, struct keeper *k,
			going *go, struct error *e)
{
	struct stat st;
	int ret = open_directory(config, c->config.name, e);

	if (ret >= 0) {
		c->directory = ret;
		ret = fstat(ret, &st) ? set_errno(e, errno, "examining its directory") : 0;
	}
	if (!ret && k) {
		pthread_mutex_lock(&k->prepare->lock);
		k->medium = st.st_dev;
		pthread_mutex_unlock(&k->prepare->lock);
		if (!take_turn(k))
			ret = set_error(e, ECANCELED, "stopped");
	}
	if (!ret) {
		ret = check_writable(c, e);
		if (!ret)
			ret = look_into(c, go, e);
		if (k)
			end_turn(k);
	}
	if (ret && c->directory >= 0) {
		close(c->directory);
		c->directory = -1;
	}
	if (ret && ret != -ECANCELED)
		store_fail(&c->store, e);
	return ret;
}

int prepare_channel(struct prepare *p, struct channel *c, struct error *e)
{
	return open_channel(p->config, c, NULL, go_on, e);
}

/* --- its segments ------------------------------------------------------------------- */

static struct ekr_segment_head empty_head(const struct channel *c, uint32_t index)
{
	struct ekr_segment_head head = {
		.size = c->config.segment,
		.index = index,
		.record_size = (uint32_t)c->config.record_size,
		.period_ns = c->config.period_ns,
		.window_ns = c->config.window_ns,
	};

	memcpy(head.channel_id, c->id, sizeof(head.channel_id));
	memcpy(head.name, c->config.name, strlen(c->config.name));
	return head;
}

static void io_priority(int class)
{
	/* of this thread; without it others are disturbed more, no error */
	syscall(SYS_ioprio_set, IOPRIO_WHO_PROCESS, 0, IOPRIO_PRIO_VALUE(class, 0));
}

int prepare_segment(struct prepare *p, struct channel *c, struct error *e)
{
	struct ekr_segment_head head = empty_head(c, c->next_index);
	struct segment segment = { .index = head.index };
	int ret;

	if (!lacks(c))
		return 1;
	io_priority(atomic_load(&c->made) < 2 ? IOPRIO_CLASS_NONE : IOPRIO_CLASS_IDLE);
	ret = segment_make(c->directory, &head, p->zeros, ZEROS, &p->stop, e);
	if (!ret) {
		segment.fd = segment_open(c->directory, head.index, !c->config.cached, e);
		ret = segment.fd < 0 ? segment.fd : 0;
	}
	io_priority(IOPRIO_CLASS_NONE);
	if (!ret) {
		c->next_index++;
		store_add(&c->store, &segment);
		atomic_fetch_add(&c->made, 1);
		if (!lacks(c))
			store_fail(&c->store, &c->less);
	} else if (ret != -ECANCELED) {
		store_fail(&c->store, e);
	}
	return ret;
}

/* a head of generation 0: nothing in the segment counts any more */
static void expire(struct channel *c)
{
	_Alignas(EKR_BLOCK) unsigned char block[EKR_BLOCK] = { 0 };
	struct segment gone;

	while (store_expire(&c->store, monotonic_ns(), realtime_ns(), &gone)) {
		struct ekr_segment_head head = empty_head(c, gone.index);

		log_info("channel %s: the records of segment %08u.seg, generation %" PRIu64
			 ", are older than retain_time and are deleted",
			 c->config.name, gone.index, gone.generation);
		memcpy(block, &head, sizeof(head));
		segment_seal_head(block);
		if (pwrite(gone.fd, block, EKR_BLOCK, 0) != EKR_BLOCK || fdatasync(gone.fd))
			log_warning("channel %s: deleting the records of segment %08u.seg: %s",
				    c->config.name, gone.index, strerror(errno));
		/* the next one to be used, whether it is forgotten on the medium or not */
		gone.generation = 0;
		store_add(&c->store, &gone);
	}
}

/* --- a channel's thread --------------------------------------------------------------- */

/* once, not each 10 s */
static bool is_new(struct keeper *k, const struct error *e)
{
	bool new = strcmp(k->said, e->text) != 0;

	memcpy(k->said, e->text, sizeof(k->said));
	return new;
}

static void try_to_open(struct keeper *k)
{
	struct channel *c = k->channel;
	uint64_t one = 1;
	struct error e;
	int ret = open_channel(k->prepare->config, c, k, go_on, &e);

	if (!ret)
		atomic_store(&c->open, true);
	else if (ret != -ECANCELED && is_new(k, &e))
		log_error("channel %s: %s; trying again every 10 s", c->config.name, e.text);
	atomic_store(&c->tried, true);
	/* writers may wait for it */
	if (k->prepare->tried_fd >= 0)
		(void)!write(k->prepare->tried_fd, &one, sizeof(one));
}

static void make_segments(struct keeper *k)
{
	struct channel *c = k->channel;
	struct error e;
	int ret = 0;

	while (!ret && lacks(c) && take_turn(k)) {
		ret = prepare_segment(k->prepare, c, &e);
		end_turn(k);
	}
	if (ret < 0 && ret != -ECANCELED && is_new(k, &e))
		log_error("channel %s: %s; it has %u of %" PRIu64
			  " segments, trying again every 10 s",
			  c->config.name, e.text, atomic_load(&c->made), c->config.segments);
}

/* what cannot be looked at is as it was */
static bool is_whole(const struct channel *c, const struct segment *s)
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
	return same_file(&st, &named);
}

static bool drop(struct channel *c, const struct segment *s)
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
	/* it is written without an end: the next time */
	return false;
}

/*
 * Segments whose files somebody has removed, moved or cut short: what is written there nobody
 * will read, or somebody has put it away to keep it.
 */
static void drop_damaged(struct keeper *k)
{
	struct channel *c = k->channel;
	unsigned int i = 0, count = 0;
	struct segment s;
	struct error e;

	while (store_segment(&c->store, i, &s)) {
		if (is_whole(c, &s) || !drop(c, &s))
			i++;
		else
			count++;
	}
	if (!count)
		return;
	set_error(
		&e, ENOENT,
		"%u segments were removed or truncated; their records are lost, and they are created again",
		count);
	log_error("channel %s: %s", c->config.name, e.text);
	store_fail(&c->store, &e);
}

/* its name leads to another directory than the one that it has, or to none; what cannot be looked at is as it was */
static bool is_elsewhere(const struct recorder_config *config, const struct channel *c)
{
	struct stat here, there;
	struct error e = { 0 };
	int base;

	if (fstat(c->directory, &here))
		return false;
	base = open_base(config, &e);
	if (base >= 0) {
		if (fstatat(base, c->config.name, &there, AT_SYMLINK_NOFOLLOW))
			e.code = errno;
		close(base);
	}
	/* ENODEV: nothing is mounted there any more */
	return e.code ? e.code == ENOENT || e.code == ENOTDIR || e.code == ENODEV :
			!same_file(&here, &there);
}

/*
 * To the one that has its name now, if somebody has removed it, moved it away or unmounted it:
 * nothing more is written to where it was. Tried in each round until there is one. False: there
 * is none.
 */
static bool return_to_directory(struct keeper *k)
{
	struct channel *c = k->channel;
	const struct recorder_config *config = k->prepare->config;
	struct segment s;
	struct error e;
	int ret;

	if (c->directory >= 0) {
		if (!is_elsewhere(config, c))
			return true;
		while (store_segment(&c->store, 0, &s))
			if (!drop(c, &s))
				return false;
		/* else it would hold up that it is unmounted, and that a recorder goes on there */
		close(c->directory);
		c->directory = -1;
		set_error(&e, ENOENT, "%s/%s was removed, moved or unmounted, with its records",
			  config->directory, c->config.name);
		log_error("channel %s: %s", c->config.name, e.text);
		store_fail(&c->store, &e);
	}
	ret = open_channel(config, c, k, come_back, &e);
	if (!ret) {
		log_info("channel %s: recording continues in %s/%s", c->config.name,
			 config->directory, c->config.name);
		k->said[0] = '\0';
	} else if (ret != -ECANCELED && is_new(k, &e)) {
		log_error("channel %s: %s; trying again every 10 s", c->config.name, e.text);
	}
	return !ret;
}

static void pause_until(struct prepare *p, uint64_t until)
{
	const struct timespec ts = timespec_of(until);

	pthread_mutex_lock(&p->lock);
	while (!atomic_load(&p->stop) &&
	       pthread_cond_timedwait(&p->changed, &p->lock, &ts) != ETIMEDOUT)
		;
	pthread_mutex_unlock(&p->lock);
}

/* all that the storage thread could write is on the medium */
static void mark(struct keeper *k)
{
	struct prepare *p = k->prepare;
	struct channel *c = k->channel;

	pthread_mutex_lock(&p->lock);
	while (!p->written)
		pthread_cond_wait(&p->changed, &p->lock);
	pthread_mutex_unlock(&p->lock);
	if (!atomic_load(&c->open))
		return;
	if (store_idle(&c->store) && !c->intake.gap)
		channel_mark_stopped(c);
	else
		log_warning("channel %s: shut down with %zu bytes that were not written",
			    c->config.name, buffer_backlog(&c->buffer));
}

static void *run(void *arg)
{
	struct keeper *k = arg;
	struct prepare *p = k->prepare;

	while (!atomic_load(&p->stop)) {
		uint64_t began = monotonic_ns();

		if (!atomic_load(&k->channel->open))
			try_to_open(k);
		if (atomic_load(&k->channel->open)) {
			drop_damaged(k);
			if (return_to_directory(k))
				make_segments(k);
			expire(k->channel);
		}
		pause_until(p, began + RETRY);
	}
	mark(k);
	return NULL;
}

int prepare_start(struct prepare *p, int tried_fd, struct error *e)
{
	int ret = 0;

	p->tried_fd = tried_fd;
	for (unsigned int i = 0; i < p->count && !ret; i++) {
		struct keeper *k = &p->keepers[i];

		if (k->channel->broken.code)
			continue;
		ret = thread_start(&k->thread, "prepare", 0, run, k, e);
		k->started = !ret;
	}
	return ret;
}

bool prepare_tried(const struct prepare *p)
{
	for (unsigned int i = 0; i < p->count; i++)
		if (p->keepers[i].started && !atomic_load(&p->channels[i].tried))
			return false;
	return true;
}

void prepare_ask_to_stop(struct prepare *p)
{
	pthread_mutex_lock(&p->lock);
	atomic_store(&p->stop, true);
	pthread_cond_broadcast(&p->changed);
	pthread_mutex_unlock(&p->lock);
}

bool prepare_end(struct prepare *p)
{
	const struct timespec until = timespec_of(monotonic_ns() + END_TIME);
	bool ended = true;

	pthread_mutex_lock(&p->lock);
	p->written = true;
	pthread_cond_broadcast(&p->changed);
	pthread_mutex_unlock(&p->lock);
	for (unsigned int i = 0; i < p->count; i++)
		if (p->keepers[i].started)
			ended &= !pthread_clockjoin_np(p->keepers[i].thread, NULL, CLOCK_MONOTONIC,
						       &until);
	return ended;
}
