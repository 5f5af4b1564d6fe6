// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "ring.h"

#define SIZE 100u

static struct ekr_slot *slot(struct ring *r, uint64_t n)
{
	return (struct ekr_slot *)((unsigned char *)r->map + EKR_RING_DATA +
				   n % r->slots * r->stride);
}

static void submit(struct ring *r, uint64_t sequence)
{
	uint64_t head = atomic_load(&r->map->head);

	slot(r, head)->length = 3;
	slot(r, head)->sequence = sequence;
	memcpy(slot(r, head)->payload, "abc", 3);
	atomic_store(&r->map->head, head + 1);
}

static void records_come_out_in_order(void **state)
{
	struct record record;
	struct ring r;
	struct error e;

	(void)state;
	assert_int_equal(ring_open(&r, SIZE, 16, &e), 0);
	assert_int_equal(ring_peek(&r, &record), 0);
	for (uint64_t i = 0; i < 100; i++) {
		submit(&r, i);
		assert_false(ring_empty(&r));
		assert_int_equal(ring_peek(&r, &record), 1);
		assert_int_equal(record.sequence, i);
		assert_int_equal(record.length, 3);
		assert_memory_equal(record.payload, "abc", 3);
		ring_advance(&r);
		assert_int_equal(atomic_load(&r.map->tail), i + 1);
		assert_true(ring_empty(&r));
	}
	ring_close(&r);
}

static void the_writer_cannot_cut_it(void **state)
{
	struct ring r;
	struct error e;

	(void)state;
	assert_int_equal(ring_open(&r, SIZE, 16, &e), 0);
	assert_int_not_equal(ftruncate(r.memfd, 4096), 0);
	assert_int_equal(errno, EPERM);
	assert_int_not_equal(ftruncate(r.memfd, 1 << 20), 0);
	assert_int_not_equal(fcntl(r.memfd, F_ADD_SEALS, F_SEAL_WRITE), 0);
	ring_close(&r);
}

static void what_cannot_be_is_told(void **state)
{
	static const uint64_t heads[] = { 17, 1000, UINT64_MAX, UINT64_C(1) << 63 };
	struct record record;
	struct ring r;
	struct error e;

	(void)state;
	assert_int_equal(ring_open(&r, SIZE, 16, &e), 0);
	for (size_t i = 0; i < sizeof(heads) / sizeof(*heads); i++) {
		atomic_store(&r.map->head, heads[i]);
		assert_int_equal(ring_peek(&r, &record), -EPROTO);
	}
	atomic_store(&r.map->head, 0);
	submit(&r, 0);
	slot(&r, 0)->length = SIZE + 1;
	assert_int_equal(ring_peek(&r, &record), -EPROTO);
	slot(&r, 0)->length = SIZE;
	assert_int_equal(ring_peek(&r, &record), 1);
	ring_close(&r);
}

/* ASan and the guard of the mapping see a step beyond; payloads are touched whole */
static void noise(void **state)
{
	struct record record;
	struct ring r;
	struct error e;
	unsigned int sum = 0, taken = 0, refused = 0;

	(void)state;
	srandom(1);
	assert_int_equal(ring_open(&r, SIZE, 16, &e), 0);
	for (int i = 0; i < 200000; i++) {
		unsigned char *bytes = (unsigned char *)r.map;
		int ret;

		switch (random() % 4) {
		case 0:
			atomic_store(&r.map->head, r.tail + (uint64_t)random() % 20);
			break;
		case 1:
			slot(&r, (uint64_t)random())->length = (uint32_t)random() % (2 * SIZE);
			break;
		case 2:
			/* everything is the writer's to spoil, also what only the recorder should write */
			bytes[(size_t)random() % 512] = (unsigned char)random();
			break;
		default:
			slot(&r, (uint64_t)random())->length = (uint32_t)random() * 2u;
		}
		ret = ring_peek(&r, &record);
		assert_true(ret == 0 || ret == 1 || ret == -EPROTO);
		refused += ret < 0;
		if (ret == 1) {
			for (uint32_t j = 0; j < record.length; j++)
				sum += ((const unsigned char *)record.payload)[j];
			ring_advance(&r);
			taken++;
		}
	}
	assert_true(taken > 1000 && refused > 1000 && sum == 0);
	ring_close(&r);
}

static void slots_hold_the_time(void **state)
{
	(void)state;
	assert_int_equal(ring_slots(16384, 5000000, 400000000), 128);
	assert_int_equal(ring_slots(100, 0, 400000000), 256);
	assert_int_equal(ring_slots(100, 1000000000, 400000000), 16);
	/* bounded memory, but never less than a few */
	assert_int_equal(ring_slots(1 << 20, 1000, 400000000), 16);
	assert_true(ring_slots(1, 1, 400000000) * UINT64_C(64) <= 32 << 20);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(records_come_out_in_order),
		cmocka_unit_test(the_writer_cannot_cut_it),
		cmocka_unit_test(what_cannot_be_is_told),
		cmocka_unit_test(noise),
		cmocka_unit_test(slots_hold_the_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
