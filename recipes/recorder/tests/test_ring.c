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
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "clock.h"
#include "ring.h"

#define SIZE 100u

static unsigned char copy[RING_COPY];

/* a ring, and its memory as its writer maps it */
struct ends {
	struct ring ring;
	struct ekr_ring *writer;
	size_t size;
};

static void open_ends(struct ends *x, uint32_t slots)
{
	struct error e;

	assert_int_equal(ring_open(&x->ring, SIZE, slots, copy, &e), 0);
	x->size = EKR_RING_DATA + (size_t)slots * x->ring.stride;
	x->writer = mmap(NULL, x->size, PROT_READ | PROT_WRITE, MAP_SHARED, x->ring.memfd, 0);
	assert_ptr_not_equal(x->writer, MAP_FAILED);
}

static void close_ends(struct ends *x)
{
	munmap(x->writer, x->size);
	close(ring_close(&x->ring));
}

static struct ekr_slot *slot(const struct ends *x, uint64_t n)
{
	return (struct ekr_slot *)((unsigned char *)x->writer + EKR_RING_DATA +
				   n % x->ring.slots * x->ring.stride);
}

static void submit(const struct ends *x, uint64_t sequence)
{
	uint64_t head = atomic_load(&x->writer->head);

	slot(x, head)->length = 3;
	slot(x, head)->sequence = sequence;
	memcpy(slot(x, head)->payload, "abc", 3);
	atomic_store(&x->writer->head, head + 1);
}

/* what the recorder finds on its next turn */
static int peek(struct ends *x, struct record *record)
{
	ring_forget(&x->ring);
	return ring_peek(&x->ring, record);
}

static void records_are_taken_in_order(void **state)
{
	struct record record;
	struct ends x;

	(void)state;
	open_ends(&x, 16);
	assert_int_equal(peek(&x, &record), 0);
	for (uint64_t i = 0; i < 100; i++) {
		submit(&x, i);
		assert_false(ring_empty(&x.ring));
		assert_int_equal(peek(&x, &record), 1);
		assert_int_equal(record.sequence, i);
		assert_int_equal(record.length, 3);
		assert_memory_equal(record.payload, "abc", 3);
		ring_advance(&x.ring);
		assert_int_equal(atomic_load(&x.ring.state->tail), i + 1);
		assert_true(ring_empty(&x.ring));
	}
	close_ends(&x);
}

/* also where the slots that wait go around the end of the memory */
static void several_slots_are_copied_at_once(void **state)
{
	struct record record;
	struct ends x;
	uint64_t taken = 0, sequence = 0;

	(void)state;
	open_ends(&x, 16);
	for (int round = 0; round < 50; round++) {
		for (int i = 0; i < 11; i++)
			submit(&x, sequence++);
		ring_forget(&x.ring);
		while (ring_peek(&x.ring, &record) == 1) {
			assert_int_equal(record.sequence, taken++);
			assert_memory_equal(record.payload, "abc", 3);
			ring_advance(&x.ring);
		}
		assert_int_equal(taken, sequence);
	}
	close_ends(&x);
}

static void the_writer_cannot_resize_the_ring(void **state)
{
	struct ends x;

	(void)state;
	open_ends(&x, 16);
	assert_int_not_equal(ftruncate(x.ring.memfd, 4096), 0);
	assert_int_equal(errno, EPERM);
	assert_int_not_equal(ftruncate(x.ring.memfd, 1 << 20), 0);
	assert_int_not_equal(fcntl(x.ring.memfd, F_ADD_SEALS, F_SEAL_WRITE), 0);
	close_ends(&x);
}

/* the recorder maps the state: a writer that could free its page could make the recorder wait for that */
static void the_writer_can_only_read_the_state(void **state)
{
	const struct ekr_ring_state *seen;
	struct ends x;
	int fd;

	(void)state;
	open_ends(&x, 16);
	fd = x.ring.state_fd;
	assert_ptr_equal(mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0), MAP_FAILED);
	assert_int_not_equal(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096), 0);
	assert_int_not_equal(ftruncate(fd, 0), 0);
	assert_true(pwrite(fd, &x, 8, 0) < 0);
	seen = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(seen, MAP_FAILED);
	assert_int_not_equal(mprotect((void *)(uintptr_t)seen, 4096, PROT_READ | PROT_WRITE), 0);
	ring_shut(&x.ring, EPIPE);
	close_ends(&x);
	/* the state still has the errno */
	assert_int_equal(atomic_load(&seen->closed), EPIPE);
	munmap((void *)(uintptr_t)seen, 4096);
}

static void a_ring_whose_memory_was_freed_has_zeros(void **state)
{
	struct record record;
	struct ends x;

	(void)state;
	open_ends(&x, 16);
	submit(&x, 7);
	assert_int_equal(fallocate(x.ring.memfd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
				   EKR_RING_DATA, 4096),
			 0);
	assert_int_equal(peek(&x, &record), 1);
	assert_int_equal(record.sequence, 0);
	assert_int_equal(record.length, 0);
	close_ends(&x);
}

static void invalid_heads_and_lengths_are_refused(void **state)
{
	static const uint64_t heads[] = { 17, 1000, UINT64_MAX, UINT64_C(1) << 63 };
	struct record record;
	struct ends x;

	(void)state;
	open_ends(&x, 16);
	for (size_t i = 0; i < sizeof(heads) / sizeof(*heads); i++) {
		atomic_store(&x.writer->head, heads[i]);
		assert_int_equal(peek(&x, &record), -EPROTO);
	}
	atomic_store(&x.writer->head, 0);
	submit(&x, 0);
	slot(&x, 0)->length = SIZE + 1;
	assert_int_equal(peek(&x, &record), -EPROTO);
	slot(&x, 0)->length = SIZE;
	assert_int_equal(peek(&x, &record), 1);
	close_ends(&x);
}

/* AddressSanitizer and the end of the copy detect invalid accesses; every payload is read completely */
static void random_changes_of_the_shared_memory(void **state)
{
	struct record record;
	struct ends x;
	unsigned int sum = 0, taken = 0, refused = 0;

	(void)state;
	srandom(1);
	open_ends(&x, 16);
	for (int i = 0; i < 200000; i++) {
		unsigned char *bytes = (unsigned char *)x.writer;
		int ret;

		switch (random() % 4) {
		case 0:
			atomic_store(&x.writer->head, x.ring.tail + (uint64_t)random() % 20);
			break;
		case 1:
			slot(&x, (uint64_t)random())->length = (uint32_t)random() % (2 * SIZE);
			break;
		case 2:
			bytes[(size_t)random() % 512] = (unsigned char)random();
			break;
		default:
			slot(&x, (uint64_t)random())->length = (uint32_t)random() * 2u;
		}
		ret = peek(&x, &record);
		assert_true(ret == 0 || ret == 1 || ret == -EPROTO);
		refused += ret < 0;
		if (ret == 1) {
			for (uint32_t j = 0; j < record.length; j++)
				sum += ((const unsigned char *)record.payload)[j];
			ring_advance(&x.ring);
			taken++;
		}
	}
	assert_true(taken > 1000 && refused > 1000 && sum == 0);
	close_ends(&x);
}

/* counts up without pause, until it has counted to the end */
static void *count_up(void *arg)
{
	struct ends *x = arg;

	for (uint64_t i = 1; i <= 3000000; i++)
		atomic_store_explicit(&x->writer->lost, i, memory_order_relaxed);
	return NULL;
}

static void a_number_is_never_more_than_what_was_reached(void **state)
{
	uint64_t last = 0;
	pthread_t writer;
	struct ends x;

	(void)state;
	open_ends(&x, 16);
	assert_int_equal(pthread_create(&writer, NULL, count_up, &x), 0);
	while (last < 3000000) {
		uint64_t now = ring_lost(&x.ring);

		assert_true(now <= atomic_load(&x.writer->lost));
		last = now > last ? now : last;
	}
	pthread_join(writer, NULL);
	close_ends(&x);
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
	struct ends x;

	(void)state;
	open_ends(&x, 16);
	submit(&x, 0);
	submit(&x, 1);
	ring_shut(&x.ring, EPIPE);
	submit(&x, 2);
	/* shutting it again changes nothing */
	ring_shut(&x.ring, ESHUTDOWN);
	for (uint64_t i = 0; i < 2; i++) {
		assert_false(ring_empty(&x.ring));
		assert_int_equal(peek(&x, &record), 1);
		assert_int_equal(record.sequence, i);
		ring_advance(&x.ring);
	}
	assert_true(ring_empty(&x.ring));
	assert_int_equal(peek(&x, &record), 0);
	close_ends(&x);
}

/* two threads that start each round at the same time */
struct race {
	struct ends ends;
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
	const struct ekr_ring_state *seen = race->ends.ring.state;

	for (unsigned int i = 0; !race->finished; i++) {
		meet(race, 0, 2 * i + 1);
		atomic_store_explicit(&race->ends.writer->head, 1, memory_order_seq_cst);
		race->saw_closed = atomic_load_explicit(&seen->closed, memory_order_seq_cst) != 0;
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

	(void)state;
	open_ends(&race.ends, 16);
	assert_int_equal(pthread_create(&writer, NULL, write_last, &race), 0);
	for (unsigned int i = 0; !race.finished; i++) {
		bool seen;

		atomic_store(&race.ends.writer->head, 0);
		atomic_store(&race.ends.ring.state->closed, 0);
		race.ends.ring.shut = false;
		meet(&race, 1, 2 * i + 1);
		ring_shut(&race.ends.ring, ESHUTDOWN);
		seen = !ring_empty(&race.ends.ring);
		race.finished = monotonic_ns() > until;
		meet(&race, 1, 2 * i + 2);
		missed += !seen && !race.saw_closed;
	}
	pthread_join(writer, NULL);
	assert_int_equal(missed, 0);
	close_ends(&race.ends);
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
		cmocka_unit_test(several_slots_are_copied_at_once),
		cmocka_unit_test(the_writer_cannot_resize_the_ring),
		cmocka_unit_test(the_writer_can_only_read_the_state),
		cmocka_unit_test(a_ring_whose_memory_was_freed_has_zeros),
		cmocka_unit_test(invalid_heads_and_lengths_are_refused),
		cmocka_unit_test(random_changes_of_the_shared_memory),
		cmocka_unit_test(a_number_is_never_more_than_what_was_reached),
		cmocka_unit_test(doorbells_are_limited_in_rate),
		cmocka_unit_test(a_ring_that_is_shut_becomes_empty),
		cmocka_unit_test(the_last_record_is_taken_or_its_writer_sees_the_close),
		cmocka_unit_test(the_number_of_slots_covers_the_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
