// SPDX-License-Identifier: Apache-2.0
/*
 * By how much the I/O in io.evenkeel.stat has grown between two texts of the file.
 *
 * evenkeel-history compares two texts of each busy cgroup each second. Python would need ten times the processor time.
 * docs/reference/scheduler.md defines the format. parse() in evenkeel_common/iostat.py is the reference: both accept
 * the same texts and read the same numbers. A test compares them.
 *
 * Invariants: the functions read nothing but the two texts, whose bytes may have any value. They write only to the
 * caller's array, allocate nothing and keep nothing.
 */
#include "history.h"

#include <stdbool.h>
#include <string.h>

/* as in evenkeel_common/iostat.py */
enum { BUCKETS = EK_HISTORY_BUCKETS, PARTS = EK_HISTORY_PARTS, DIGITS = 20 };

enum { READ, WRITE, DIRECTIONS };
enum histogram { GATE, WAIT, SERVICE, LATENCY, HISTOGRAMS };
/* those after BYTES tell only whether the counters have started again, except WAITED */
enum counter {
	IOS,
	BYTES = IOS + DIRECTIONS,
	MERGED = BYTES + DIRECTIONS,
	THROTTLED = MERGED + DIRECTIONS,
	FIXED,
	WAITED = FIXED + 4,
	COUNTERS
};

/* The known keys, in the order in which the kernel prints them. */
enum kind { WEIGHT, COUNTER, HISTOGRAM, WAITED_FOR };
#define KEY(name, kind, number) { name, sizeof(name) - 1, kind, number }
static const struct key {
	const char *name;
	size_t length;
	enum kind kind;
	/* enum counter; or direction * HISTOGRAMS + enum histogram */
	unsigned int number;
} keys[] = {
	KEY("weight", WEIGHT, 0),
	KEY("rbytes", COUNTER, BYTES + READ),
	KEY("wbytes", COUNTER, BYTES + WRITE),
	KEY("rios", COUNTER, IOS + READ),
	KEY("wios", COUNTER, IOS + WRITE),
	KEY("rmerged", COUNTER, MERGED + READ),
	KEY("wmerged", COUNTER, MERGED + WRITE),
	KEY("throttled", COUNTER, THROTTLED),
	KEY("fixed_ios", COUNTER, FIXED),
	KEY("fixed_late", COUNTER, FIXED + 1),
	KEY("fixed_ideal_us", COUNTER, FIXED + 2),
	KEY("fixed_actual_us", COUNTER, FIXED + 3),
	KEY("rwait", HISTOGRAM, WAIT),
	KEY("rserv", HISTOGRAM, SERVICE),
	KEY("rtotal", HISTOGRAM, LATENCY),
	KEY("rgate", HISTOGRAM, GATE),
	KEY("wwait", HISTOGRAM, HISTOGRAMS + WAIT),
	KEY("wserv", HISTOGRAM, HISTOGRAMS + SERVICE),
	KEY("wtotal", HISTOGRAM, HISTOGRAMS + LATENCY),
	KEY("wgate", HISTOGRAM, HISTOGRAMS + GATE),
	KEY("waited_us", COUNTER, WAITED),
	KEY("waited_for", WAITED_FOR, 0),
};
enum { KEYS = sizeof(keys) / sizeof(*keys) };

/* The bytes at which a word ends: Python's str.splitlines() ends a line at some, and str.split() a word at the others. */
enum { LINE_END = 1, BLANK = 2 };
static const unsigned char ends[256] = {
	['\n'] = LINE_END, ['\v'] = LINE_END, ['\f'] = LINE_END, ['\r'] = LINE_END,
	[0x1c] = LINE_END, [0x1d] = LINE_END, [0x1e] = LINE_END, [' '] = BLANK,
	['\t'] = BLANK,	   [0x1f] = BLANK,
};

/* what is left of a text */
struct rest {
	const char *at, *end;
};

struct word {
	const char *at;
	size_t length;
};

/* a part of a waiting time */
struct part {
	uint64_t cgroup, us;
};

/* the values of a line */
struct device {
	unsigned int parts_used;
	struct part parts[PARTS];
	unsigned int first,
		used; /* buckets before FIRST, and from USED on, are 0 in all histograms */
	uint64_t counters[COUNTERS];
	uint64_t histograms[DIRECTIONS * HISTOGRAMS][BUCKETS];
};

static unsigned char end_at(const struct rest *text)
{
	return text->at < text->end ? ends[(unsigned char)*text->at] : LINE_END;
}

static void skip_blanks(struct rest *text)
{
	while (end_at(text) == BLANK)
		text->at++;
}

static void skip_word(struct rest *text)
{
	while (!end_at(text))
		text->at++;
}

/* Move TEXT behind the next word of its line, and return the word. At the end of the line, it is empty. */
static struct word take_word(struct rest *text)
{
	struct word word;

	skip_blanks(text);
	word.at = text->at;
	skip_word(text);
	word.length = (size_t)(text->at - word.at);
	return word;
}

/* Move TEXT to its next line, if it has one. */
static void skip_line(struct rest *text)
{
	while (end_at(text) != LINE_END)
		text->at++;
	if (text->at < text->end)
		text->at++;
}

static bool same(struct word a, struct word b)
{
	return a.length == b.length && !memcmp(a.at, b.at, a.length);
}

/* Move TEXT behind a number of 1 to DIGITS digits, and store it. False: there is none, or it is too large. */
static bool take_number(struct rest *text, uint64_t *to)
{
	const char *at = text->at, *end = text->end;
	unsigned int digit;
	uint64_t n = 0;

	/* all digits but the last one cannot overflow */
	if (end - at > DIGITS - 1)
		end = at + DIGITS - 1;
	for (; at < end && (digit = (unsigned int)*at - '0') <= 9; at++)
		n = 10 * n + digit;
	if (at == text->at)
		return false;
	if (at == end && at < text->end && (digit = (unsigned int)*at - '0') <= 9) {
		if (n > (UINT64_MAX - digit) / 10)
			return false;
		n = 10 * n + digit;
		if (++at < text->end && (unsigned int)*at - '0' <= 9)
			return false;
	}
	*to = n;
	text->at = at;
	return true;
}

/*
 * Move TEXT behind BUCKET:COUNT, and behind the comma if another pair follows. Add the count to the histogram NUMBER of
 * TO. False: it has a wrong format.
 */
static bool take_pair(struct rest *text, struct device *to, unsigned int number, uint64_t *bucket)
{
	uint64_t count;

	if (!take_number(text, bucket) || *bucket >= BUCKETS)
		return false;
	if (text->at == text->end || *text->at++ != ':' || !take_number(text, &count))
		return false;
	to->histograms[number][*bucket] += count;
	if (*bucket < to->first)
		to->first = (unsigned int)*bucket;
	if (*bucket >= to->used)
		to->used = (unsigned int)*bucket + 1;
	if (end_at(text))
		return true;
	return *text->at++ == ',' && !end_at(text);
}

/* Move TEXT behind a histogram, and store it: BUCKET:COUNT,BUCKET:COUNT,... or "-". False: it has a wrong format. */
static bool take_histogram(struct rest *text, struct device *to, unsigned int number)
{
	uint64_t bucket;

	memset(to->histograms[number], 0, sizeof(to->histograms[number]));
	if (text->at < text->end && *text->at == '-') {
		text->at++;
		return end_at(text);
	}
	do {
		if (!take_pair(text, to, number, &bucket))
			return false;
	} while (!end_at(text));
	return true;
}

/* The part of CGROUP in FROM, or NULL. FIRST: the part that is looked at first. */
static const struct part *find_part(const struct device *from, uint64_t cgroup, unsigned int first)
{
	if (first < from->parts_used && from->parts[first].cgroup == cgroup)
		return &from->parts[first];
	for (const struct part *part = from->parts; part < from->parts + from->parts_used; part++)
		if (part->cgroup == cgroup)
			return part;
	return NULL;
}

/* Move TEXT behind the parts, and store them: CGROUP:TIME,CGROUP:TIME,... or "-". False: they have a wrong format. */
static bool take_parts(struct rest *text, struct device *to)
{
	struct part part;

	to->parts_used = 0;
	if (text->at < text->end && *text->at == '-') {
		text->at++;
		return end_at(text);
	}
	for (;;) {
		if (to->parts_used == PARTS || !take_number(text, &part.cgroup) ||
		    text->at == text->end || *text->at++ != ':' || !take_number(text, &part.us) ||
		    find_part(to, part.cgroup, 0))
			return false;
		to->parts[to->parts_used++] = part;
		if (end_at(text))
			return true;
		if (*text->at++ != ',')
			return false;
	}
}

/* The key of that name, or NULL. *NEXT: the key that is looked at first. */
static const struct key *find_key(struct word name, unsigned int *next)
{
	for (unsigned int i = 0; i < KEYS; i++) {
		const struct key *key = &keys[(*next + i) % KEYS];

		if (key->length == name.length && !memcmp(key->name, name.at, name.length)) {
			*next = (unsigned int)(key - keys) + 1;
			return key;
		}
	}
	return NULL;
}

/* Move TEXT behind KEY=, and return the key; or behind a word that is not known, and return NULL. */
static const struct key *take_key(struct rest *text, unsigned int *next)
{
	const struct key *key = &keys[*next % KEYS];
	struct word name = { text->at, 0 };

	if ((size_t)(text->end - text->at) > key->length && text->at[key->length] == '=' &&
	    !memcmp(key->name, text->at, key->length)) {
		(*next)++;
		text->at += key->length + 1;
		return key;
	}
	while (!end_at(text) && *text->at != '=')
		text->at++;
	name.length = (size_t)(text->at - name.at);
	key = end_at(text) ? NULL : find_key(name, next);
	if (key)
		text->at++;
	else /* a newer evenkeel may have other words */
		skip_word(text);
	return key;
}

/* Is the value of KEY needed for WHAT? Counters tell whether they have started again, so they always are. */
static bool wanted(const struct key *key, unsigned int what)
{
	if (key->kind == HISTOGRAM)
		return what & EK_HISTORY_FLOWS;
	return key->kind != WAITED_FOR || what & EK_HISTORY_WAITS;
}

/* Move TEXT behind the value of KEY, and store it. False: it has a wrong format. */
static bool take_value(struct rest *text, const struct key *key, struct device *to)
{
	uint64_t weight;

	if (key->kind == HISTOGRAM)
		return take_histogram(text, to, key->number);
	if (key->kind == WAITED_FOR)
		return take_parts(text, to);
	return take_number(text, key->kind == COUNTER ? &to->counters[key->number] : &weight) &&
	       end_at(text);
}

/* A line without values. The parts stay: what is beyond parts_used is never read. */
static void reset(struct device *device)
{
	device->parts_used = device->used = 0;
	device->first = BUCKETS;
	memset(device->counters, 0, sizeof(device->counters));
	memset(device->histograms, 0, sizeof(device->histograms));
}

/* Move TEXT to its next line, and store the values that follow in this one. False: one has a wrong format. */
static bool take_values(struct rest *text, struct device *to, unsigned int what)
{
	const struct key *key;
	unsigned int next = 0;

	reset(to);
	for (skip_blanks(text); end_at(text) != LINE_END; skip_blanks(text)) {
		key = take_key(text, &next);
		if (key && !wanted(key, what))
			skip_word(text);
		else if (key && !take_value(text, key, to))
			return false;
	}
	skip_line(text);
	return true;
}

/* Move both texts behind the pairs that are the same. Each text is behind "=" or a comma, or at the end of the histogram. */
static void skip_same_pairs(struct rest *text, struct rest *old)
{
	const char *a = text->at, *b = old->at;

	for (; a < text->end && b < old->end && *a == *b; a++, b++) {
		if (*a == ',') {
			text->at = a + 1;
			old->at = b + 1;
		} else if (ends[(unsigned char)*a]) {
			text->at = a;
			old->at = b;
			return;
		}
	}
}

/* As take_histogram() for both texts, without the pairs that are the same. False: it must be done for each text alone. */
static bool take_both_histograms(struct rest *text, struct device *to, struct rest *old,
				 struct device *before, unsigned int number)
{
	uint64_t bucket, other;
	struct rest peek;

	for (skip_same_pairs(text, old); !end_at(text); skip_same_pairs(text, old)) {
		if (!take_pair(text, to, number, &bucket))
			return false;
		if (end_at(old))
			continue;
		peek = *old;
		if (!take_number(&peek, &other) || other < bucket)
			return false;
		/* a bucket that was empty is not in OLD */
		if (other == bucket && !take_pair(old, before, number, &other))
			return false;
	}
	return end_at(old);
}

/*
 * As take_values() for two lines of the same device, but it leaves out numbers that are the same in both: the growth is
 * the same, and most buckets do not change within a second. OLD has been accepted before, so what is left out has the
 * right format. False: the lines differ in more than numbers and added buckets, or a key is there twice.
 *
 * If the counters have started again, what is left out counts, too: then take_values() must follow.
 */
static bool take_both(struct rest *text, struct device *to, struct rest *old, struct device *before,
		      unsigned int what)
{
	unsigned int next = 0, next_old = 0, seen = 0;
	const struct key *key;

	reset(to);
	reset(before);
	for (;;) {
		skip_blanks(text);
		skip_blanks(old);
		if (end_at(text) == LINE_END || end_at(old) == LINE_END)
			break;
		key = take_key(text, &next);
		if (key != take_key(old, &next_old))
			return false;
		if (!key)
			continue;
		if (seen & 1U << (key - keys))
			return false;
		seen |= 1U << (key - keys);
		if (!wanted(key, what)) {
			skip_word(text);
			skip_word(old);
			continue;
		}
		if (key->kind == HISTOGRAM ?
			    !take_both_histograms(text, to, old, before, key->number) :
			    !take_value(text, key, to) || !take_value(old, key, before))
			return false;
	}
	if (end_at(text) != LINE_END || end_at(old) != LINE_END)
		return false;
	skip_line(text);
	return true;
}

/* Move TEXT behind the name of that device. False: no line begins with it. */
static bool find_line(struct rest *text, struct word name)
{
	for (; text->at < text->end; skip_line(text))
		if (same(take_word(text), name))
			return true;
	return false;
}

/* MAJ:MIN */
static bool device_name(struct word name)
{
	const char *colon = memchr(name.at, ':', name.length);
	size_t i;

	if (!colon || colon == name.at || colon == name.at + name.length - 1)
		return false;
	for (i = 0; i < name.length; i++)
		if (name.at + i != colon && (name.at[i] < '0' || name.at[i] > '9'))
			return false;
	return true;
}

/* The values of DEVICE become the growth since OLD. False: one is smaller than in OLD, so all have started again at 0. */
static bool subtract(struct device *device, const struct device *old)
{
	unsigned int i, bucket;

	if (device->first > old->first)
		device->first = old->first;
	if (device->used < old->used)
		device->used = old->used;
	for (i = 0; i < COUNTERS; i++)
		if (device->counters[i] < old->counters[i])
			return false;
	for (i = 0; i < DIRECTIONS * HISTOGRAMS; i++)
		for (bucket = device->first; bucket < device->used; bucket++)
			if (device->histograms[i][bucket] < old->histograms[i][bucket])
				return false;
	for (i = 0; i < COUNTERS; i++)
		device->counters[i] -= old->counters[i];
	for (i = 0; i < DIRECTIONS * HISTOGRAMS; i++)
		for (bucket = device->first; bucket < device->used; bucket++)
			device->histograms[i][bucket] -= old->histograms[i][bucket];
	return true;
}

/* the largest latency of a bucket, µs */
static uint64_t upper(unsigned int bucket)
{
	return bucket < 8 ? bucket : ((UINT64_C(9) + bucket % 8) << (bucket / 8 - 1)) - 1;
}

/*
 * The number of requests in the histogram NUMBER, and the sum of their latencies: each counts as the middle of its
 * bucket.
 */
static uint64_t add_up(const struct device *grown, unsigned int number, uint64_t *us)
{
	const uint64_t *counts = grown->histograms[number];
	uint64_t requests = 0, twice = 0;
	unsigned int i;

	for (i = grown->first; i < grown->used; i++) {
		if (!counts[i])
			continue;
		requests += counts[i];
		twice += counts[i] * ((i ? upper(i - 1) + 1 : 0) + upper(i));
	}
	*us = twice / 2;
	return requests;
}

/*
 * The parts of DEVICE become the growth since OLD. A part that is smaller than in OLD has started again at 0: the cgroup
 * was gone meanwhile.
 */
static void subtract_parts(struct device *device, const struct device *old)
{
	for (unsigned int i = 0; i < device->parts_used; i++) {
		struct part *part = &device->parts[i];
		const struct part *before = find_part(old, part->cgroup, i);

		if (before && before->us <= part->us)
			part->us -= before->us;
	}
}

struct output {
	uint64_t *values;
	size_t room, used;
};

static void put(struct output *out, uint64_t value)
{
	if (out->used < out->room)
		out->values[out->used] = value;
	out->used++;
}

/* Write the record of one direction, unless nothing has grown. OFFSET: of the device's NAME in the text. */
static void put_record(struct output *out, const struct device *grown, struct word name,
		       uint64_t offset, unsigned int direction)
{
	uint64_t us[HISTOGRAMS], requests[HISTOGRAMS], any, buckets = 0;
	const uint64_t *latency = grown->histograms[direction * HISTOGRAMS + LATENCY];
	unsigned int i;

	any = grown->counters[IOS + direction] | grown->counters[BYTES + direction];
	for (i = 0; i < HISTOGRAMS; i++) {
		requests[i] = add_up(grown, direction * HISTOGRAMS + i, &us[i]);
		any |= requests[i];
	}
	if (!any)
		return;
	for (i = grown->first; i < grown->used; i++)
		buckets += latency[i] > 0;
	put(out, offset);
	put(out, name.length);
	put(out, direction);
	put(out, grown->counters[BYTES + direction]);
	put(out, grown->counters[IOS + direction]);
	put(out, us[WAIT] + us[GATE]);
	put(out, us[GATE]);
	put(out, requests[GATE]);
	put(out, us[SERVICE]);
	put(out, buckets);
	for (i = grown->first; i < grown->used; i++)
		if (latency[i])
			put(out, i);
	for (i = grown->first; i < grown->used; i++)
		if (latency[i])
			put(out, latency[i]);
}

/* Write the record of the waiting time, unless it has not grown. */
static void put_waiting(struct output *out, const struct device *grown, struct word name,
			uint64_t offset)
{
	unsigned int i, n = 0;

	for (i = 0; i < grown->parts_used; i++)
		n += grown->parts[i].us > 0;
	if (!n && !grown->counters[WAITED])
		return;
	put(out, offset);
	put(out, name.length);
	put(out, DIRECTIONS);
	put(out, grown->counters[WAITED]);
	put(out, n);
	for (i = 0; i < grown->parts_used; i++)
		if (grown->parts[i].us)
			put(out, grown->parts[i].cgroup);
	for (i = 0; i < grown->parts_used; i++)
		if (grown->parts[i].us)
			put(out, grown->parts[i].us);
}

int64_t ek_history_grow(const char *old, size_t old_length, const char *text, size_t length,
			unsigned int what, uint64_t *values, size_t room)
{
	struct rest rest = { text, text + length }, others, line, before;
	struct output out = { values, room, 0 };
	struct device device, last;
	struct word name;
	bool known;

	while (rest.at < rest.end) {
		name = take_word(&rest);
		if (!name.length) {
			skip_line(&rest);
			continue;
		}
		if (!device_name(name))
			return -1;
		before = (struct rest){ old, old + old_length };
		known = find_line(&before, name);
		line = rest;
		others = before;
		if (known && take_both(&line, &device, &others, &last, what) &&
		    subtract(&device, &last)) {
			rest = line;
			subtract_parts(&device, &last);
		} else {
			if (!take_values(&rest, &device, what) ||
			    (known && !take_values(&before, &last, what)))
				return -1;
			if (known && subtract(&device, &last))
				subtract_parts(&device, &last);
		}
		others = rest;
		if (find_line(&others, name))
			return -1;
		for (unsigned int direction = 0; what & EK_HISTORY_FLOWS && direction < DIRECTIONS;
		     direction++)
			put_record(&out, &device, name, (uint64_t)(name.at - text), direction);
		if (what & EK_HISTORY_WAITS)
			put_waiting(&out, &device, name, (uint64_t)(name.at - text));
	}
	return (int64_t)out.used;
}
