// SPDX-License-Identifier: Apache-2.0
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cmocka.h>

#include "rings.h"

static struct rings rings;

static void start(unsigned int most)
{
	struct error e;

	assert_int_equal(
		rings_start(&rings, 100, 16, most, eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), &e), 0);
}

static void stop(void)
{
	assert_true(rings_stop(&rings));
	close(rings.done_fd);
}

/* the state of a lease that the thread has served */
static enum lease_state wait_state(struct lease *lease, enum lease_state not)
{
	struct pollfd done = { .fd = rings.done_fd, .events = POLLIN };
	enum lease_state state;
	uint64_t count;

	while ((state = rings_state(&rings, lease)) == not) {
		assert_int_equal(poll(&done, 1, 10000), 1);
		(void)!read(rings.done_fd, &count, sizeof(count));
	}
	return state;
}

static void a_ring_is_created_and_freed(void **state)
{
	struct lease *lease;

	(void)state;
	start(2);
	for (int i = 0; i < 100; i++) {
		lease = rings_ask(&rings);
		assert_non_null(lease);
		assert_int_equal(wait_state(lease, LEASE_ASKED), LEASE_READY);
		assert_int_equal(lease->ring.slots, 16);
		assert_true(ring_empty(&lease->ring));
		rings_return(&rings, lease);
		assert_int_equal(wait_state(lease, LEASE_RETURNED), LEASE_UNUSED);
	}
	stop();
}

static void there_are_no_more_rings_than_declared(void **state)
{
	struct lease *a, *b;

	(void)state;
	start(2);
	a = rings_ask(&rings);
	b = rings_ask(&rings);
	assert_true(a && b && a != b);
	assert_null(rings_ask(&rings));
	rings_return(&rings, a);
	assert_int_equal(wait_state(a, LEASE_RETURNED), LEASE_UNUSED);
	assert_ptr_equal(rings_ask(&rings), a);
	stop();
}

/* as for a client that disconnects before it got its ring */
static void a_lease_may_be_returned_at_any_moment(void **state)
{
	struct lease *lease;

	(void)state;
	start(1);
	for (int i = 0; i < 300; i++) {
		while (!(lease = rings_ask(&rings)))
			poll(&(struct pollfd){ .fd = rings.done_fd, .events = POLLIN }, 1, 10);
		if (i % 3)
			usleep((useconds_t)(i % 7) * 20);
		rings_return(&rings, lease);
	}
	stop();
	for (unsigned int i = 0; i < RINGS_MAX; i++)
		assert_int_equal(rings.leases[i].ring.memfd, -1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_ring_is_created_and_freed),
		cmocka_unit_test(there_are_no_more_rings_than_declared),
		cmocka_unit_test(a_lease_may_be_returned_at_any_moment),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
