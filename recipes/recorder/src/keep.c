// SPDX-License-Identifier: Apache-2.0
/* Protecting a range of a recording. */
#include "keep.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "clock.h"
#include "directory.h"
#include "marker.h"
#include "medium.h"
#include "scope.h"
#include "segment.h"

#define OPEN_DIRECTORY (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

/* calls @use with the directory of each incident */
static void for_each(int directory, void (*use)(int incident, void *to), void *to)
{
	CLOSED_LIST DIR *list = segment_list(directory, MEDIUM_KEPT);
	struct dirent *entry;

	while (list && (entry = readdir(list))) {
		CLOSED int fd = *entry->d_name == '.' ?
					-1 :
					openat(dirfd(list), entry->d_name, OPEN_DIRECTORY);

		if (fd >= 0)
			use(fd, to);
	}
}

static void add_bytes(int incident, void *to)
{
	CLOSED_LIST DIR *list = segment_list(incident, ".");
	struct dirent *entry;
	uint32_t index;
	struct stat st;

	while (list && (entry = readdir(list)))
		if (segment_index(entry->d_name, &index) &&
		    !fstatat(incident, entry->d_name, &st, AT_SYMLINK_NOFOLLOW))
			*(uint64_t *)to += (uint64_t)st.st_size;
}

/* raises the values of the struct marker @to */
static void read_note(int incident, void *to)
{
	char text[160] = "";
	struct marker m, *most = to;
	CLOSED int fd = openat(incident, KEEP_NEXT, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	ssize_t length = fd < 0 ? 0 : read(fd, text, sizeof(text) - 1);

	if (length <= 0 || !marker_parse(text, &m))
		return;
	if (m.generation > most->generation)
		most->generation = m.generation;
	if (m.next_sequence > most->next_sequence)
		most->next_sequence = m.next_sequence;
}

void keep_notes(int directory, uint64_t *generation, uint64_t *next)
{
	struct marker most = { .generation = *generation, .next_sequence = *next };

	for_each(directory, read_note, &most);
	*generation = most.generation;
	*next = most.next_sequence;
}

static int by_generation(const void *a, const void *b)
{
	const struct segment *x = a, *y = b;

	return (x->generation > y->generation) - (x->generation < y->generation);
}

/* the used segments, oldest first; to be freed */
static struct segment *list_used(struct channel *c, size_t *count)
{
	struct segment *all = calloc(SEGMENTS_MAX, sizeof(*all));

	*count = 0;
	for (unsigned int i = 0; all && store_segment(&c->store, i, &all[*count]); i++)
		*count += all[*count].generation > 0;
	if (all)
		qsort(all, *count, sizeof(*all), by_generation);
	return all;
}

/* A segment's first records may be older than its head: by the window, and by this if the medium stalled. */
#define STALL (10 * (int64_t)NSEC_PER_SEC)

/* A smaller difference is slewing, not a clock that was set. */
#define SLEW (2 * (int64_t)NSEC_PER_SEC)

/*
 * By how much the real-time clock was set back from the start of a use to that of the next one, ns; 0: it was
 * not, as far as the two starts tell.
 */
static int64_t set_back(const struct segment *use, const struct segment *next)
{
	__int128 jump = (__int128)next->opened_realtime_ns - use->opened_realtime_ns;

	if (use->opened_ns && next->opened_ns)
		jump -= (__int128)next->opened_ns - use->opened_ns;
	return jump < -SLEW ? (int64_t)-jump : 0;
}

/*
 * A use has records from its start, or from a little before it, to the start of the next one. If the clock was
 * set back meanwhile, its records may be older by as much, and the next start is no limit.
 */
static void find_range(const struct segment *s, size_t count, int64_t from, int64_t to,
		       int64_t early, size_t *first, size_t *last)
{
	/* where the newest use ends */
	const struct segment now = { .opened_ns = monotonic_ns(),
				     .opened_realtime_ns = realtime_ns() };

	*first = count;
	*last = 0;
	for (size_t i = 0; i < count; i++) {
		const struct segment *next = i + 1 < count ? &s[i + 1] : &now;
		const int64_t back = set_back(&s[i], next);
		const bool ends_before = next != &now && !back && next->opened_realtime_ns < from;

		if (ends_before || (__int128)s[i].opened_realtime_ns - early - back > to)
			continue;
		if (*first == count)
			*first = i;
		*last = i;
	}
}

static int move(struct channel *c, const struct segment *s, int incident, struct error *e)
{
	char name[SEGMENT_NAME];

	segment_name(name, s->index);
	if (!segments_drop(c, s))
		return set_error(e, EBUSY, "%s is being written without an end", name);
	if (renameat(c->directory, name, incident, name))
		return set_errno(e, errno, "moving %s", name);
	return 0;
}

static int write_note(const struct channel *c, int incident, uint64_t generation, struct error *e)
{
	const struct marker next = { .generation = generation,
				     .next_sequence = atomic_load(&c->store.durable_to) };
	char text[160];
	const int length = marker_print(text, sizeof(text), &next);
	CLOSED int fd = openat(incident, KEEP_NEXT, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);

	if (fd >= 0 && write(fd, text, (size_t)length) == length && !fsync(fd))
		return 0;
	return set_errno(e, errno ? errno : ENOSPC, "writing where the recording continues");
}

static int open_incident(struct channel *c, const char *incident, struct error *e)
{
	char path[sizeof(MEDIUM_KEPT) + EKR_NAME_MAX + 2];
	int fd;

	snprintf(path, sizeof(path), MEDIUM_KEPT "/%.*s", (int)EKR_NAME_MAX, incident);
	if (mkdirat(c->directory, MEDIUM_KEPT, 0755) && errno != EEXIST)
		return set_errno(e, errno, "creating %s", MEDIUM_KEPT);
	if (mkdirat(c->directory, path, 0755))
		return errno == EEXIST ?
			       set_error(e, EEXIST, "there is an incident %s already", incident) :
			       set_errno(e, errno, "creating %s", path);
	fd = openat(c->directory, path, OPEN_DIRECTORY);
	return fd < 0 ? set_errno(e, errno, "opening %s", path) : fd;
}

/* Moves the segments from place @first to @last. */
static int fill_incident(struct channel *c, int fd, const struct segment *s, size_t count,
			 size_t first, size_t last, struct error *e)
{
	/* before the newest segment leaves the directory */
	int ret = write_note(c, fd, s[count - 1].generation, e);

	for (size_t i = first; i <= last && !ret; i++)
		ret = move(c, &s[i], fd, e);
	if (!ret && (fsync(fd) || fsync(c->directory)))
		ret = set_errno(e, errno, "flushing the directories");
	return ret;
}

/* Removes an incident without segments after a failure, so that its name can be used again. */
static void undo_incident(struct channel *c, int fd, const char *incident, struct error *e)
{
	char path[sizeof(MEDIUM_KEPT) + EKR_NAME_MAX + sizeof(KEEP_NEXT) + 3];
	const struct error why = *e;
	uint64_t kept = 0;

	add_bytes(fd, &kept);
	snprintf(path, sizeof(path), MEDIUM_KEPT "/%.*s", (int)EKR_NAME_MAX, incident);
	if (!kept) {
		unlinkat(fd, KEEP_NEXT, 0);
		unlinkat(c->directory, path, AT_REMOVEDIR);
	} else {
		set_error(e, why.code,
			  "%.100s; %" PRIu64
			  " bytes are kept as %s; to try again, use another name",
			  why.text, kept, incident);
	}
}

int keep_range(struct channel *c, const char *incident, int64_t from, int64_t to, struct error *e)
{
	size_t count, first, last;
	FREED struct segment *s = list_used(c, &count);
	CLOSED int fd = -1;
	uint64_t kept = 0, number;
	int ret;

	if (!s)
		return set_error(e, ENOMEM, "out of memory");
	find_range(s, count, from, to, (int64_t)c->config.window_ns + STALL, &first, &last);
	number = first < count ? last - first + 1 : 0;
	for_each(c->directory, add_bytes, &kept);
	if (!number)
		return set_error(e, ENOENT, "it has no records of that time");
	if (kept + number * c->config.segment > c->config.keep)
		return set_error(e, EDQUOT,
				 "%" PRIu64 " segments of %" PRIu64 " bytes, with %" PRIu64
				 " bytes that are kept already, are more than keep = %" PRIu64
				 "; keep less, or raise keep",
				 number, c->config.segment, kept, c->config.keep);
	if (atomic_load(&c->made) < number + 2)
		return set_error(
			e, ENOSPC,
			"%" PRIu64
			" of its %u segments have records of that time, and two must remain; keep less",
			number, atomic_load(&c->made));
	fd = open_incident(c, incident, e);
	if (fd < 0)
		return fd;
	ret = fill_incident(c, fd, s, count, first, last, e);
	if (ret) {
		undo_incident(c, fd, incident, e);
		return ret;
	}
	log_info("channel %s: %" PRIu64 " segments are kept as %s", c->config.name, number,
		 incident);
	return (int)number;
}
