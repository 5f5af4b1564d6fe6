// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <linux/capability.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "buffer.h"
#include "thread.h"

static unsigned char payload[1000];

static int put(struct buffer *b, uint64_t sequence, bool *wake)
{
	const struct record r = {
		.sequence = sequence,
		.monotonic_ns = 100 + sequence,
		.payload = payload,
		.length = sizeof(payload),
	};

	return buffer_put(b, &r, sequence, wake);
}

/* records of 1064 bytes: three fit into a chunk of 4096 */
static void full_chunks_are_taken_in_order_and_reused(void **state)
{
	struct buffer b;
	struct error e;
	struct chunk *c;
	bool wake = false, full;

	(void)state;
	assert_int_equal(buffer_open(&b, 4096, 5 * 4096, &e), 0);
	assert_int_equal(b.count, 5);
	assert_int_equal(buffer_oldest(&b, &full), 0);
	assert_int_equal(put(&b, 0, &wake), 0);
	assert_true(wake);
	wake = false;
	assert_int_equal(put(&b, 1, &wake), 0);
	assert_int_equal(put(&b, 2, &wake), 0);
	assert_false(wake);
	assert_null(buffer_take(&b, false));
	assert_int_equal(put(&b, 3, &wake), 0);
	/* the first chunk is full */
	assert_true(wake);
	for (uint64_t i = 4; i < 15; i++)
		assert_int_equal(put(&b, i, &wake), 0);
	assert_int_equal(put(&b, 15, &wake), -ENOBUFS);
	assert_false(buffer_has_room(&b, sizeof(payload)));
	assert_int_equal(buffer_backlog(&b), 15 * 1064);
	assert_int_equal(buffer_oldest(&b, &full), 100);
	assert_true(full);
	for (uint64_t i = 0; i < 5; i++) {
		c = buffer_take(&b, true);
		assert_non_null(c);
		assert_int_equal(c->first, 3 * i);
		assert_int_equal(c->next_sequence, 3 * i + 3);
		assert_int_equal(c->oldest_ns, 100 + 3 * i);
		assert_int_equal(c->records, 3);
		assert_int_equal(c->used, 3 * 1064);
		assert_true((uintptr_t)c->data % EKR_BLOCK == 0);
		buffer_release(&b, c);
		/* a released chunk can be filled again */
		assert_int_equal(put(&b, 15 + i, &wake), 0);
	}
	buffer_close(&b);
}

static void a_partial_chunk_can_be_taken(void **state)
{
	struct buffer b;
	struct error e;
	struct chunk *c;
	bool wake = false;

	(void)state;
	/* at least three chunks */
	assert_int_equal(buffer_open(&b, 4096, 1, &e), 0);
	assert_int_equal(b.count, 3);
	assert_null(buffer_take(&b, true));
	assert_int_equal(put(&b, 5, &wake), 0);
	c = buffer_take(&b, true);
	assert_non_null(c);
	assert_null(buffer_take(&b, true));
	wake = false;
	assert_int_equal(put(&b, 6, &wake), 0);
	/* it is the first record of a new chunk */
	assert_true(wake);
	assert_int_equal(c->next_sequence, 6);
	buffer_release(&b, c);
	c = buffer_take(&b, true);
	assert_int_equal(c->first, 6);
	buffer_close(&b);
}

/* a gap has the time when it was recorded; the record after it may have been submitted before */
static void the_oldest_record_of_a_chunk_need_not_be_its_first(void **state)
{
	const struct record gap = { .sequence = 0, .monotonic_ns = 500, .flags = EKR_RECORD_GAP };
	const struct record late = { .sequence = 1, .monotonic_ns = 500, .window_ns = 400 };
	const struct record next = { .sequence = 2, .monotonic_ns = 600, .window_ns = 450 };
	struct buffer b;
	struct error e;
	bool wake = false, full;

	(void)state;
	assert_int_equal(buffer_open(&b, 4096, 1, &e), 0);
	assert_int_equal(buffer_put(&b, &gap, 0, &wake), 0);
	assert_int_equal(buffer_oldest(&b, &full), 500);
	wake = false;
	assert_int_equal(buffer_put(&b, &late, 1, &wake), 0);
	assert_int_equal(buffer_oldest(&b, &full), 400);
	/* the storage thread waits for a later time */
	assert_true(wake);
	wake = false;
	assert_int_equal(buffer_put(&b, &next, 2, &wake), 0);
	assert_int_equal(buffer_oldest(&b, &full), 400);
	assert_false(wake);
	buffer_close(&b);
}

static void a_buffer_that_is_too_large_is_refused(void **state)
{
	struct buffer b;
	struct error e;

	(void)state;
	assert_int_equal(buffer_open(&b, 1u << 22, (size_t)1 << 50, &e), -ENOMEM);
	assert_non_null(strstr(e.text, "for the buffer"));
	buffer_close(&b);
}

/*
 * Runs in a process of its own. Returns 0 if opening failed with the right message or, with
 * @may_unlock, succeeded; 2 if it cannot be tested here.
 */
static int open_with_a_low_memlock_limit(bool may_unlock)
{
	const struct rlimit least = { 65536, 65536 };
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct none[2] = { 0 };
	struct buffer b;
	struct error e;

	/* open once before the limit is set, so that the C library has allocated its own memory */
	if (buffer_open(&b, 65536, 1 << 20, &e))
		return 2;
	buffer_close(&b);
	if (may_unlock)
		memory_lock();
	/* raw system calls: the sanitizers intercept mlockall() */
	if (syscall(SYS_capset, &head, none) || setrlimit(RLIMIT_MEMLOCK, &least) ||
	    syscall(SYS_mlockall, MCL_FUTURE))
		return 2;
	if (may_unlock)
		return buffer_open(&b, 65536, 1 << 20, &e) ? 1 : 0;
	return buffer_open(&b, 65536, 1 << 20, &e) == -ENOMEM && strstr(e.text, "LimitMEMLOCK=") ?
		       0 :
		       1;
}

static void in_a_child(bool may_unlock)
{
	pid_t child = fork();
	int status = -1;

	if (!child)
		_exit(open_with_a_low_memlock_limit(may_unlock));
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

/* thread.h did not lock the memory, so it does not unlock it either */
static void the_memlock_limit_is_named_in_the_error(void **state)
{
	(void)state;
	in_a_child(false);
}

static void memory_is_unlocked_if_the_limit_is_too_low(void **state)
{
	(void)state;
	in_a_child(true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(full_chunks_are_taken_in_order_and_reused),
		cmocka_unit_test(a_partial_chunk_can_be_taken),
		cmocka_unit_test(the_oldest_record_of_a_chunk_need_not_be_its_first),
		cmocka_unit_test(a_buffer_that_is_too_large_is_refused),
		cmocka_unit_test(the_memlock_limit_is_named_in_the_error),
		cmocka_unit_test(memory_is_unlocked_if_the_limit_is_too_low),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
