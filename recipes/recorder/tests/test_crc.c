// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "batch.h"

/* test vectors of RFC 3720, B.4, and the check value of the polynomial */
static void known_values(void **state)
{
	unsigned char bytes[32];

	(void)state;
	assert_int_equal(crc32c(0, "123456789", 9), 0xe3069283);
	assert_int_equal(crc32c(0, "", 0), 0);
	memset(bytes, 0, sizeof(bytes));
	assert_int_equal(crc32c(0, bytes, sizeof(bytes)), 0x8a9136aa);
	memset(bytes, 0xff, sizeof(bytes));
	assert_int_equal(crc32c(0, bytes, sizeof(bytes)), 0x62a8ab43);
	for (unsigned int i = 0; i < sizeof(bytes); i++)
		bytes[i] = (unsigned char)i;
	assert_int_equal(crc32c(0, bytes, sizeof(bytes)), 0x46dd794e);
}

static void a_crc_can_be_computed_in_pieces(void **state)
{
	static const char text[] = "records back to back, then zeros";

	(void)state;
	for (size_t cut = 0; cut <= sizeof(text); cut++)
		assert_int_equal(crc32c(crc32c(0, text, cut), text + cut, sizeof(text) - cut),
				 crc32c(0, text, sizeof(text)));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(known_values),
		cmocka_unit_test(a_crc_can_be_computed_in_pieces),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
