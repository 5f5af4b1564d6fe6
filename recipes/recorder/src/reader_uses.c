// SPDX-License-Identifier: Apache-2.0
/* The segments that a channel's directory holds. */
#include "reader_state.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "about.h"
#include "scope.h"
#include "segment.h"

#define HEAD_TRIES 3

int reader_head_read(struct reader_file *f, int dir, const char *name, struct medium_use *use)
{
	const char *slash = strrchr(name, '/');
	int err = reader_file_open(f, dir, name);

	memset(use, 0, sizeof(*use));
	snprintf(use->file, sizeof(use->file), "%s", name);
	segment_index(slash ? slash + 1 : name, &use->index);
	for (int try = 0; try < HEAD_TRIES && !err; try++) {
		/* one that is being written may be seen half */
		if (try && !reader_file_again(f))
			break;
		medium_forget(&f->bytes);
		err = medium_head(&f->bytes, use);
		if (use->head.magic == EKR_SEGMENT_MAGIC || use->size < EKR_BLOCK)
			break;
	}
	return err;
}

static int add(struct reader_uses *uses, size_t *room, const struct medium_use *use)
{
	if (uses->count == *room) {
		size_t more = *room ? 2 * *room : 64;
		struct medium_use *p = reallocarray(uses->use, more, sizeof(*p));

		if (!p)
			return -ENOMEM;
		uses->use = p;
		*room = more;
	}
	uses->use[uses->count++] = *use;
	return 0;
}

static int read_head(struct reader_file *f, int dir, const char *name, struct medium_use *use)
{
	int err = reader_head_read(f, dir, name, use);

	/* removed since it was listed */
	if (!err || err == -ENOENT)
		return err;
	memset(use, 0, sizeof(*use));
	snprintf(use->file, sizeof(use->file), "%s", name);
	use->damage = err == -EINVAL || err == -ELOOP ? "not a regular file" :
		      err == -EACCES		      ? "no permission to read it" :
							"cannot be read";
	return 0;
}

/* the heads of the segments in @path below @dir; "" is @dir itself */
static int list_heads(struct reader_uses *uses, size_t *room, int dir, const char *path,
		      struct reader_file *f)
{
	CLOSED_LIST DIR *list = segment_list(dir, *path ? path : ".");
	struct dirent *entry;
	int err = 0;

	if (!list)
		return -errno;
	while (!err && (errno = 0, entry = readdir(list)) != NULL) {
		char name[MEDIUM_NAME];
		struct medium_use use;
		uint32_t index;

		if (!segment_index(entry->d_name, &index) ||
		    snprintf(name, sizeof(name), "%s%s%s", path, *path ? "/" : "", entry->d_name) >=
			    (int)sizeof(name))
			continue;
		err = read_head(f, dir, name, &use);
		if (!err)
			err = add(uses, room, &use);
		else if (err == -ENOENT)
			err = 0;
	}
	return err ? err : -errno;
}

/* segments that are protected from being overwritten are part of the recording */
static int list_kept(struct reader_uses *uses, size_t *room, int dir, struct reader_file *f)
{
	CLOSED_LIST DIR *list = segment_list(dir, MEDIUM_KEPT);
	struct dirent *entry;
	int err = 0;

	while (list && !err && (entry = readdir(list))) {
		char path[sizeof(MEDIUM_KEPT) + EKR_NAME_MAX + 1];

		if (*entry->d_name == '.' || snprintf(path, sizeof(path), MEDIUM_KEPT "/%s",
						      entry->d_name) >= (int)sizeof(path))
			continue;
		err = list_heads(uses, room, dir, path, f);
		/* removed since it was listed, or something else of that name */
		if (err == -ENOENT || err == -ENOTDIR || err == -ELOOP)
			err = 0;
	}
	return err;
}

struct opener {
	struct reader_file *file;
	int dir;
};

static struct medium_bytes *open_use(void *ctx, const struct medium_use *use)
{
	struct opener *o = ctx;

	return reader_file_open(o->file, o->dir, use->file) ? NULL : &o->file->bytes;
}

static int read_heads(struct reader_uses *uses, int dir, struct reader_file *f)
{
	struct opener opener = { f, dir };
	size_t room = 0, ahead = f->bytes.ahead;
	struct about about;
	int err;

	*uses = (struct reader_uses){ 0 };
	f->bytes.ahead = EKR_BLOCK;
	err = list_heads(uses, &room, dir, "", f);
	if (!err)
		err = list_kept(uses, &room, dir, f);
	f->bytes.ahead = READER_AHEAD;
	about_read(dir, &about);
	medium_judge(uses->use, uses->count, about.id, UINT64_MAX, open_use, &opener);
	f->bytes.ahead = ahead;
	reader_file_close(f);
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

int reader_uses_read(struct reader_uses *uses, int dir, struct reader_file *f, uint64_t seen)
{
	uint64_t known = 0;
	int err = read_heads(uses, dir, f);

	if (err || behind_hole(uses, seen, seen) == uses->count)
		return err;
	/* what is not there now, and began before this, is not there at all */
	for (size_t i = 0; i < uses->count; i++)
		if (uses->use[i].used)
			known = uses->use[i].head.generation;
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
	medium_sort(uses->use, uses->count);
	return 0;
}

void reader_uses_free(struct reader_uses *uses)
{
	free(uses->use);
	*uses = (struct reader_uses){ 0 };
}
