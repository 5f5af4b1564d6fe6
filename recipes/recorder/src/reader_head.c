// SPDX-License-Identifier: Apache-2.0
/* Heads of segments and of records: checked before they are believed. */
#include "reader_head.h"

#include <dirent.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "about.h"
#include "segment.h"

#if __BYTE_ORDER != __LITTLE_ENDIAN
#error "the medium is little-endian; this reader takes it as it is"
#endif

static bool all_zeros(const unsigned char *bytes, size_t length)
{
	return !length || (!*bytes && !memcmp(bytes, bytes + 1, length - 1));
}

enum reader_verdict reader_look(struct reader_file *f, const struct ekr_segment_head *head,
				uint64_t offset, struct ekr_record_head *record,
				const unsigned char **payload, int *error)
{
	struct record_use use = segment_use(head);
	const size_t fixed = sizeof(*record);
	const unsigned char *bytes;
	uint32_t length;

	*error = offset > head->size || fixed > head->size - offset ?
			 -ENODATA :
			 reader_file_bytes(f, offset, fixed, &bytes);
	if (*error)
		return READER_IO;
	memcpy(record, bytes, fixed);
	if (record->magic != EKR_RECORD_MAGIC) {
		/* what is in the next block is of the next batch */
		const size_t rest = EKR_BLOCK - (size_t)(offset % EKR_BLOCK);

		return all_zeros(bytes, rest < fixed ? rest : fixed) ? READER_ZEROS :
								       READER_NO_RECORD;
	}
	/* a generation is in the CRC, but what an earlier use left need not be read */
	if (record->generation < head->generation)
		return READER_STALE;
	length = record->length;
	/* a gap may be larger than the records of a channel */
	if (length > head->record_size && length != sizeof(struct ekr_gap))
		return READER_BAD_LENGTH;
	if (length > head->size - offset - fixed)
		return READER_BAD_LENGTH;
	*error = reader_file_bytes(f, offset, fixed + length, &bytes);
	if (*error)
		return READER_IO;
	/* these bytes count: they may have been read again from the medium, with the payload */
	memcpy(record, bytes, fixed);
	use.generation = record->generation;
	if (record->length != length || !record_at(bytes, record_bytes(length), &use))
		return READER_BAD_CRC;
	*payload = bytes + fixed;
	return record->generation > head->generation ? READER_NEWER : READER_VALID;
}

static uint32_t index_of(const char *file)
{
	const char *slash = strrchr(file, '/');

	return (uint32_t)strtoul(slash ? slash + 1 : file, NULL, 10);
}

/*
 * Without a head the records still tell their generation. The first batch of
 * a use is at the beginning, so the first record that holds is of the last use
 * if its block was not lost as well.
 */
static void rescue(struct reader_file *f, struct reader_use *use, const uint8_t id[16])
{
	struct ekr_segment_head *h = &use->head;
	struct ekr_record_head record;
	const unsigned char *payload;
	size_t ahead = f->ahead;
	int err;

	memset(h, 0, sizeof(*h));
	memcpy(h->channel_id, id, sizeof(h->channel_id));
	h->index = index_of(use->file);
	h->size = f->size / EKR_BLOCK * EKR_BLOCK;
	h->record_size = EKR_RECORD_MAX;
	f->ahead = READER_AHEAD;
	for (uint64_t at = EKR_BLOCK; at < h->size; at += EKR_BLOCK) {
		/* of generation 0 by this head: each one that holds is newer */
		if (reader_look(f, h, at, &record, &payload, &err) != READER_NEWER)
			continue;
		h->generation = record.generation;
		h->first_sequence = record.sequence;
		h->realtime_ns = record.realtime_ns;
		h->monotonic_ns = record.monotonic_ns;
		use->used = true;
		use->rescued = true;
		break;
	}
	f->ahead = ahead;
}

int reader_head_read(struct reader_file *f, const char *name, const uint8_t *id,
		     struct reader_use *use)
{
	const unsigned char *block;
	int err;

	memset(use, 0, sizeof(*use));
	snprintf(use->file, sizeof(use->file), "%s", name);
	for (int try = 0; try < 3; try++) {
		/* a head that is being written may be seen half */
		if (try && !reader_file_again(f))
			break;
		reader_file_drop(f);
		err = reader_file_bytes(f, 0, EKR_BLOCK, &block);
		if (err) {
			use->damage = err == -ENODATA ? "head: the file is shorter than a block" :
							"head: cannot be read";
			return err == -ENODATA ? 0 : err;
		}
		use->damage = segment_head_problem(block);
		if (!use->damage)
			break;
	}
	if (use->damage) {
		if (id)
			rescue(f, use, id);
		return 0;
	}
	memcpy(&use->head, block, sizeof(use->head));
	use->used = use->head.generation > 0;
	if (use->head.index != index_of(use->file)) {
		/* a copy: its records are those of the other */
		use->damage = "head: its index does not match the name of the file";
		use->used = false;
	} else if (use->head.size != f->size) {
		use->damage = use->head.size > f->size ? "the file is shorter than its head says" :
							 "the file is longer than its head says";
	}
	if (use->head.size > f->size)
		use->head.size = f->size / EKR_BLOCK * EKR_BLOCK;
	return 0;
}

static int by_generation(const void *a, const void *b)
{
	const struct reader_use *x = a, *y = b;

	if (x->head.generation != y->head.generation)
		return x->head.generation < y->head.generation ? -1 : 1;
	/* a head that holds before one that was made up */
	if (x->rescued != y->rescued)
		return x->rescued ? 1 : -1;
	return x->head.index < y->head.index ? -1 : x->head.index > y->head.index;
}

bool reader_is_segment(const char *name)
{
	return strlen(name) == 12 && strspn(name, "0123456789") == 8 && !strcmp(name + 8, ".seg");
}

static int add(struct reader_uses *uses, size_t *room, const struct reader_use *use)
{
	if (uses->count == *room) {
		size_t more = *room ? 2 * *room : 64;
		struct reader_use *p = reallocarray(uses->use, more, sizeof(*p));

		if (!p)
			return -ENOMEM;
		uses->use = p;
		*room = more;
	}
	uses->use[uses->count++] = *use;
	return 0;
}

/* segments of another channel, and copies: reported, not read */
static void doubt(struct reader_uses *uses)
{
	const struct reader_use *newest = NULL, *before = NULL;

	for (size_t i = 0; i < uses->count; i++)
		if (!uses->use[i].rescued && (!uses->use[i].damage || uses->use[i].used))
			newest = &uses->use[i];
	for (size_t i = 0; i < uses->count; i++) {
		struct reader_use *u = &uses->use[i];

		if (newest && !u->rescued && u->used &&
		    memcmp(u->head.channel_id, newest->head.channel_id,
			   sizeof(u->head.channel_id)) != 0) {
			u->damage = "head: belongs to another channel than the newest segment";
			u->used = false;
		} else if (i && u->used && uses->use[i - 1].used &&
			   uses->use[i - 1].head.generation == u->head.generation) {
			u->damage = "head: another segment has the same generation";
			u->used = false;
		} else if (before && u->used &&
			   u->head.first_sequence < before->head.first_sequence) {
			u->damage =
				"head: its first sequence is lower than that of the previous use";
		}
		if (u->used)
			before = u;
	}
}

/* Reads what the records of segments with a damaged head tell, once the channel's id is known. */
static void rescue_all(struct reader_uses *uses, int dir, struct reader_file *f)
{
	uint64_t newest = 0;
	bool any = false;

	for (size_t i = 0; i < uses->count; i++) {
		const struct reader_use *u = &uses->use[i];

		if (u->damage || (any && u->head.generation < newest))
			continue;
		memcpy(uses->id, u->head.channel_id, sizeof(uses->id));
		newest = u->head.generation;
		any = true;
	}
	if (!any)
		about_id(dir, uses->id);
	for (size_t i = 0; i < uses->count; i++) {
		struct reader_use *u = &uses->use[i];

		if (u->damage && u->head.magic != EKR_SEGMENT_MAGIC &&
		    strcmp(u->damage, SEGMENT_OLD) != 0 && !reader_file_open(f, dir, u->file))
			rescue(f, u, uses->id);
	}
}

/* the heads of the segments in @path below @dir; "" is @dir itself */
static int list_heads(struct reader_uses *uses, size_t *room, int dir, const char *path,
		      struct reader_file *f)
{
	/* a position of its own, so that each reading begins at the beginning */
	int copy = openat(dir, *path ? path : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	DIR *d = copy < 0 ? NULL : fdopendir(copy);
	struct dirent *entry;
	int err = 0;

	if (!d) {
		err = -errno;
		if (copy >= 0)
			close(copy);
		return err;
	}
	while (!err && (errno = 0, entry = readdir(d)) != NULL) {
		char name[READER_NAME];
		struct reader_use use;

		if (!reader_is_segment(entry->d_name) ||
		    snprintf(name, sizeof(name), "%s%s%s", path, *path ? "/" : "", entry->d_name) >=
			    (int)sizeof(name))
			continue;
		err = reader_file_open(f, dir, name);
		if (!err)
			err = reader_head_read(f, name, NULL, &use);
		if (err == -ENOENT) {
			err = 0;
			continue;
		}
		if (err) {
			memset(&use, 0, sizeof(use));
			snprintf(use.file, sizeof(use.file), "%s", name);
			use.damage = err == -EINVAL || err == -ELOOP ? "not a regular file" :
				     err == -EACCES		     ? "no permission to read it" :
								       "cannot be read";
		}
		err = add(uses, room, &use);
	}
	if (!err && errno)
		err = -errno;
	closedir(d);
	return err;
}

/* those that are protected from being overwritten are part of the recording */
static int list_kept(struct reader_uses *uses, size_t *room, int dir, struct reader_file *f)
{
	int copy = openat(dir, READER_KEPT, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW),
	    err = 0;
	DIR *d = copy < 0 ? NULL : fdopendir(copy);
	struct dirent *entry;

	if (!d && copy >= 0)
		close(copy);
	while (d && !err && (entry = readdir(d))) {
		char path[sizeof(READER_KEPT) + EKR_NAME_MAX + 1];

		if (*entry->d_name == '.' || snprintf(path, sizeof(path), READER_KEPT "/%s",
						      entry->d_name) >= (int)sizeof(path))
			continue;
		err = list_heads(uses, room, dir, path, f);
		/* removed since it was listed, or something else of that name */
		if (err == -ENOENT || err == -ENOTDIR || err == -ELOOP)
			err = 0;
	}
	if (d)
		closedir(d);
	return err;
}

static int read_heads(struct reader_uses *uses, int dir, struct reader_file *f)
{
	size_t room = 0, ahead = f->ahead;
	int err;

	*uses = (struct reader_uses){ 0 };
	f->ahead = EKR_BLOCK;
	err = list_heads(uses, &room, dir, "", f);
	if (!err)
		err = list_kept(uses, &room, dir, f);
	rescue_all(uses, dir, f);
	f->ahead = ahead;
	reader_file_close(f);
	if (uses->count)
		qsort(uses->use, uses->count, sizeof(*uses->use), by_generation);
	doubt(uses);
	return err;
}

/*
 * Of the uses after @seen, the first before which one is not there that began after
 * @known: its segment's head was perhaps read just before it began. count: none.
 */
static size_t behind_hole(const struct reader_uses *uses, uint64_t seen, uint64_t known)
{
	uint64_t before = seen;
	bool full = !seen;

	for (size_t i = 0; i < uses->count; i++) {
		const uint64_t generation = uses->use[i].head.generation;

		/* nothing was overwritten yet: the oldest is the first */
		full = full && (uses->use[i].used || uses->use[i].damage);
		if (!uses->use[i].used || generation <= seen)
			continue;
		if ((before || !full) && generation - 1 > (before > known ? before : known))
			return i;
		before = generation;
	}
	return uses->count;
}

static uint64_t newest(const struct reader_uses *uses)
{
	uint64_t generation = 0;

	for (size_t i = 0; i < uses->count; i++)
		if (uses->use[i].used && uses->use[i].head.generation > generation)
			generation = uses->use[i].head.generation;
	return generation;
}

int reader_uses_read(struct reader_uses *uses, int dir, struct reader_file *f, uint64_t seen)
{
	uint64_t known;
	int err = read_heads(uses, dir, f);

	if (err || behind_hole(uses, seen, seen) == uses->count)
		return err;
	/* what is not there now, and began before this, is not there at all */
	known = newest(uses);
	reader_uses_free(uses);
	err = read_heads(uses, dir, f);
	if (err)
		return err;
	for (size_t i = behind_hole(uses, seen, known); i < uses->count; i++) {
		if (!uses->use[i].used)
			continue;
		uses->use[i].used = false;
		uses->use[i].head.generation = 0;
	}
	if (uses->count)
		qsort(uses->use, uses->count, sizeof(*uses->use), by_generation);
	return 0;
}

void reader_uses_free(struct reader_uses *uses)
{
	free(uses->use);
	*uses = (struct reader_uses){ 0 };
}
