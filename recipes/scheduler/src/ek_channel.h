/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Channels of a flash device: which one an address is on, and which of the
 * requests that wait makes the best use of them (the fourth paper, S4).
 *
 * Pure, like ek_math.h.
 */
#ifndef EK_CHANNEL_H
#define EK_CHANNEL_H

#include "ek_math.h"

#define EK_CHANNELS_MAX	64

/* on none, or on several: its place says nothing about who it collides with */
#define EK_CHANNEL_NONE	EK_CHANNELS_MAX

/* as many of the oldest requests of a group are looked at */
#define EK_CHANNEL_LOOK	64

/*
 * The channel of @bytes at @sector. With @chunk_kb of addresses on each in turn,
 * or, if 0, in equal ranges of @capacity sectors, as the paper has it.
 */
static inline u32 ek_channel_of(u64 sector, u32 bytes, u32 channels,
				u32 chunk_kb, u64 capacity)
{
	u64 first, last, unit = 2ULL * chunk_kb;

	if (!unit)
		unit = max_t(u64, div_u64(capacity + channels - 1, channels), 1);
	first = div64_u64(sector, unit);
	last = div64_u64(sector + (max_t(u32, bytes, 512) - 1) / 512, unit);
	if (first != last)
		return EK_CHANNEL_NONE;
	if (!chunk_kb)
		return min_t(u64, first, channels - 1);
	return first - div_u64(first, channels) * channels;
}

/*
 * Which of @nr waiting requests, oldest first and on @channel[], goes to a
 * device that has @load[] requests on each channel? The first of those whose
 * channel has the least to do. The paper visits channels in turn, and leaves
 * out those being written; the least loaded one is next in turn as well, and
 * one whose die is busy, with whatever it is, keeps its load and is left out.
 * The oldest goes if it is on none: a stream stays in order.
 */
static inline u32 ek_channel_pick(const unsigned char *channel, u32 nr,
				  const u32 *load)
{
	u32 i, best = 0;

	if (channel[0] == EK_CHANNEL_NONE)
		return 0;
	for (i = 1; i < nr && load[channel[best]]; i++)
		if (channel[i] != EK_CHANNEL_NONE &&
		    load[channel[i]] < load[channel[best]])
			best = i;
	return best;
}

#endif /* EK_CHANNEL_H */
