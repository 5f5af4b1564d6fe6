// SPDX-License-Identifier: Apache-2.0
/*
 * Adds up the rows of the history, and computes what a chart shows of a sum.
 *
 * A chart has up to 200 rows with about 1000 numbers each. Python would need ten times the processor time.
 * evenkeel_history/period.py has the form of a row, and the meaning of its numbers.
 *
 * Invariants: the functions read nothing but what they are given, and check all that a period says. They write only to
 * the caller's arrays, allocate nothing and keep nothing.
 */
#include "history.h"

#include <stdbool.h>
#include <string.h>

enum { BUCKETS = EK_HISTORY_BUCKETS, BAND = EK_HISTORY_BAND, BANDS = BUCKETS / BAND };
_Static_assert(BUCKETS % BAND == 0, "the last band is whole");

/* numbers of a row of flows: app, device and direction, then the scalars, then the first bucket and the counts */
enum { KEY = 3, SCALARS = 6, DIRECTIONS = 2 };
/* numbers of a flow, of the stalls of an app, and of an app in a mix */
enum { FLOW = 1 + SCALARS + BUCKETS, STALLS = 3, MIX = 1 + BUCKETS };
/* significant bits of a stored count, and of a stored time of the matrix */
enum { COUNT_BITS = 5, BLAME_BITS = 7 };

/* what is left of a period */
struct rest {
	const unsigned char *at, *end;
};

/* where the numbers of a period go */
struct target {
	const uint64_t *apps, *devices;
	const struct ek_history_sums *sums;
};

/* The next BYTES bytes as a number, most significant first. */
static bool take_bytes(struct rest *rest, unsigned int bytes, uint64_t *to)
{
	uint64_t n = 0;

	if ((size_t)(rest->end - rest->at) < bytes)
		return false;
	while (bytes--)
		n = n << 8 | *rest->at++;
	*to = n;
	return true;
}

static bool take_number(struct rest *rest, uint64_t *to)
{
	unsigned char head;

	if (rest->at == rest->end)
		return false;
	head = *rest->at++;
	if (head < 0x80) {
		*to = head;
		return true;
	}
	return head >= 0xcc && head <= 0xcf && take_bytes(rest, 1U << (head - 0xcc), to);
}

/* The number of items of the list that begins here. */
static bool take_list(struct rest *rest, uint64_t *items)
{
	uint64_t head;

	if (!take_bytes(rest, 1, &head))
		return false;
	if (head >= 0x90 && head < 0xa0) {
		*items = head - 0x90;
		return true;
	}
	return (head == 0xdc || head == 0xdd) && take_bytes(rest, head == 0xdc ? 2 : 4, items);
}

static bool skip_text(struct rest *rest)
{
	uint64_t head, length;

	if (!take_bytes(rest, 1, &head))
		return false;
	if (head >= 0xa0 && head < 0xc0)
		length = head - 0xa0;
	else if (head < 0xd9 || head > 0xdb || !take_bytes(rest, 1U << (head - 0xd9), &length))
		return false;
	if ((size_t)(rest->end - rest->at) < length)
		return false;
	rest->at += length;
	return true;
}

/* Skip a list of texts, and store how many it has. */
static bool skip_names(struct rest *rest, uint64_t *count)
{
	uint64_t left;

	if (!take_list(rest, count))
		return false;
	for (left = *count; left; left--)
		if (!skip_text(rest))
			return false;
	return true;
}

/* long() in period.py */
static bool take_short(struct rest *rest, unsigned int bits, uint64_t *to)
{
	uint64_t code, half = UINT64_C(1) << (bits - 1), shift;

	if (!take_number(rest, &code))
		return false;
	if (code < 2 * half) {
		*to = code;
		return true;
	}
	shift = code / half - 1;
	if (shift > 64 - bits)
		return false;
	*to = ((code % half + half) << shift) + (UINT64_C(1) << shift >> 1);
	return true;
}

/*
 * The functions add_*() check a part of a period. With TARGET, they also add it to the sums. They return false if the
 * part has a wrong format.
 */

static bool add_flow(struct rest *rest, const struct ek_history_head *head, const struct target *target)
{
	uint64_t items, app, device, direction, n, bucket, *flow = NULL, *mix = NULL;
	unsigned int i;

	if (!take_list(rest, &items) || items < KEY + SCALARS || !take_number(rest, &app) ||
	    !take_number(rest, &device) || !take_number(rest, &direction) || app >= head->apps ||
	    device >= head->devices || direction >= DIRECTIONS)
		return false;
	if (target) {
		const struct ek_history_sums *sums = target->sums;
		uint64_t place = target->apps[app] * sums->devices + target->devices[device];

		flow = sums->flows + (place * DIRECTIONS + direction) * FLOW;
		mix = sums->mix + target->apps[app] * MIX;
		flow[0]++;
	}
	for (i = 0; i < SCALARS; i++) {
		if (!take_number(rest, &n))
			return false;
		if (!target)
			continue;
		flow[1 + i] += n;
		if (!i)
			mix[0] += n;
	}
	items -= KEY + SCALARS;
	if (!items)
		return true;
	if (!take_number(rest, &bucket) || bucket > BUCKETS || items - 1 > BUCKETS - bucket)
		return false;
	for (; --items; bucket++) {
		if (!take_short(rest, COUNT_BITS, &n))
			return false;
		if (!target)
			continue;
		flow[1 + SCALARS + bucket] += n;
		mix[1 + bucket] += n;
	}
	return true;
}

static bool add_flows(struct rest *rest, const struct ek_history_head *head, const struct target *target)
{
	uint64_t rows;

	if (!take_list(rest, &rows))
		return false;
	while (rows--)
		if (!add_flow(rest, head, target))
			return false;
	return true;
}

static bool add_blame(struct rest *rest, const struct ek_history_head *head, const struct target *target)
{
	uint64_t items, victim, cause, us;

	if (!take_list(rest, &items) || (items && items != head->apps * head->apps))
		return false;
	if (!items)
		return true;
	for (victim = 0; victim < head->apps; victim++) {
		for (cause = 0; cause < head->apps; cause++) {
			if (!take_short(rest, BLAME_BITS, &us))
				return false;
			if (target)
				target->sums->blame[target->apps[victim] * target->sums->apps +
						    target->apps[cause]] += us;
		}
	}
	return true;
}

static bool add_stalls(struct rest *rest, const struct ek_history_head *head, const struct target *target)
{
	uint64_t items, app, count, ms;

	if (!take_list(rest, &items) || items % 3)
		return false;
	for (; items; items -= 3) {
		if (!take_number(rest, &app) || !take_number(rest, &count) || !take_number(rest, &ms) ||
		    app >= head->apps)
			return false;
		if (target) {
			uint64_t *stalls = target->sums->stalls + target->apps[app] * STALLS;

			stalls[0]++;
			stalls[1] += count;
			stalls[2] += ms;
		}
	}
	return true;
}

/* Both return false if the period has a wrong format. */

static bool take_head(struct rest *rest, struct ek_history_head *head)
{
	const unsigned char *begin = rest->at;
	uint64_t fields;

	if (!take_list(rest, &fields) || fields != 6 || !take_number(rest, &head->ms))
		return false;
	head->names = (uint64_t)(rest->at - begin);
	if (!skip_names(rest, &head->apps) || !skip_names(rest, &head->devices))
		return false;
	head->flows = (uint64_t)(rest->at - begin);
	return true;
}

static bool add_all(struct rest rest, const struct ek_history_head *head, const struct target *target)
{
	return add_flows(&rest, head, target) && add_blame(&rest, head, target) && add_stalls(&rest, head, target) &&
	       rest.at == rest.end;
}

static struct rest whole(const void *period, size_t size)
{
	const unsigned char *begin = period;

	return (struct rest){ begin, begin + size };
}

int ek_history_head(const void *period, size_t size, struct ek_history_head *head)
{
	struct rest rest = whole(period, size);

	return take_head(&rest, head) ? 0 : -1;
}

/* Whether COUNT positions are below ROOM. */
static bool fit(const uint64_t *positions, uint64_t count, uint64_t room)
{
	while (count--)
		if (positions[count] >= room)
			return false;
	return true;
}

int ek_history_add(const void *period, size_t size, const uint64_t *apps, const uint64_t *devices,
		   const struct ek_history_sums *sums)
{
	const struct target target = { apps, devices, sums };
	struct rest rest = whole(period, size);
	struct ek_history_head head;

	if (!take_head(&rest, &head) || !fit(apps, head.apps, sums->apps) ||
	    !fit(devices, head.devices, sums->devices) || !add_all(rest, &head, NULL))
		return -1;
	add_all(rest, &head, &target);
	return 0;
}

/* The bucket of the percentile PERCENT (nearest rank) of TOTAL requests, which are in the buckets before END. */
static unsigned int percentile(const uint64_t *buckets, unsigned int end, uint64_t total,
			       unsigned int percent)
{
	/* the percentile of total * percent / 100, rounded up, without an overflow */
	uint64_t rank = total / 100 * percent + (total % 100 * percent + 99) / 100;
	uint64_t above = total - rank;
	unsigned int i = end - 1;

	/* from the largest latency down, because most callers want a percentile near it */
	for (; i && buckets[i] <= above; i--)
		above -= buckets[i];
	return i;
}

static void write_count(unsigned char *to, uint64_t count, uint64_t width)
{
	for (; width; width--, count >>= 8)
		*to++ = (unsigned char)count;
}

/* Set *FIRST and *END to the buckets that one of the COUNT apps of MIX uses. *END is 0 if they use none. */
static void used(const uint64_t *mix, size_t count, unsigned int *first, unsigned int *end)
{
	unsigned int i;
	size_t app;

	*first = BUCKETS;
	*end = 0;
	for (app = 0; app < count; app++) {
		const uint64_t *buckets = mix + app * MIX + 1;

		for (i = 0; i < *first && !buckets[i]; i++)
			;
		if (i == BUCKETS)
			continue;
		*first = i;
		for (i = BUCKETS; i > *end && !buckets[i - 1]; i--)
			;
		*end = i;
	}
}

void ek_history_spot(uint64_t *mix, size_t count, unsigned int percent, struct ek_history_spot *spot)
{
	unsigned int first, end, band, bands, i;
	unsigned char *to = spot->bands;
	uint64_t all = 0;
	size_t app;

	used(mix, count, &first, &end);
	/* all whole bands with these buckets */
	first = first / BAND * BAND;
	end = (end + BAND - 1) / BAND * BAND;
	memset(spot->whole, 0, BANDS * sizeof(*spot->whole));
	for (app = 0; app < count; app++) {
		const uint64_t *buckets = mix + app * MIX + 1;
		uint64_t total = 0;

		for (i = first; i < end; i++) {
			total += buckets[i];
			spot->whole[i / BAND] += buckets[i];
		}
		all += total;
		spot->bytes[app] = buckets[-1];
		spot->buckets[app] = total ? percentile(buckets, end, total, percent) : BUCKETS;
	}
	bands = first < end ? (end - first) / BAND : 0;
	spot->first = first / BAND;
	spot->width = all >> 32 ? 8 : 4;
	spot->length = bands * spot->width;
	for (app = 0; app < count; app++) {
		const uint64_t *buckets = mix + app * MIX + 1 + first;

		for (band = 0; band < bands; band++, buckets += BAND, to += spot->width) {
			uint64_t requests = 0;

			for (i = 0; i < BAND; i++)
				requests += buckets[i];
			write_count(to, requests, spot->width);
		}
	}
	if (count)
		memset(mix, 0, count * MIX * sizeof(*mix));
}
