// SPDX-License-Identifier: Apache-2.0
/* Heads of segments and of records: checked before they are believed. */
#include "reader_head.h"

#include <dirent.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "crc.h"

#if __BYTE_ORDER != __LITTLE_ENDIAN
#error "the medium is little-endian; this reader takes it as it is"
#endif

static bool all_zeros(const unsigned char *bytes, size_t length)
{
	return !length || (!*bytes && !memcmp(bytes, bytes + 1, length - 1));
}

const char *reader_head_check(const unsigned char block[EKR_BLOCK])
{
	static const unsigned char no_crc[sizeof(uint32_t)];
	const size_t at = offsetof(struct ekr_segment_head, crc);
	struct ekr_segment_head h;
	uint32_t crc;

	memcpy(&h, block, sizeof(h));
	if (h.magic != EKR_SEGMENT_MAGIC)
		return all_zeros(block, EKR_BLOCK) ? "head: zeros" : "head: bad magic";
	crc = crc32c(0, block, at);
	crc = crc32c(crc, no_crc, sizeof(no_crc));
	crc = crc32c(crc, block + at + sizeof(no_crc), EKR_BLOCK - at - sizeof(no_crc));
	if (crc != h.crc)
		return "head: bad CRC";
	if (h.version != EKR_FORMAT_VERSION)
		return "head: unknown format version";
	if (h.size % EKR_BLOCK || h.size < 2 * EKR_BLOCK)
		return "head: bad size";
	if (h.record_size > EKR_RECORD_MAX)
		return "head: bad record size";
	if (h.name[sizeof(h.name) - 1])
		return "head: the channel's name is not terminated";
	return NULL;
}

enum reader_verdict reader_look(struct reader_file *f, const struct ekr_segment_head *head,
				uint64_t offset, struct ekr_record_head *record,
				const unsigned char **payload, int *error)
{
	const size_t fixed = sizeof(*record);
	const unsigned char *bytes;
	uint32_t crc, length;

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
	/* read once more with the payload, perhaps anew from the medium: it is these bytes that count */
	memcpy(record, bytes, fixed);
	if (record->length != length)
		return READER_BAD_CRC;
	crc = record->crc;
	record->crc = 0;
	if (crc32c(crc32c(0, record, fixed), bytes + fixed, length) != crc)
		return READER_BAD_CRC;
	record->crc = crc;
	*payload = bytes + fixed;
	return record->generation > head->generation ? READER_NEWER : READER_VALID;
}

/*
 * Without a head the records still tell their generation. The first batch of
 * a use is at the beginning, so the first record that holds is of the last use
 * if its block was not lost as well.
 */
static void rescue(struct reader_file *f, struct reader_use *use)
{
	struct ekr_segment_head *h = &use->head;
	struct ekr_record_head record;
	const unsigned char *payload;
	size_t ahead = f->ahead;
	int err;

	memset(h, 0, sizeof(*h));
	h->index = (uint32_t)strtoul(use->file, NULL, 10);
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

int reader_head_read(struct reader_file *f, const char *name, struct reader_use *use)
{
	const unsigned char *block;
	int err;

	memset(use, 0, sizeof(*use));
	memcpy(use->file, name, READER_NAME - 1);
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
		use->damage = reader_head_check(block);
		if (!use->damage)
			break;
	}
	if (use->damage) {
		rescue(f, use);
		return 0;
	}
	memcpy(&use->head, block, sizeof(use->head));
	use->used = use->head.generation > 0;
	if (use->head.index != strtoul(use->file, NULL, 10)) {
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
	return strlen(name) == READER_NAME - 1 && strspn(name, "0123456789") == 8 &&
	       !strcmp(name + 8, ".seg");
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

static int read_heads(struct reader_uses *uses, int dir, struct reader_file *f)
{
	size_t room = 0, ahead = f->ahead;
	struct dirent *entry;
	int copy, err = 0;
	DIR *d;

	*uses = (struct reader_uses){ 0 };
	/* a position of its own, so that each reading begins at the beginning */
	copy = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (copy < 0)
		return -errno;
	d = fdopendir(copy);
	if (!d) {
		err = -errno;
		close(copy);
		return err;
	}
	f->ahead = EKR_BLOCK;
	while (!err && (errno = 0, entry = readdir(d)) != NULL) {
		struct reader_use use;

		if (!reader_is_segment(entry->d_name))
			continue;
		err = reader_file_open(f, dir, entry->d_name);
		if (!err)
			err = reader_head_read(f, entry->d_name, &use);
		if (err == -ENOENT) {
			err = 0;
			continue;
		}
		if (err) {
			memset(&use, 0, sizeof(use));
			memcpy(use.file, entry->d_name, READER_NAME - 1);
			use.damage = err == -EINVAL || err == -ELOOP ? "not a regular file" :
				     err == -EACCES		     ? "no permission to read it" :
								       "cannot be read";
		}
		err = add(uses, &room, &use);
	}
	if (!err && errno)
		err = -errno;
	f->ahead = ahead;
	reader_file_close(f);
	closedir(d);
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
