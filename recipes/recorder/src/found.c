// SPDX-License-Identifier: Apache-2.0
/* Finding the segments of a channel. */
#include "found.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "directory.h"
#include "scope.h"
#include "segment.h"

/* a limit of this process, and no fault of the file: another attempt may succeed */
static bool is_want(int code)
{
	return code == EMFILE || code == ENFILE || code == ENOMEM;
}

/* a file that exists but cannot be opened: nothing takes its place; reported when all files are known */
static void note_closed(struct found *f, const struct error *why)
{
	f->closed++;
	f->why = *why;
}

static ssize_t read_found(void *ctx, uint32_t place, void *to, size_t length, uint64_t offset)
{
	const struct found *f = ctx;
	ssize_t n = TEMP_FAILURE_RETRY(pread(f->files[place].fd, to, length, (off_t)offset));

	return n < 0 ? -errno : n;
}

static int list_segments(struct channel *c, struct found *f, struct error *e)
{
	CLOSED_LIST DIR *dir = segment_list(c->directory, ".");
	struct dirent *entry;
	bool more = false;
	uint32_t index;
	int ret;

	f->empty = true;
	if (!dir)
		return set_errno(e, errno, "listing the segments");
	while ((errno = 0, entry = readdir(dir))) {
		struct medium_use *u = &f->segments[f->r.count];
		struct stat st;
		struct error why;
		int fd;

		if (strstr(entry->d_name, ".seg"))
			f->empty = false;
		if (!segment_index(entry->d_name, &index))
			continue;
		/* its name stays taken, whatever the file is */
		if (index >= c->next_index)
			c->next_index = index + 1;
		if (f->r.count == SEGMENTS_MAX) {
			more = true;
			continue;
		}
		/* past the page cache, which may hold what direct writes have replaced */
		fd = openat(c->directory, entry->d_name,
			    O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_DIRECT);
		/* removed since it was listed */
		if (fd < 0 && errno == ENOENT)
			continue;
		if (fd < 0) {
			set_errno(&why, errno, "opening %s", entry->d_name);
			if (is_want(why.code)) {
				*e = why;
				return -e->code;
			}
			note_closed(f, &why);
		}
		/* also if it cannot be opened: it may have been the newest */
		f->files[f->r.count] = (struct found_file){ .fd = fd, .write = -1 };
		*u = (struct medium_use){
			.index = index,
			.place = (uint32_t)f->r.count++,
			.size = fd < 0 || fstat(fd, &st) ? 0 : (uint64_t)st.st_size,
		};
		segment_name(u->file, index);
	}
	/* with half a list, the other segments would be taken for lost */
	ret = errno ? set_errno(e, errno, "listing the segments") : 0;
	if (more)
		log_warning("channel %s: more than %u segments; the others are not used",
			    c->config.name, SEGMENTS_MAX);
	return ret;
}

int found_settle(struct channel *c, const struct found *f, struct error *e)
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
	/* under the lock, because the statistics show both */
	HOLD(&c->store.lock);
	c->config.segment = size;
	c->config.segments = (c->config.retain + size - 1) / size + 1;
	if (c->config.segments > SEGMENTS_MAX)
		c->config.segments = SEGMENTS_MAX;
	return 0;
}

int found_open(const struct channel *c, struct found *f, struct error *e)
{
	size_t count = 0;

	for (size_t i = 0; i < f->r.count; i++) {
		struct found_file *file = found_file(f, i);
		struct error why;
		struct stat st;

		if (file->fd < 0)
			continue;
		if (fstat(file->fd, &st) || !S_ISREG(st.st_mode) ||
		    (uint64_t)st.st_size != c->config.segment) {
			log_warning("channel %s: %s is not a file of %" PRIu64
				    " bytes; it is not used",
				    c->config.name, f->segments[i].file, c->config.segment);
			continue;
		}
		file->write = segment_open(c->directory, f->segments[i].index, &why);
		file->usable = file->write >= 0;
		count += file->usable;
		if (file->usable)
			continue;
		if (is_want(why.code)) {
			*e = why;
			return -e->code;
		}
		if (why.code != ENOENT)
			note_closed(f, &why);
	}
	/* also with the segments that can be created, there would not be two to record in */
	if (f->closed && count < 2 && f->closed + 2 > c->config.segments)
		return set_error(e, f->why.code, "%u of its segments exist but cannot be used: %s",
				 f->closed, f->why.text);
	return 0;
}

static size_t count_usable(const struct found *f)
{
	size_t count = 0;

	for (size_t i = 0; i < f->r.count; i++)
		count += f->files[i].usable;
	return count;
}

/* the segment with the oldest use; of unused ones the last that was created; never the newest use */
size_t found_oldest(const struct found *f)
{
	size_t found = f->r.count;

	for (size_t i = 0; i < f->r.count; i++) {
		const struct medium_use *s = &f->segments[i], *o = &f->segments[found];

		if (f->files[s->place].usable && s != f->r.newest &&
		    (found == f->r.count || s->head.generation < o->head.generation ||
		     (s->head.generation == o->head.generation && s->index > o->index)))
			found = i;
	}
	return found;
}

size_t found_surplus(const struct channel *c, const struct found *f)
{
	size_t count = count_usable(f);

	return count > c->config.segments ? count - c->config.segments : 0;
}

/* the unfinished segment that is created next is replaced; nothing else would remove the others */
static void clean(const struct channel *c)
{
	bool more = segments_lack(c);
	CLOSED_LIST DIR *dir = segment_list(c->directory, ".");
	struct dirent *entry;
	uint32_t index;

	while (dir && (entry = readdir(dir)))
		if (segment_unfinished(entry->d_name, &index) &&
		    !(more && index == c->next_index) && unlinkat(c->directory, entry->d_name, 0))
			log_warning("channel %s: removing the unfinished segment %s: %s",
				    c->config.name, entry->d_name, strerror(errno));
}

/* the reason of a channel that has fewer or more segments than its configuration demands */
static void tell(struct channel *c, const struct found *f)
{
	struct error e = { 0 };

	if (f->closed) {
		set_error(&e, f->why.code,
			  "%u segments cannot be used, and none is created in their place: %s",
			  f->closed, f->why.text);
		log_warning("channel %s: %s", c->config.name, e.text);
	}
	if (!f->closed && found_surplus(c, f)) {
		set_error(&e, EFBIG,
			  "it has %zu segments more than retain needs; they are kept and used. "
			  "'ek-recorder trim --yes %s' deletes the oldest",
			  found_surplus(c, f), c->config.name);
		log_warning("channel %s: %s", c->config.name, e.text);
	}
	c->less = e;
	if (f->closed || !segments_lack(c))
		store_fail(&c->store, &e);
}

void found_add(struct channel *c, struct found *f, bool reuse_newest)
{
	c->closed = f->closed;
	for (size_t i = 0; i < f->r.count; i++) {
		const struct medium_use *s = &f->segments[i];
		struct found_file *file = found_file(f, i);
		struct segment segment = {
			.index = s->index,
			.generation = s->head.generation,
			.opened_realtime_ns = s->head.realtime_ns,
			.fd = file->write,
		};

		if (!file->usable)
			continue;
		if (!s->valid) {
			log_warning("channel %s: %s: %s; the segment will be reused%s",
				    c->config.name, s->file, s->damage,
				    s->used ? " in its turn" : "");
			/* of a copy under another name nothing counts */
			segment.generation = s->used ? s->head.generation : 0;
		}
		if (reuse_newest && s == f->r.newest)
			segment.generation = 0;
		if (!memcmp(s->head.boot_id, c->store.boot_id, sizeof(s->head.boot_id)))
			segment.opened_ns = s->head.monotonic_ns;
		store_add(&c->store, &segment);
		file->write = -1;
		atomic_fetch_add(&c->made, 1);
	}
	tell(c, f);
	clean(c);
}

int found_look(struct channel *c, found_use *use, struct error *e)
{
	FREED struct found *f = calloc(1, sizeof(*f));
	/* mapped, so that it is freed at once: all memory is locked */
	struct medium_bytes bytes = {
		.read = read_found,
		.ctx = f,
		.room = RECOVER_BUFFER,
		.ahead = RECOVER_AHEAD,
		.buffer = mmap(NULL, RECOVER_BUFFER, PROT_READ | PROT_WRITE,
			       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
	};
	int ret = 0;

	if (!f || bytes.buffer == MAP_FAILED)
		ret = set_error(e, ENOMEM, "reading the segments: out of memory");
	if (!ret) {
		about_read(c->directory, &f->about);
		f->r.segments = f->segments;
		memcpy(f->r.id, f->about.id, sizeof(f->r.id));
		ret = list_segments(c, f, e);
	}
	if (!ret)
		ret = recover(&bytes, c->config.name, &f->r, e);
	if (!ret)
		ret = use(c, f, e);
	for (size_t i = 0; f && i < f->r.count; i++) {
		if (f->files[i].fd >= 0)
			close(f->files[i].fd);
		if (f->files[i].write >= 0)
			close(f->files[i].write);
	}
	if (bytes.buffer != MAP_FAILED)
		munmap(bytes.buffer, RECOVER_BUFFER);
	return ret;
}
