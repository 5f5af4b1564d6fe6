// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "clock.h"
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

static void records_are_taken_in_order(void **state)
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

static void the_writer_cannot_resize_the_ring(void **state)
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

static void invalid_heads_and_lengths_are_refused(void **state)
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

/* AddressSanitizer and the end of the mapping detect invalid accesses; every payload is read completely */
static void random_changes_of_the_shared_memory(void **state)
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
			/* the writer can change everything, also what only the recorder should write */
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

static void a_writer_that_keeps_a_closed_ring_keeps_one_page(void **state)
{
	struct error e;
	struct ring r;
	struct stat st;
	int kept;

	(void)state;
	assert_int_equal(ring_open(&r, SIZE, 1024, &e), 0);
	kept = dup(r.memfd);
	memset(r.map, 1, r.size);
	ring_shut(&r, EPIPE);
	ring_close(&r);
	assert_int_equal(fstat(kept, &st), 0);
	assert_int_equal(st.st_blocks * 512, sysconf(_SC_PAGESIZE));
	/* the page has the reason for which the recorder closed the ring */
	assert_int_equal(pread(kept, &e.code, sizeof(e.code), offsetof(struct ekr_ring, closed)),
			 sizeof(e.code));
	assert_int_equal(e.code, EPIPE);
	close(kept);
}

static void doorbells_are_limited_in_rate(void **state)
{
	uint64_t now = 100 * NSEC_PER_SEC;
	struct ring r = { 0 };
	unsigned int accepted = 0;
	bool ignored = false;

	(void)state;
	/* a burst is accepted, whatever happened before */
	for (unsigned int i = 0; i < RING_BELLS - 1; i++)
		assert_true(ring_rung(&r, now));
	assert_false(ring_rung(&r, now));
	assert_false(ring_may_ring(&r, now));
	now += RING_BELLS / 2 * RING_BELL_TIME;
	assert_false(ring_may_ring(&r, now - 1));
	assert_true(ring_may_ring(&r, now));
	/* the event that arrives when the recorder listens again is accepted */
	assert_true(ring_rung(&r, now));
	/* one per RING_BELL_TIME is always accepted */
	for (unsigned int i = 0; i < 10000; i++)
		assert_true(ring_rung(&r, now += RING_BELL_TIME));
	/* without pause for a second: at most that rate plus one burst */
	for (uint64_t end = now + NSEC_PER_SEC; now < end; now += 1000) {
		ignored = ignored && !ring_may_ring(&r, now);
		if (ignored)
			continue;
		accepted++;
		ignored = !ring_rung(&r, now);
	}
	assert_in_range(accepted, 900, 1000 + RING_BELLS);
}

/* otherwise a writer that does not check `closed` could keep the recorder busy for ever */
static void a_ring_that_is_shut_becomes_empty(void **state)
{
	struct record record;
	struct ring r;
	struct error e;

	(void)state;
	assert_int_equal(ring_open(&r, SIZE, 16, &e), 0);
	submit(&r, 0);
	submit(&r, 1);
	ring_shut(&r, EPIPE);
	submit(&r, 2);
	/* shutting it again changes nothing */
	ring_shut(&r, ESHUTDOWN);
	for (uint64_t i = 0; i < 2; i++) {
		assert_false(ring_empty(&r));
		assert_int_equal(ring_peek(&r, &record), 1);
		assert_int_equal(record.sequence, i);
		ring_advance(&r);
	}
	assert_true(ring_empty(&r));
	assert_int_equal(ring_peek(&r, &record), 0);
	ring_close(&r);
}

/* two threads that start each round at the same time */
struct race {
	struct ring ring;
	_Atomic unsigned int round[2];
	bool saw_closed; /* the writer saw that the ring is shut */
	bool finished;
};

static void meet(struct race *race, unsigned int who, unsigned int round)
{
	atomic_store(&race->round[who], round);
	for (unsigned int i = 1; atomic_load(&race->round[!who]) < round; i++)
		if (i % 4096 == 0)
			sched_yield();
}

/* does what ek_writer_commit() does at its end */
static void *write_last(void *arg)
{
	struct race *race = arg;
	struct ekr_ring *map = race->ring.map;

	for (unsigned int i = 0; !race->finished; i++) {
		meet(race, 0, 2 * i + 1);
		atomic_store_explicit(&map->head, 1, memory_order_seq_cst);
		race->saw_closed = atomic_load_explicit(&map->closed, memory_order_seq_cst) != 0;
		meet(race, 0, 2 * i + 2);
	}
	return NULL;
}

/* on a machine with one CPU the threads never overlap, and the test cannot fail */
static void the_last_record_is_taken_or_its_writer_sees_the_close(void **state)
{
	struct race race = { 0 };
	uint64_t until = monotonic_ns() + 300 * NSEC_PER_MSEC;
	unsigned int missed = 0;
	pthread_t writer;
	struct error e;

	(void)state;
	assert_int_equal(ring_open(&race.ring, SIZE, 16, &e), 0);
	assert_int_equal(pthread_create(&writer, NULL, write_last, &race), 0);
	for (unsigned int i = 0; !race.finished; i++) {
		bool seen;

		atomic_store(&race.ring.map->head, 0);
		atomic_store(&race.ring.map->closed, 0);
		race.ring.shut = false;
		meet(&race, 1, 2 * i + 1);
		ring_shut(&race.ring, ESHUTDOWN);
		seen = !ring_empty(&race.ring);
		race.finished = monotonic_ns() > until;
		meet(&race, 1, 2 * i + 2);
		missed += !seen && !race.saw_closed;
	}
	pthread_join(writer, NULL);
	assert_int_equal(missed, 0);
	ring_close(&race.ring);
}

static void the_number_of_slots_covers_the_time(void **state)
{
	(void)state;
	assert_int_equal(ring_slots(16384, 5000000), 128);
	assert_int_equal(ring_slots(100, 0), 256);
	assert_int_equal(ring_slots(100, 1000000000), 16);
	/* memory is limited, but there are always a few slots */
	assert_int_equal(ring_slots(1 << 20, 1000), 16);
	assert_true(ring_slots(1, 1) * UINT64_C(64) <= 32 << 20);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(records_are_taken_in_order),
		cmocka_unit_test(the_writer_cannot_resize_the_ring),
		cmocka_unit_test(invalid_heads_and_lengths_are_refused),
		cmocka_unit_test(random_changes_of_the_shared_memory),
		cmocka_unit_test(a_writer_that_keeps_a_closed_ring_keeps_one_page),
		cmocka_unit_test(doorbells_are_limited_in_rate),
		cmocka_unit_test(a_ring_that_is_shut_becomes_empty),
		cmocka_unit_test(the_last_record_is_taken_or_its_writer_sees_the_close),
		cmocka_unit_test(the_number_of_slots_covers_the_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
