// SPDX-License-Identifier: Apache-2.0
/*
 * Segments with any content, read by recovery and by the reader. The first bytes of an input
 * choose which CRCs are made valid, so that a search reaches what comes behind these checks.
 */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "fuzz.h"
#include "reader.h"
#include "recover.h"
#include "segment.h"

#define SIZE	 (6u * EKR_BLOCK)
#define SEGMENTS 2u

static unsigned char image[SEGMENTS][SIZE] __attribute__((aligned(EKR_BLOCK)));
static unsigned char buffer[RECOVER_BUFFER] __attribute__((aligned(EKR_BLOCK)));

static ssize_t read_image(void *ctx, uint32_t index, void *to, size_t length, uint64_t offset)
{
	(void)ctx;
	if (offset >= SIZE)
		return 0;
	if (length > SIZE - offset)
		length = SIZE - (size_t)offset;
	memcpy(to, image[index] + offset, length);
	return (ssize_t)length;
}

static void make_head(unsigned int i, const uint8_t *values)
{
	struct ekr_segment_head *head = (struct ekr_segment_head *)image[i];

	*head = (struct ekr_segment_head){ .name = "arm",
					   .channel_id = { 5 },
					   .generation = values[0] % 4,
					   .first_sequence = values[1],
					   .size = values[2] % 8 ? SIZE : (uint64_t)values[2] << 9,
					   .index = i,
					   .record_size = values[3] * 40u,
					   .boot_id = { values[3] % 2 } };
	segment_seal_head(image[i]);
}

/* makes the CRC of what looks like a record valid */
static void repair(unsigned int i, size_t at)
{
	struct ekr_segment_head head;
	struct ekr_record_head *r = (struct ekr_record_head *)(image[i] + at);
	struct record_use use;

	memcpy(&head, image[i], sizeof(head));
	use = segment_use(&head);
	r->magic = EKR_RECORD_MAGIC;
	r->generation = head.generation;
	r->length %= 2000;
	if (at + record_bytes(r->length) > SIZE)
		return;
	r->flags %= 4;
	r->batch %= 8;
	r->sequence %= 1000;
	/* batch_seal() seals one record */
	{
		uint64_t batch = r->batch;
		unsigned char after[EKR_BLOCK];
		size_t bytes = record_bytes(r->length), end = whole_blocks(bytes);
		size_t rest = at + end <= SIZE ? end - bytes : 0;

		if (!rest && bytes % EKR_BLOCK)
			return;
		memcpy(after, image[i] + at + bytes, rest);
		batch_seal(image[i] + at, bytes, &use, batch);
		memcpy(image[i] + at + bytes, after, rest);
	}
}

/* Recovery and the reader say the same of each segment. */
static void compare(const struct recovered *recovered, const struct reader_uses *uses)
{
	FUZZ_CHECK(uses->count == recovered->count);
	for (size_t i = 0; i < uses->count; i++) {
		const struct medium_use *a = &recovered->segments[i], *b = &uses->use[i];

		FUZZ_CHECK(a->index == b->index && a->valid == b->valid && a->used == b->used);
		FUZZ_CHECK(!memcmp(&a->head, &b->head, sizeof(a->head)));
		FUZZ_CHECK(!a->damage == !b->damage &&
			   (!a->damage || !strcmp(a->damage, b->damage)));
	}
}

static void read_all(const char *directory, const struct recovered *recovered)
{
	const struct reader_options options = { .range = READER_ALL };
	struct reader_event event;
	uint64_t last = 0;
	struct reader *r;
	bool any = false;

	for (unsigned int i = 0; i < SEGMENTS; i++) {
		char path[64];
		int fd;

		snprintf(path, sizeof(path), "%s/%08u.seg", directory, i);
		fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
		FUZZ_CHECK(fd >= 0 && pwrite(fd, image[i], SIZE, 0) == (ssize_t)SIZE);
		close(fd);
	}
	if (!reader_open(&r, directory, &options)) {
		if (recovered)
			compare(recovered, reader_uses(r));
		for (int n = 0; !reader_next(r, &event) && event.kind != READER_END; n++) {
			FUZZ_CHECK(n < 100000);
			/* damage of a head may say that sequences begin again */
			if (event.kind == READER_DAMAGE)
				any = false;
			if (event.kind != READER_RECORD)
				continue;
			FUZZ_CHECK(event.length <= EKR_RECORD_MAX);
			/* sequences only begin again where the reader said so */
			FUZZ_CHECK(!any || event.sequence != last);
			last = event.sequence;
			any = true;
		}
	}
	reader_close(r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static char directory[] = "/dev/shm/fuzz-XXXXXX";
	static bool made;
	struct medium_use segments[SEGMENTS];
	struct recovered r = { .segments = segments, .count = SEGMENTS };
	struct medium_bytes bytes = {
		.read = read_image, .buffer = buffer, .room = sizeof(buffer), .ahead = RECOVER_AHEAD
	};
	struct error e;
	bool recovered;

	if (!made)
		FUZZ_CHECK(mkdtemp(directory));
	made = true;
	memset(image, 0, sizeof(image));
	if (size < 16)
		return 0;
	for (unsigned int i = 0; i < SEGMENTS; i++) {
		size_t half = (size - 16) / SEGMENTS,
		       length = half < SIZE - EKR_BLOCK ? half : SIZE - EKR_BLOCK;

		memcpy(image[i] + EKR_BLOCK, data + 16 + i * half, length);
		if (data[0] >> i & 1)
			make_head(i, data + 2 + 4 * i);
		else
			memcpy(image[i], data, 16);
		for (size_t at = EKR_BLOCK, n = 0;
		     at + sizeof(struct ekr_record_head) < SIZE && n < 32; n++) {
			if (!(data[10 + n % 6] >> (n % 8) & 1)) {
				at = whole_blocks(at + 1);
				continue;
			}
			repair(i, at);
			at += record_bytes(((struct ekr_record_head *)(image[i] + at))->length %
					   2000);
		}
		segments[i] = (struct medium_use){ .index = i, .place = i, .size = SIZE };
		segment_name(segments[i].file, i);
	}
	recovered = !recover(&bytes, "arm", &r, &e);
	FUZZ_CHECK(!recovered || !r.newest || r.end <= SIZE);
	read_all(directory, recovered ? &r : NULL);
	return 0;
}
