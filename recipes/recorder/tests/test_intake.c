// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "clock.h"
#include "intake.h"

struct fixture {
	struct buffer buffer;
	struct intake in;
	struct intake_writer writer;
};

#define WINDOW (100 * NSEC_PER_MSEC)

static unsigned char payload[1000];

static int set_up(void **state)
{
	static struct fixture f;
	struct error e;

	memset(&f, 0, sizeof(f));
	if (buffer_open(&f.buffer, 4096, 3 * 4096, &e))
		return -1;
	intake_open(&f.in, &f.buffer, sizeof(payload), WINDOW, 10);
	f.writer = (struct intake_writer){ .next = 10,
					   .since_ns = monotonic_ns() - NSEC_PER_SEC,
					   .records = true };
	*state = &f;
	return 0;
}

static int tear_down(void **state)
{
	buffer_close(&((struct fixture *)*state)->buffer);
	return 0;
}

static int take(struct fixture *f, uint64_t sequence, uint32_t length, bool drop)
{
	const struct record r = {
		.sequence = sequence,
		.monotonic_ns = monotonic_ns(),
		.payload = payload,
		.length = length,
	};

	return intake_take(&f->in, &f->writer, &r, drop);
}

/* record @n of a chunk */
static const struct ekr_record_head *at(const struct chunk *c, unsigned int n)
{
	const unsigned char *p = c->data;

	while (n--)
		p += record_bytes(((const struct ekr_record_head *)p)->length);
	assert_true(p < c->data + c->used);
	return (const struct ekr_record_head *)p;
}

static void assert_gap(const struct ekr_record_head *head, uint32_t reason, uint32_t count,
		       uint64_t sequence)
{
	const struct ekr_gap *gap = (const struct ekr_gap *)(head + 1);

	assert_int_equal(head->flags, EKR_RECORD_GAP);
	assert_int_equal(head->length, sizeof(*gap));
	assert_int_equal(gap->reason, reason);
	assert_int_equal(gap->count_lost, count);
	assert_int_equal(head->sequence, sequence);
}

static void a_skipped_sequence_becomes_a_gap(void **state)
{
	struct fixture *f = *state;
	struct chunk *c;

	assert_int_equal(take(f, 10, 8, true), 0);
	assert_int_equal(take(f, 15, 8, true), 0);
	c = buffer_take(&f->buffer, true);
	assert_int_equal(at(c, 0)->sequence, 10);
	assert_gap(at(c, 1), EKR_GAP_OVERRUN, 4, 14);
	assert_int_equal(at(c, 2)->sequence, 15);
	assert_int_equal(f->in.overrun, 4);
	assert_int_equal(f->in.records, 2);
	assert_int_equal(c->records, 2);
}

static void invalid_sequences_and_lengths_are_refused(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(take(f, 9, 8, true), -EPROTO);
	assert_int_equal(take(f, 10, sizeof(payload) + 1, true), -EPROTO);
	assert_int_equal(take(f, UINT64_MAX, 8, true), -EPROTO);
	assert_int_equal(f->in.next_sequence, 10);
	assert_int_equal(buffer_backlog(&f->buffer), 0);
}

/* the buffer holds three chunks of three records */
static void an_overrun_is_recorded_once_there_is_space(void **state)
{
	struct fixture *f = *state;
	struct chunk *c;

	for (uint64_t i = 10; i < 19; i++)
		assert_int_equal(take(f, i, sizeof(payload), true), 0);
	/* without @drop nothing is lost: the writer can submit it again */
	assert_int_equal(take(f, 19, sizeof(payload), false), -ENOBUFS);
	assert_int_equal(f->in.next_sequence, 19);
	for (uint64_t i = 19; i < 24; i++)
		assert_int_equal(take(f, i, sizeof(payload), true), -ENOBUFS);
	assert_int_equal(f->in.overrun, 5);
	c = buffer_take(&f->buffer, false);
	buffer_release(&f->buffer, c);
	assert_int_equal(take(f, 24, 0, true), 0);
	buffer_take(&f->buffer, true);
	c = buffer_take(&f->buffer, true);
	/* one gap for all five, before the next record */
	assert_int_equal(at(c, 2)->sequence, 18);
	assert_gap(at(c, 3), EKR_GAP_OVERRUN, 5, 23);
	assert_int_equal(at(c, 4)->sequence, 24);
}

static void a_gap_waits_for_space(void **state)
{
	struct fixture *f = *state;
	uint64_t i = 10;
	struct chunk *c;

	/* fill the buffer completely, so that not even a gap fits: 4096 = 3 * 1064 + 904 */
	for (int n = 0; n < 3; n++) {
		for (int k = 0; k < 3; k++)
			assert_int_equal(take(f, i++, sizeof(payload), true), 0);
		assert_int_equal(take(f, i++, 904 - 64, true), 0);
	}
	assert_int_equal(take(f, i++, 1, true), -ENOBUFS);
	intake_lose(&f->in, EKR_GAP_WRITER, 0);
	assert_false(intake_tell(&f->in));
	buffer_release(&f->buffer, buffer_take(&f->buffer, false));
	assert_true(intake_tell(&f->in));
	assert_true(intake_tell(&f->in));
	for (int n = 0; n < 3; n++)
		c = buffer_take(&f->buffer, true);
	/* one gap with the first reason; the loss of unknown length counts as one */
	assert_gap(at(c, 0), EKR_GAP_OVERRUN, 2, i);
	assert_int_equal(c->first, i - 1);
	assert_int_equal(f->in.next_sequence, i + 1);
}

/* if intake_has_room() is true, the next record fits, even if a gap has to precede it */
static void has_room_includes_space_for_a_gap(void **state)
{
	struct fixture *f = *state;
	uint64_t sequence = 10;

	/* leaves 1048 bytes of each chunk: a record needs 1064, with a gap 1136 */
	for (int chunk = 0; chunk < 3; chunk++) {
		assert_true(intake_has_room(&f->in));
		assert_int_equal(take(f, sequence++, 1000, false), 0);
		assert_int_equal(take(f, sequence++, 1000, false), 0);
		assert_int_equal(take(f, sequence++, 850, false), 0);
		if (chunk < 2)
			assert_true(intake_has_room(&f->in));
		/* small records fill the rest of the chunk */
		for (int i = 0; chunk < 2 && i < 14; i++)
			assert_int_equal(take(f, sequence++, 8, false), 0);
	}
	assert_false(intake_has_room(&f->in));
	assert_int_equal(take(f, sequence + 1, 1000, false), -ENOBUFS);
	buffer_release(&f->buffer, buffer_take(&f->buffer, false));
	assert_true(intake_has_room(&f->in));
	assert_int_equal(take(f, sequence + 1, 1000, false), 0);
}

static void a_gap_of_unknown_length_takes_one_sequence(void **state)
{
	struct fixture *f = *state;
	struct chunk *c;

	intake_lose(&f->in, EKR_GAP_RESTART, 0);
	assert_true(intake_tell(&f->in));
	assert_int_equal(take(f, 10, 8, true), 0);
	c = buffer_take(&f->buffer, true);
	assert_gap(at(c, 0), EKR_GAP_RESTART, 0, 10);
	assert_int_equal(c->first, 10);
	assert_int_equal(at(c, 1)->sequence, 11);
}

static void monotonic_times_never_decrease(void **state)
{
	struct fixture *f = *state;
	uint64_t now = monotonic_ns();
	const struct record future = { .sequence = 10,
				       .monotonic_ns = UINT64_MAX,
				       .realtime_ns = -5 };
	const struct record past = { .sequence = 11, .monotonic_ns = 1 };
	struct chunk *c;

	/* the earliest time is that at which the channel was opened */
	assert_in_range(f->in.last_ns, 1, now);
	assert_int_equal(intake_take(&f->in, &f->writer, &future, true), 0);
	assert_int_equal(intake_take(&f->in, &f->writer, &past, true), 0);
	c = buffer_take(&f->buffer, true);
	assert_in_range(at(c, 0)->monotonic_ns, now, monotonic_ns());
	assert_int_equal(at(c, 1)->monotonic_ns, at(c, 0)->monotonic_ns);
	/* the real-time clock may jump; its value is kept */
	assert_int_equal(at(c, 0)->realtime_ns, -5);
}

/* a writer reads a clock for each record that it loses, so it cannot lose 10^8 in a second */
static void an_implausible_sequence_is_refused_everywhere(void **state)
{
	struct fixture *f = *state;

	/* the fixture's writer connected a second ago */
	assert_int_equal(intake_expect(&f->in, &f->writer, 10 + (UINT64_C(1) << 32)), -EPROTO);
	assert_int_equal(take(f, 10 + (UINT64_C(1) << 32), 8, true), -EPROTO);
	assert_int_equal(intake_expect(&f->in, &f->writer, 9), -EPROTO);
	assert_int_equal(intake_absent(&f->in, UINT64_MAX / 2), -EPROTO);
	assert_int_equal(f->in.next_sequence, 10);
	assert_false(f->in.gap);
	assert_int_equal(intake_expect(&f->in, &f->writer, 10 + 1000000), 0);
	assert_int_equal(f->in.next_sequence, 10 + 1000000);
	assert_int_equal(f->in.overrun, 1000000);
}

/* records that wait in a ring or socket do not make the losses between them implausible */
static void losses_are_timed_by_submissions(void **state)
{
	struct fixture *f = *state;
	const uint64_t now = monotonic_ns();
	struct record r = { .sequence = 10, .monotonic_ns = now - NSEC_PER_SEC / 2 };

	assert_int_equal(intake_take(&f->in, &f->writer, &r, true), 0);
	r.sequence = 11 + 10000000;
	r.monotonic_ns = now;
	assert_int_equal(intake_take(&f->in, &f->writer, &r, true), 0);
	assert_int_equal(f->in.overrun, 10000000);
}

static void writers_number_their_records_independently(void **state)
{
	struct fixture *f = *state;
	struct intake_writer other = { .next = 500, .since_ns = monotonic_ns() - NSEC_PER_SEC };
	struct record r = { .sequence = 500 };
	struct chunk *c;

	assert_int_equal(take(f, 10, 8, true), 0);
	assert_int_equal(intake_take(&f->in, &other, &r, true), 0);
	assert_int_equal(take(f, 11, 8, true), 0);
	r.sequence = 503;
	assert_int_equal(intake_take(&f->in, &other, &r, true), 0);
	c = buffer_take(&f->buffer, true);
	for (unsigned int i = 0; i < 3; i++)
		assert_int_equal(at(c, i)->sequence, 10 + i);
	assert_gap(at(c, 3), EKR_GAP_OVERRUN, 2, 14);
	assert_int_equal(at(c, 4)->sequence, 15);
}

static void records_lost_without_a_connection_become_a_gap(void **state)
{
	struct fixture *f = *state;
	struct chunk *c;

	assert_int_equal(intake_absent(&f->in, 0), 0);
	assert_false(f->in.gap);
	assert_int_equal(intake_absent(&f->in, 7), 0);
	assert_int_equal(take(f, 10, 8, true), 0);
	c = buffer_take(&f->buffer, true);
	assert_gap(at(c, 0), EKR_GAP_ABSENT, 7, 16);
	assert_int_equal(at(c, 1)->sequence, 17);
	assert_int_equal(f->in.absent, 7);
	assert_int_equal(f->in.overrun, 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		TEST(a_skipped_sequence_becomes_a_gap),
		TEST(invalid_sequences_and_lengths_are_refused),
		TEST(an_overrun_is_recorded_once_there_is_space),
		TEST(a_gap_waits_for_space),
		TEST(has_room_includes_space_for_a_gap),
		TEST(a_gap_of_unknown_length_takes_one_sequence),
		TEST(monotonic_times_never_decrease),
		TEST(an_implausible_sequence_is_refused_everywhere),
		TEST(losses_are_timed_by_submissions),
		TEST(writers_number_their_records_independently),
		TEST(records_lost_without_a_connection_become_a_gap),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
