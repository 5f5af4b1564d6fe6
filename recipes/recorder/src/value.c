// SPDX-License-Identifier: Apache-2.0
/* Numbers, sizes and times as people write them. */
#include "value.h"

#include <stdbool.h>
#include <stdio.h>

#include "../../common/src/units.h"
#include "clock.h"

#define MIB (UINT64_C(1) << 20)

const char *value_print(char text[32], enum value_kind kind, uint64_t n)
{
	static const struct unit {
		uint64_t factor;
		const char *name;
	} times[] = { { 86400 * NSEC_PER_SEC, "d" },
		      { 3600 * NSEC_PER_SEC, "h" },
		      { 60 * NSEC_PER_SEC, "min" },
		      { NSEC_PER_SEC, "s" },
		      { NSEC_PER_MSEC, "ms" },
		      { 1000, "us" },
		      { 1, "ns" } },
	  sizes[] = { { MIB << 20, "TiB" },
		      { MIB << 10, "GiB" },
		      { MIB, "MiB" },
		      { 1024, "KiB" },
		      { 1, "" } },
	  one[] = { { 1, "" } };
	const struct unit *unit = kind == VALUE_DURATION ? times :
				  kind == VALUE_BYTES	 ? sizes :
							   one;

	while (unit->factor > 1 && (!n || n % unit->factor))
		unit++;
	snprintf(text, 32, "%llu%s", (unsigned long long)(n / unit->factor), unit->name);
	return text;
}

const char *value_parse(const char *text, enum value_kind kind, uint64_t least, uint64_t most,
			uint64_t *to, char why[VALUE_WHY])
{
	static bool (*const parsers[])(const char *, uint64_t *) = { parse_number, parse_bytes,
								     parse_duration };
	static const char *const forms[] = { "a whole number",
					     "a size such as 16384, 64KiB or 2MiB",
					     "a time with a unit, such as 5ms, 2s or 7d" };
	char from[32], until[32];
	uint64_t n = 0;

	if (!parsers[kind](text, &n)) {
		snprintf(why, VALUE_WHY, "must be %s", forms[kind]);
	} else if (n >= least && n <= most) {
		*to = n;
		return NULL;
	} else if (most == INT64_MAX) {
		snprintf(why, VALUE_WHY, "must be at least %s", value_print(from, kind, least));
	} else {
		snprintf(why, VALUE_WHY, "must be from %s to %s", value_print(from, kind, least),
			 value_print(until, kind, most));
	}
	return why;
}
