// SPDX-License-Identifier: Apache-2.0
/* The bytes of an MCAP file. test_read_cmds.py reads one with the reference implementation. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include <cmocka.h>

#include "mcap.h"

static const struct mcap_pair pairs[] = { { "key", "value" }, { NULL, NULL } };
static const unsigned char magic[] = { 0x89, 'M', 'C', 'A', 'P', '0', '\r', '\n' };

static bool no_memory;

void *__wrap_reallocarray(void *old, size_t count, size_t size);
void *__real_reallocarray(void *old, size_t count, size_t size);

void *__wrap_reallocarray(void *old, size_t count, size_t size)
{
	return no_memory ? NULL : __real_reallocarray(old, count, size);
}

static uint64_t get64(const char *at)
{
	uint64_t v;

	memcpy(&v, at, sizeof(v));
	return v;
}

static uint32_t get32(const char *at)
{
	uint32_t v;

	memcpy(&v, at, sizeof(v));
	return v;
}

static void fill(FILE *to, bool zstd, unsigned int messages, size_t length)
{
	unsigned char *payload = calloc(1, length + 1);
	struct mcap *m;
	uint16_t id;

	assert_non_null(payload);
	assert_int_equal(mcap_begin(&m, to, "test", zstd), 0);
	assert_int_equal(mcap_channel(m, 0, "topic", "", pairs, &id), 0);
	assert_int_equal(id, 0);
	for (unsigned int i = 0; i < messages; i++)
		assert_int_equal(mcap_message(m, id, i, 1000 - i, 1000 - i, payload, length), 0);
	assert_int_equal(mcap_end(m), 0);
	mcap_free(m);
	free(payload);
}

/* opcodes are complete, each record lies within the file, and both CRCs are valid */
static void one_layout(bool zstd)
{
	unsigned int count[256] = { 0 };
	char *file = NULL, *at, *data_end = NULL, *footer = NULL;
	size_t length;
	FILE *to = open_memstream(&file, &length);

	assert_non_null(to);
	/* three chunks */
	fill(to, zstd, 60, 50000);
	fclose(to);
	assert_memory_equal(file, magic, sizeof(magic));
	assert_memory_equal(file + length - sizeof(magic), magic, sizeof(magic));
	for (at = file + sizeof(magic); at < file + length - sizeof(magic);
	     at += 9 + get64(at + 1)) {
		assert_true(at + 9 <= file + length);
		assert_true(get64(at + 1) <= (uint64_t)(file + length - at - 9));
		count[(unsigned char)*at]++;
		/* the chunk index has the offsets of the message index and of the chunk */
		if (*at == 0x08) {
			assert_int_equal(get32(at + 41), 10);
			assert_int_equal(file[get64(at + 47)], 0x07);
			assert_int_equal(file[get64(at + 25)], 0x06);
		}
		if (*at == 0x0f)
			data_end = at;
		if (*at == 0x02)
			footer = at;
	}
	assert_ptr_equal(at, file + length - sizeof(magic));
	assert_int_equal(count[1], 1);
	assert_int_equal(count[2], 1);
	/* the channel is once in the data and once in the summary */
	assert_int_equal(count[4], 2);
	assert_int_equal(count[5], 0);
	assert_int_equal(count[6], 3);
	assert_int_equal(count[7], 3);
	assert_int_equal(count[8], 3);
	assert_int_equal(count[0x0b], 1);
	assert_int_equal(count[0x0e], 3);
	assert_int_equal(get32(data_end + 9),
			 crc32_z(0, (unsigned char *)file, (size_t)(data_end - file)));
	assert_int_equal(get64(footer + 9), data_end + 13 - file);
	assert_int_equal(get32(footer + 25), crc32_z(0, (unsigned char *)data_end + 13,
						     (size_t)(footer + 25 - data_end - 13)));
	if (zstd)
		assert_true(length < 60 * 50000 / 10);
	free(file);
}

static void layout(void **state)
{
	(void)state;
	one_layout(false);
	one_layout(true);
}

static void no_messages(void **state)
{
	char *file = NULL;
	size_t length;
	FILE *to = open_memstream(&file, &length);

	(void)state;
	fill(to, false, 0, 0);
	fclose(to);
	assert_true(length > 2 * sizeof(magic));
	free(file);
}

static void a_full_output_is_an_error(void **state)
{
	FILE *full = fopen("/dev/full", "w");
	unsigned char payload[1000] = { 0 };
	struct mcap *m;
	uint16_t id;
	int err = 0;

	(void)state;
	assert_non_null(full);
	assert_int_equal(mcap_begin(&m, full, "test", false), 0);
	assert_int_equal(mcap_channel(m, 0, "topic", "", pairs, &id), 0);
	for (int i = 0; i < 10000 && !err; i++)
		err = mcap_message(m, id, 0, 0, 0, payload, sizeof(payload));
	assert_int_equal(err, -ENOSPC);
	assert_int_equal(mcap_message(m, 1, 0, 0, 0, payload, 1), -EINVAL);
	mcap_free(m);
	fclose(full);
}

/* the file has no index then, and lacks its last messages */
static void an_index_without_memory_is_an_error(void **state)
{
	char *file = NULL;
	struct mcap *m;
	size_t length;
	uint16_t id;
	FILE *to = open_memstream(&file, &length);

	(void)state;
	assert_int_equal(mcap_begin(&m, to, "test", false), 0);
	assert_int_equal(mcap_channel(m, 0, "topic", "", pairs, &id), 0);
	assert_int_equal(mcap_message(m, id, 0, 0, 0, "x", 1), 0);
	no_memory = true;
	assert_int_equal(mcap_end(m), -ENOMEM);
	no_memory = false;
	mcap_free(m);
	fclose(to);
	free(file);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(layout),
		cmocka_unit_test(no_messages),
		cmocka_unit_test(a_full_output_is_an_error),
		cmocka_unit_test(an_index_without_memory_is_an_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
