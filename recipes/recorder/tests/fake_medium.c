// SPDX-License-Identifier: Apache-2.0
#include "fake_medium.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "segment.h"

/* the descriptor is the number of the segment */
int test_medium_write(struct test_medium *m, const struct store_write *w, unsigned int steps)
{
	const unsigned int i = (unsigned int)w->fd;

	for (unsigned int step = 0; step < 4; step++) {
		bool nothing = step < 2 ? !w->head : step == 2 && !w->length;
		bool bad = (unsigned int)random() % 100 < m->fail;

		if (nothing)
			continue;
		if (!steps--)
			return -ECANCELED;
		if (bad && random() % 2)
			return -EIO;
		if (step == 0)
			memcpy(m->cache[i], w->head, EKR_BLOCK);
		else if (step == 2)
			memcpy(m->cache[i] + w->offset, w->data, w->length);
		else
			memcpy(m->flash[i], m->cache[i], MEDIUM_SIZE);
		/* a step may fail although it took effect */
		if (bad)
			return -EIO;
	}
	return 0;
}

void test_medium_cut(struct test_medium *m)
{
	for (unsigned int i = 0; i < MEDIUM_SEGMENTS; i++)
		for (size_t at = 0; at < MEDIUM_SIZE; at += SECTOR)
			if (random() % 2)
				memcpy(m->flash[i] + at, m->cache[i] + at, SECTOR);
	memcpy(m->cache, m->flash, sizeof(m->cache));
}

static ssize_t read_blocks(void *ctx, uint32_t index, void *to, size_t length, uint64_t offset)
{
	struct test_medium *m = ctx;

	if (index >= MEDIUM_SEGMENTS || m->unreadable[index])
		return -EIO;
	if (offset >= MEDIUM_SIZE)
		return 0;
	if (length > MEDIUM_SIZE - offset)
		length = MEDIUM_SIZE - offset;
	memcpy(to, m->cache[index] + offset, length);
	return (ssize_t)length;
}

struct medium_bytes test_medium_bytes(struct test_medium *m)
{
	static unsigned char buffer[RECOVER_BUFFER] __attribute__((aligned(EKR_BLOCK)));

	return (struct medium_bytes){ .read = read_blocks,
				      .ctx = m,
				      .buffer = buffer,
				      .room = sizeof(buffer),
				      .ahead = RECOVER_AHEAD };
}

void test_medium_list(struct medium_use segments[MEDIUM_SEGMENTS])
{
	for (uint32_t i = 0; i < MEDIUM_SEGMENTS; i++) {
		segments[i] = (struct medium_use){ .index = i, .place = i, .size = MEDIUM_SIZE };
		segment_name(segments[i].file, i);
	}
}

const struct medium_use *test_medium_at(const struct medium_use *segments, uint32_t index)
{
	while (segments->index != index)
		segments++;
	return segments;
}

void test_medium_make(struct test_medium *m, const char *name, const uint8_t id[16])
{
	memset(m, 0, sizeof(*m));
	for (uint32_t i = 0; i < MEDIUM_SEGMENTS; i++) {
		struct ekr_segment_head head = { .size = MEDIUM_SIZE,
						 .index = i,
						 .record_size = 600 };

		memcpy(head.name, name, strlen(name));
		memcpy(head.channel_id, id, sizeof(head.channel_id));
		memcpy(m->cache[i], &head, sizeof(head));
		segment_seal_head(m->cache[i]);
	}
	memcpy(m->flash, m->cache, sizeof(m->cache));
}
