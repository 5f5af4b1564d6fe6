// SPDX-License-Identifier: Apache-2.0
/* Sizes and times as people write them. */
#include "units.h"

#include <stddef.h>
#include <string.h>

#include "clock.h"

struct unit {
	const char *name;
	uint64_t factor;
};

static bool parse_quantity(const char *text, const struct unit *units, uint64_t *value)
{
	size_t whole = strspn(text, "0123456789"), decimals = 0;
	const char *unit = text + whole, *fraction = unit;
	unsigned __int128 n = 0, scale = 1;

	if (!whole)
		return false;
	if (*unit == '.') {
		fraction = unit + 1;
		decimals = strspn(fraction, "0123456789");
		unit = fraction + decimals;
		if (!decimals)
			return false;
	}
	/* 10^18 leaves room for the product with any factor */
	if (whole + decimals > 18)
		return false;
	for (const char *c = text; c < fraction + decimals; c++) {
		if (*c == '.')
			continue;
		n = n * 10 + (unsigned int)(*c - '0');
		if (decimals && c >= fraction)
			scale *= 10;
	}
	unit += strspn(unit, " ");
	for (; units->name; units++) {
		if (strcmp(unit, units->name) != 0)
			continue;
		n = n * units->factor / scale;
		/* offsets and times are signed in the kernel */
		if (n > INT64_MAX)
			return false;
		*value = (uint64_t)n;
		return true;
	}
	return false;
}

bool parse_bytes(const char *text, uint64_t *bytes)
{
	static const struct unit units[] = {
		{ "", 1 },
		{ "B", 1 },
		{ "K", UINT64_C(1) << 10 },
		{ "KiB", UINT64_C(1) << 10 },
		{ "M", UINT64_C(1) << 20 },
		{ "MiB", UINT64_C(1) << 20 },
		{ "G", UINT64_C(1) << 30 },
		{ "GiB", UINT64_C(1) << 30 },
		{ "T", UINT64_C(1) << 40 },
		{ "TiB", UINT64_C(1) << 40 },
		{ "kB", UINT64_C(1000) },
		{ "MB", UINT64_C(1000000) },
		{ "GB", UINT64_C(1000000000) },
		{ "TB", UINT64_C(1000000000000) },
		{ NULL, 0 },
	};

	return parse_quantity(text, units, bytes);
}

bool parse_duration(const char *text, uint64_t *ns)
{
	static const struct unit units[] = {
		{ "ns", 1 },
		{ "us", NSEC_PER_USEC },
		{ "ms", NSEC_PER_MSEC },
		{ "s", NSEC_PER_SEC },
		{ "min", 60 * NSEC_PER_SEC },
		{ "h", 3600 * NSEC_PER_SEC },
		{ "d", 86400 * NSEC_PER_SEC },
		{ NULL, 0 },
	};

	if (!strcmp(text, "0")) {
		*ns = 0;
		return true;
	}
	return parse_quantity(text, units, ns);
}
