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
#include "memory.h"

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

/* 1056 bytes each: three in a chunk of 4096 */
static void full_chunks_come_out_in_order_and_all_of_it_is_used(void **state)
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
	/* a chunk is full */
	assert_true(wake);
	for (uint64_t i = 4; i < 15; i++)
		assert_int_equal(put(&b, i, &wake), 0);
	assert_int_equal(put(&b, 15, &wake), -ENOBUFS);
	assert_false(buffer_has_room(&b, sizeof(payload)));
	assert_int_equal(buffer_backlog(&b), 15 * 1056);
	assert_int_equal(buffer_oldest(&b, &full), 100);
	assert_true(full);
	for (uint64_t i = 0; i < 5; i++) {
		c = buffer_take(&b, true);
		assert_non_null(c);
		assert_int_equal(c->first, 3 * i);
		assert_int_equal(c->next_sequence, 3 * i + 3);
		assert_int_equal(c->oldest_ns, 100 + 3 * i);
		assert_int_equal(c->records, 3);
		assert_int_equal(c->used, 3 * 1056);
		assert_true((uintptr_t)c->data % EKR_BLOCK == 0);
		buffer_release(&b, c);
		/* what was given back is room again */
		assert_int_equal(put(&b, 15 + i, &wake), 0);
	}
	buffer_close(&b);
}

static void what_is_being_filled_can_be_taken(void **state)
{
	struct buffer b;
	struct error e;
	struct chunk *c;
	bool wake = false;

	(void)state;
	/* never less than three chunks */
	assert_int_equal(buffer_open(&b, 4096, 1, &e), 0);
	assert_int_equal(b.count, 3);
	assert_null(buffer_take(&b, true));
	assert_int_equal(put(&b, 5, &wake), 0);
	c = buffer_take(&b, true);
	assert_non_null(c);
	assert_null(buffer_take(&b, true));
	wake = false;
	assert_int_equal(put(&b, 6, &wake), 0);
	/* it is the first again */
	assert_true(wake);
	assert_int_equal(c->next_sequence, 6);
	buffer_release(&b, c);
	c = buffer_take(&b, true);
	assert_int_equal(c->first, 6);
	buffer_close(&b);
}

static void too_much_memory_is_an_error(void **state)
{
	struct buffer b;
	struct error e;

	(void)state;
	assert_int_equal(buffer_open(&b, 1u << 22, (size_t)1 << 50, &e), -ENOMEM);
	assert_non_null(strstr(e.text, "for the buffer"));
	buffer_close(&b);
}

/* 0: it was told, or @lifted; 2: it cannot be tried here. Of a process of its own. */
static int open_with_little_that_may_be_locked(bool lifted)
{
	const struct rlimit least = { 65536, 65536 };
	struct __user_cap_header_struct head = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct none[2] = { 0 };
	struct buffer b;
	struct error e;

	/* once before: whatever the C library gets for itself it has then */
	if (buffer_open(&b, 65536, 1 << 20, &e))
		return 2;
	buffer_close(&b);
	if (lifted)
		memory_lock();
	/* by their numbers: the sanitizers keep mlockall() from the kernel */
	if (syscall(SYS_capset, &head, none) || setrlimit(RLIMIT_MEMLOCK, &least) ||
	    syscall(SYS_mlockall, MCL_FUTURE))
		return 2;
	if (lifted)
		return buffer_open(&b, 65536, 1 << 20, &e) ? 1 : 0;
	return buffer_open(&b, 65536, 1 << 20, &e) == -ENOMEM && strstr(e.text, "LimitMEMLOCK=") ?
		       0 :
		       1;
}

static void in_a_child(bool lifted)
{
	pid_t child = fork();
	int status = -1;

	if (!child)
		_exit(open_with_little_that_may_be_locked(lifted));
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

/* by whoever has locked it, not memory.h */
static void more_than_may_be_locked_is_told_as_that(void **state)
{
	(void)state;
	in_a_child(false);
}

static void where_not_all_may_be_locked_nothing_is(void **state)
{
	(void)state;
	in_a_child(true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(full_chunks_come_out_in_order_and_all_of_it_is_used),
		cmocka_unit_test(what_is_being_filled_can_be_taken),
		cmocka_unit_test(too_much_memory_is_an_error),
		cmocka_unit_test(more_than_may_be_locked_is_told_as_that),
		cmocka_unit_test(where_not_all_may_be_locked_nothing_is),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
