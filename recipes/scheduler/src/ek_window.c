// SPDX-License-Identifier: GPL-2.0-only
/*
 * How much may be in the device: as much as it serves in a short time.
 *
 * What is in the device is out of the scheduler's hands. On a board's eMMC 64
 * requests of 512 KiB are half a second of writing, which every read waits for
 * that comes after. Splitting large I/O, as Hasegawa et al. do, makes
 * the pieces small; what bounds the wait is how many of them are let in. So
 * the bytes that a group may have inside are found from the rate at which the
 * device serves them, which is measured whenever it is busy for long enough:
 * @window_us of work while there are other groups or were a short time ago, and
 * twice that for a group that has been alone for longer. When one of the groups
 * is light, one that comes now and then for a little, half of it: that one waits
 * for whatever is in the device when it comes, and heavy ones not at all.
 *
 * Never less than two of the largest requests, one served and one to follow, or
 * what fills a command queue: below that the device idles, and the rate would be
 * that of our own making.
 */
#include "ek.h"

/* a group that is alone may have this many times @window_us inside, */
#define EK_ALONE	2
/* and those that a light one is beside this part of it */
#define EK_LIGHT	2

/* how long the device must be busy for its rate to count */
#define EK_SLICE_NS	(16 * NSEC_PER_MSEC)

/* so many small requests fill the command queue of an eMMC or a SATA disk twice */
#define EK_COMMANDS	64

static u32 ek_floor_kb(struct ek_data *ek)
{
	return max(2 * (queue_max_sectors(ek->q) / 2 + ek->request_kb),
		   EK_COMMANDS * ek->request_kb);
}

static void ek_window_set(struct ek_window *w, u32 kb, u32 alone_kb,
			  u32 light_kb, const char *why, u64 now)
{
	if (w->beside_kb != kb)
		w->changed = now;
	w->beside_kb = kb;
	w->alone_kb = alone_kb;
	w->light_kb = light_kb;
	w->why = why;
}

/* Bring what is in force in line with the rates and the tunables. */
void ek_window_update(struct ek_data *ek, u64 now)
{
	u32 floor_kb = ek_floor_kb(ek);
	struct ek_window *w;

	for (w = ek->window; w < ek->window + ARRAY_SIZE(ek->window); w++) {
		u32 kb = ek_window_kb(w->rate, ek->window_us, floor_kb);
		u32 alone = ek_window_kb(w->rate, EK_ALONE * ek->window_us,
					 floor_kb);
		u32 light = ek_window_kb(w->rate, ek->window_us / EK_LIGHT,
					 floor_kb);

		if (w->set_kb)
			ek_window_set(w, w->set_kb, w->set_kb, w->set_kb,
				      "set", now);
		else
			ek_window_set(w, kb, alone, light,
				      kb > floor_kb ? "rate" : "least",
				      now);
	}
}

void ek_window_init(struct ek_data *ek)
{
	ek_window_update(ek, ktime_get_ns());
}

/* Called now and then from dispatch: learns the rate of what was served. */
void ek_window_measure(struct ek_data *ek, u64 now)
{
	u64 took = now - ek->slice_begin;
	u64 sent[2], served, flight;
	struct ek_window *w = NULL;
	bool idled;

	lockdep_assert_held(&ek->lock);
	if (took < EK_SLICE_NS)
		return;
	idled = READ_ONCE(ek->idled);
	WRITE_ONCE(ek->idled, false);
	sent[0] = ek->window[0].sent_kb - ek->slice_kb[0];
	sent[1] = ek->window[1].sent_kb - ek->slice_kb[1];
	flight = max(atomic_read(&ek->in_flight_kb), 0);
	/* of one direction, or it says nothing about either */
	if (sent[0] > 8 * sent[1])
		w = &ek->window[0];
	else if (sent[1] > 8 * sent[0])
		w = &ek->window[1];
	/* nor does one in which it was busy with what moves no data */
	if (w && !idled && !ek->slice_erased) {
		served = sent[0] + sent[1] + ek->slice_flight_kb - flight;
		served = min_t(u64, div64_u64(served * NSEC_PER_MSEC, took),
			       1U << 30);
		w->rate = w->rate ? (w->rate + served) / 2 : served;
	}
	ek->slice_begin = now;
	ek->slice_kb[0] = ek->window[0].sent_kb;
	ek->slice_kb[1] = ek->window[1].sent_kb;
	ek->slice_flight_kb = flight;
	ek->slice_erased = atomic_read(&ek->erasing);
	ek_window_update(ek, now);
}
