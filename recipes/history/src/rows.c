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
	/* 1 to add the numbers, 2^64 - 1 to subtract them */
	uint64_t sign;
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

static bool take_any_number(struct rest *rest, uint64_t *to)
{
	uint64_t head;

	if (!take_bytes(rest, 1, &head))
		return false;
	*to = head;
	return head < 0x80 ||
	       (head >= 0xcc && head <= 0xcf && take_bytes(rest, 1U << (head - 0xcc), to));
}

/* As take_any_number(). It costs less for the numbers below 2^16, which are nearly all. */
static inline bool take_number(struct rest *rest, uint64_t *to)
{
	const unsigned char *at = rest->at;

	if (rest->end - at < 3)
		return take_any_number(rest, to);
	if (*at < 0x80) {
		*to = *at;
		rest->at = at + 1;
	} else if (*at == 0xcc) {
		*to = at[1];
		rest->at = at + 2;
	} else if (*at == 0xcd) {
		*to = (unsigned int)at[1] << 8 | at[2];
		rest->at = at + 3;
	} else {
		return take_any_number(rest, to);
	}
	return true;
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

/* long() in period.py, of a CODE that does not stand for itself */
static bool expand(uint64_t code, unsigned int bits, uint64_t *to)
{
	uint64_t half = UINT64_C(1) << (bits - 1), shift = (code >> (bits - 1)) - 1;

	if (shift > 64 - bits)
		return false;
	*to = (((code & (half - 1)) + half) << shift) + (UINT64_C(1) << shift >> 1);
	return true;
}

static inline bool take_short(struct rest *rest, unsigned int bits, uint64_t *to)
{
	return take_number(rest, to) && (*to < UINT64_C(1) << bits || expand(*to, bits, to));
}

/*
 * The functions add_*() add a part of a period to the sums. They return false if the part has a wrong format, and then
 * have added what is before the wrong place.
 */

static bool add_flow(struct rest *rest, const struct ek_history_head *head, const struct target *to)
{
	uint64_t items, app, device, direction, n, bucket, *flow, *mix;
	const struct ek_history_sums *sums = to->sums;
	unsigned int i;

	if (!take_list(rest, &items) || items < KEY + SCALARS || !take_number(rest, &app) ||
	    !take_number(rest, &device) || !take_number(rest, &direction) || app >= head->apps ||
	    device >= head->devices || direction >= DIRECTIONS)
		return false;
	flow = sums->flows +
	       ((to->apps[app] * sums->devices + to->devices[device]) * DIRECTIONS + direction) *
		       FLOW;
	mix = sums->mix + to->apps[app] * MIX;
	*flow++ += to->sign;
	for (i = 0; i < SCALARS; i++) {
		if (!take_number(rest, &n))
			return false;
		*flow++ += to->sign * n;
		if (!i)
			*mix++ += to->sign * n;
	}
	items -= KEY + SCALARS;
	if (!items)
		return true;
	if (!take_number(rest, &bucket) || bucket > BUCKETS || items - 1 > BUCKETS - bucket)
		return false;
	for (; --items; bucket++) {
		if (!take_short(rest, COUNT_BITS, &n))
			return false;
		flow[bucket] += to->sign * n;
		mix[bucket] += to->sign * n;
	}
	return true;
}

static bool add_flows(struct rest *rest, const struct ek_history_head *head,
		      const struct target *to)
{
	uint64_t rows;

	if (!take_list(rest, &rows))
		return false;
	while (rows--)
		if (!add_flow(rest, head, to))
			return false;
	return true;
}

static bool add_blame(struct rest *rest, const struct ek_history_head *head,
		      const struct target *to)
{
	uint64_t items, victim, cause, us;

	if (!take_list(rest, &items) || (items && items != head->apps * head->apps))
		return false;
	if (!items)
		return true;
	for (victim = 0; victim < head->apps; victim++) {
		uint64_t *row = to->sums->blame + to->apps[victim] * to->sums->apps;

		for (cause = 0; cause < head->apps; cause++) {
			if (!take_short(rest, BLAME_BITS, &us))
				return false;
			row[to->apps[cause]] += to->sign * us;
		}
	}
	return true;
}

static bool add_stalls(struct rest *rest, const struct ek_history_head *head,
		       const struct target *to)
{
	uint64_t items, app, count, ms;

	if (!take_list(rest, &items) || items % 3)
		return false;
	for (; items; items -= 3) {
		uint64_t *stalls;

		if (!take_number(rest, &app) || !take_number(rest, &count) ||
		    !take_number(rest, &ms) || app >= head->apps)
			return false;
		stalls = to->sums->stalls + to->apps[app] * STALLS;
		stalls[0] += to->sign;
		stalls[1] += to->sign * count;
		stalls[2] += to->sign * ms;
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

static bool add_all(struct rest rest, const struct ek_history_head *head, const struct target *to)
{
	return add_flows(&rest, head, to) && add_blame(&rest, head, to) &&
	       add_stalls(&rest, head, to) && rest.at == rest.end;
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
	struct target target = { apps, devices, sums, 1 };
	struct rest rest = whole(period, size);
	struct ek_history_head head;

	if (!take_head(&rest, &head) || !fit(apps, head.apps, sums->apps) ||
	    !fit(devices, head.devices, sums->devices))
		return -1;
	if (add_all(rest, &head, &target))
		return 0;
	/* It reads the same bytes again, so it subtracts what was added, up to the same wrong place. */
	target.sign = UINT64_MAX;
	add_all(rest, &head, &target);
	return -1;
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

/* Set *FIRST and *END to the bands that one of the COUNT apps of MIX uses. *END is 0 if they use none. */
static void used(const uint64_t *mix, size_t count, unsigned int *first, unsigned int *end)
{
	unsigned int low = BUCKETS, high = 0, i;
	size_t app;

	for (app = 0; app < count; app++) {
		const uint64_t *buckets = mix + app * MIX + 1;

		for (i = 0; i < low && !buckets[i]; i++)
			;
		if (i == BUCKETS)
			continue;
		low = i;
		for (i = BUCKETS; i > high && !buckets[i - 1]; i--)
			;
		high = i;
	}
	*first = low / BAND;
	*end = (high + BAND - 1) / BAND;
}

/* The requests in the band that begins with the bucket AT. */
static uint64_t band_of(const uint64_t *at)
{
	_Static_assert(BAND == 4, "the sum has all buckets of a band");
	return at[0] + at[1] + at[2] + at[3];
}

/* Write a count of WIDTH bytes, least significant first, and return the end. */
static inline unsigned char *write_count(unsigned char *to, uint64_t count, unsigned int width)
{
	unsigned int i;

	for (i = 0; i < width; i++)
		to[i] = (unsigned char)(count >> 8 * i);
	return to + width;
}

void ek_history_spot(uint64_t *mix, size_t count, unsigned int percent,
		     struct ek_history_spot *spot)
{
	unsigned int first, end, band;
	unsigned char *to = spot->bands;
	uint64_t all = 0;
	size_t app;

	used(mix, count, &first, &end);
	memset(spot->whole, 0, BANDS * sizeof(*spot->whole));
	for (app = 0; app < count; app++) {
		const uint64_t *buckets = mix + app * MIX + 1;
		uint64_t total = 0;

		for (band = first; band < end; band++) {
			uint64_t requests = band_of(buckets + band * BAND);

			total += requests;
			spot->whole[band] += requests;
		}
		all += total;
		spot->bytes[app] = buckets[-1];
		spot->buckets[app] = total ? percentile(buckets, end * BAND, total, percent) :
					     BUCKETS;
	}
	spot->first = first;
	spot->width = all >> 32 ? 8 : 4;
	spot->length = first < end ? (end - first) * spot->width : 0;
	for (app = 0; app < count; app++) {
		const uint64_t *buckets = mix + app * MIX + 1;

		for (band = first; band < end; band++) {
			uint64_t requests = band_of(buckets + band * BAND);

			to = spot->width == 4 ? write_count(to, requests, 4) :
						write_count(to, requests, 8);
		}
	}
	if (count)
		memset(mix, 0, count * MIX * sizeof(*mix));
}
