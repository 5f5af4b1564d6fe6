// SPDX-License-Identifier: Apache-2.0
/*
 * Recovery and the reader get the same media, with random damage to heads and records. They must say
 * the same of each segment, and recovery must continue after exactly the records that the reader returns.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "batch.h"
#include "reader.h"
#include "recording.h"
#include "recover.h"
#include "segment.h"

#define SEGMENTS 4u
#define SIZE	 (64u << 10)
#define RECORD	 1000u
#define ROUNDS	 600

static unsigned char image[SEGMENTS][SIZE];
static uint64_t noise_state = 88172645463325252u;
static unsigned int round_now;

static uint64_t noise(uint64_t below)
{
	noise_state ^= noise_state << 13;
	noise_state ^= noise_state >> 7;
	noise_state ^= noise_state << 17;
	return noise_state % below;
}

static ssize_t read_image(void *ctx, uint32_t place, void *to, size_t length, uint64_t offset)
{
	(void)ctx;
	if (offset >= SIZE)
		return 0;
	if (length > SIZE - offset)
		length = SIZE - (size_t)offset;
	memcpy(to, image[place] + offset, length);
	return (ssize_t)length;
}

static int recover_image(struct recovered *r, struct medium_use segments[SEGMENTS])
{
	static unsigned char buffer[RECOVER_BUFFER] __attribute__((aligned(EKR_BLOCK)));
	struct medium_bytes bytes = {
		.read = read_image, .buffer = buffer, .room = sizeof(buffer), .ahead = RECOVER_AHEAD
	};
	struct error e;

	for (uint32_t i = 0; i < SEGMENTS; i++) {
		segments[i] = (struct medium_use){ .index = i, .place = i, .size = SIZE };
		segment_name(segments[i].file, i);
	}
	*r = (struct recovered){ .segments = segments, .count = SEGMENTS };
	return recover(&bytes, "test", r, &e);
}

/* What the reader returns. */
struct returned {
	bool any;	   /* there is a record; then: */
	uint64_t last;	   /* its sequence */
	uint64_t in_order; /* the last sequence before the first fault in its use */
	bool faults;	   /* a fault other than of a head was reported */
};

static struct returned read_back(const struct recording *rec, const struct recovered *r)
{
	const struct reader_options options = { .range = READER_ALL };
	struct returned found = { 0 };
	uint64_t faulty = 0; /* generation of the last use with a fault */
	struct reader_event e;
	struct reader *reader;

	assert_int_equal(reader_open(&reader, rec->directory, &options), 0);
	assert_int_equal(reader_uses(reader)->count, r->count);
	for (size_t i = 0; i < r->count; i++) {
		const struct medium_use *a = &r->segments[i], *b = &reader_uses(reader)->use[i];

		if (a->index != b->index || a->valid != b->valid || a->used != b->used ||
		    memcmp(&a->head, &b->head, sizeof(a->head)) != 0 ||
		    strcmp(a->damage ? a->damage : "", b->damage ? b->damage : "") != 0)
			fail_msg("round %u: recovery says of %s: %s, the reader says of %s: %s",
				 round_now, a->file, a->damage, b->file, b->damage);
	}
	for (;;) {
		assert_int_equal(reader_next(reader, &e), 0);
		if (e.kind == READER_END)
			break;
		if (e.kind == READER_RECORD || e.kind == READER_GAP) {
			found.any = true;
			found.last = e.sequence;
			if (e.generation != faulty)
				found.in_order = e.sequence;
		} else if (e.offset) {
			faulty = e.generation;
			found.faults = true;
		}
	}
	reader_close(reader);
	return found;
}

static void compare(const struct recording *rec)
{
	struct medium_use segments[SEGMENTS];
	struct recovered r;
	struct returned found;

	/* a channel with a segment of another recording is not recorded in */
	if (recover_image(&r, segments))
		return;
	found = read_back(rec, &r);
	if (r.only_restarts || !r.any)
		return;
	/* no sequence of a record that was returned in order is given again */
	if (found.any && r.next_sequence <= found.in_order)
		fail_msg("round %u: the next sequence is %llu, and the reader returned %llu",
			 round_now, (unsigned long long)r.next_sequence,
			 (unsigned long long)found.in_order);
	/* and nothing counts that the reader does not return */
	if (!found.any || r.last_sequence > found.last)
		fail_msg("round %u: the last sequence is %llu, and the reader returned %llu",
			 round_now, (unsigned long long)r.last_sequence,
			 (unsigned long long)found.last);
	if (found.any && !found.faults && r.last_sequence != found.last)
		fail_msg(
			"round %u: the last sequence is %llu, and the reader says %llu without a fault",
			round_now, (unsigned long long)r.last_sequence,
			(unsigned long long)found.last);
}

/* six uses of four segments, with batches of one to three blocks; the last use is shorter */
static void record(struct recording *rec)
{
	recording_begin(rec, SEGMENTS, SIZE, RECORD);
	for (unsigned int use = 0; use < 6; use++) {
		recording_use(rec);
		if (use == 3)
			recording_gap(rec, EKR_GAP_RESTART, 0, 1);
		for (unsigned int batch = 0; batch < (use < 5 ? 6 : 3); batch++) {
			for (unsigned int i = 0; i < 1 + batch % 3 * 3; i++)
				recording_add(rec, i % 2 ? RECORD : RECORD - 40);
			recording_flush(rec);
		}
	}
}

static void damage(uint64_t kind, unsigned int i)
{
	/* often where a head begins, because most decisions depend on these */
	uint64_t at = noise(3) ? noise(SIZE / EKR_BLOCK) * EKR_BLOCK + noise(152) : noise(SIZE);
	uint64_t block = at / EKR_BLOCK * EKR_BLOCK;

	switch (kind) {
	case 0: /* a flipped bit */
		image[i][at] ^= (unsigned char)(1u << noise(8));
		break;
	case 1: /* a lost sector */
		memset(image[i] + at / 512 * 512, 0, 512);
		break;
	case 2: /* a head that is gone */
		memset(image[i], (int)noise(256), EKR_BLOCK);
		break;
	case 3: /* blocks from another place, with valid CRCs */
		memcpy(image[i] + block,
		       image[noise(SEGMENTS)] + noise(SIZE / EKR_BLOCK) * EKR_BLOCK, EKR_BLOCK);
		break;
	default: /* a block of noise */
		for (size_t k = 0; k < EKR_BLOCK; k++)
			image[i][block + k] = (unsigned char)noise(256);
	}
}

static void they_agree_about_any_damage(void **state)
{
	static unsigned char intact[SEGMENTS][SIZE];
	struct recording rec;

	(void)state;
	record(&rec);
	for (unsigned int i = 0; i < SEGMENTS; i++)
		recording_peek(&rec, i, 0, intact[i], SIZE);
	memcpy(image, intact, sizeof(image));
	compare(&rec);
	for (round_now = 1; round_now <= ROUNDS; round_now++) {
		memcpy(image, intact, sizeof(image));
		for (uint64_t n = 1 + noise(4); n; n--)
			damage(noise(5), (unsigned int)noise(SEGMENTS));
		for (unsigned int i = 0; i < SEGMENTS; i++)
			recording_poke(&rec, i, 0, image[i], SIZE);
		compare(&rec);
	}
	recording_end(&rec);
}

/* before the records of the last use, a record of an earlier use is still there */
static void they_agree_about_a_head_that_is_lost_with_the_first_batch(void **state)
{
	_Alignas(8) unsigned char block[EKR_BLOCK];
	const struct ekr_record_head *first = (const struct ekr_record_head *)block;
	struct medium_use segments[SEGMENTS];
	struct ekr_segment_head head;
	struct record_use earlier;
	struct recording rec;
	struct recovered r;

	(void)state;
	record(&rec);
	/* generation 5 is in segment 0, as generation 1 was */
	head = rec.head;
	head.index = 0;
	earlier = segment_use(&head);
	earlier.generation = 1;
	recording_peek(&rec, 0, EKR_BLOCK, block, sizeof(block));
	batch_seal(block, record_bytes(first->length), &earlier, 0);
	recording_poke(&rec, 0, EKR_BLOCK, block, sizeof(block));
	memset(block, 0xff, sizeof(block));
	recording_poke(&rec, 0, 0, block, sizeof(block));
	for (unsigned int i = 0; i < SEGMENTS; i++)
		recording_peek(&rec, i, 0, image[i], SIZE);
	assert_int_equal(recover_image(&r, segments), 0);
	read_back(&rec, &r);
	for (size_t i = 0; i < SEGMENTS; i++)
		if (!segments[i].index)
			assert_int_equal(segments[i].head.generation, 5);
	recording_end(&rec);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(they_agree_about_any_damage),
		cmocka_unit_test(they_agree_about_a_head_that_is_lost_with_the_first_batch),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
