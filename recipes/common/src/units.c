// SPDX-License-Identifier: Apache-2.0
/* Parses numbers, sizes and times as people write them. */
#include "units.h"

#include <stddef.h>
#include <string.h>

#define SECOND UINT64_C(1000000000)

struct unit {
	const char *name;
	uint64_t factor;
};

static const struct unit whole[] = { { "", 1 }, { NULL, 0 } };

static const struct unit sizes[] = {
	{ "", 1 },
	{ "B", 1 },
	{ "k", UINT64_C(1) << 10 },
	{ "K", UINT64_C(1) << 10 },
	{ "KiB", UINT64_C(1) << 10 },
	{ "M", UINT64_C(1) << 20 },
	{ "MiB", UINT64_C(1) << 20 },
	{ "G", UINT64_C(1) << 30 },
	{ "GiB", UINT64_C(1) << 30 },
	{ "T", UINT64_C(1) << 40 },
	{ "TiB", UINT64_C(1) << 40 },
	{ "kB", UINT64_C(1000) },
	{ "KB", UINT64_C(1000) },
	{ "MB", UINT64_C(1000000) },
	{ "GB", UINT64_C(1000000000) },
	{ "TB", UINT64_C(1000000000000) },
	{ NULL, 0 },
};

/* The first entry is for a number without a unit. parse_duration() skips it, except for "0". */
static const struct unit times[] = {
	{ "", SECOND },
	{ "ns", 1 },
	{ "us", SECOND / 1000000 },
	{ "ms", SECOND / 1000 },
	{ "s", SECOND },
	{ "min", 60 * SECOND },
	{ "h", 3600 * SECOND },
	{ "d", 86400 * SECOND },
	{ NULL, 0 },
};

static const struct unit *find(const struct unit *units, const char *name)
{
	while (units->name && strcmp(name, units->name) != 0)
		units++;
	return units->name ? units : NULL;
}

static bool parse_quantity(const char *text, const struct unit *units, uint64_t *value)
{
	size_t digits = strspn(text, "0123456789"), decimals = 0;
	const char *fraction = text + digits, *name = fraction;
	const struct unit *unit;
	unsigned __int128 n = 0, scale = 1;

	if (!digits)
		return false;
	if (*name == '.') {
		fraction = name + 1;
		decimals = strspn(fraction, "0123456789");
		name = fraction + decimals;
		if (!decimals)
			return false;
	}
	/* with at most 19 digits, the product with any factor fits into 128 bits */
	if (digits + decimals > 19)
		return false;
	for (const char *c = text; c < fraction + decimals; c++) {
		if (*c == '.')
			continue;
		n = n * 10 + (unsigned int)(*c - '0');
		if (decimals && c >= fraction)
			scale *= 10;
	}
	/* spaces are allowed between number and unit ("5 ms"), but not at the end of the text */
	if (name[strspn(name, " ")])
		name += strspn(name, " ");
	unit = find(units, name);
	/* a fraction of a byte, of a nanosecond or of a plain number is a mistake */
	if (!unit || (unit->factor == 1 && decimals))
		return false;
	n = n * unit->factor / scale;
	/* larger values are refused, because the kernel's offsets and times are signed */
	if (n > INT64_MAX)
		return false;
	*value = (uint64_t)n;
	return true;
}

bool parse_number(const char *text, uint64_t *n)
{
	return parse_quantity(text, whole, n);
}

bool parse_bytes(const char *text, uint64_t *bytes)
{
	return parse_quantity(text, sizes, bytes);
}

bool parse_duration(const char *text, uint64_t *ns)
{
	return parse_quantity(text, strcmp(text, "0") != 0 ? times + 1 : times, ns);
}

bool parse_seconds(const char *text, uint64_t *ns)
{
	return parse_quantity(text, times, ns);
}
