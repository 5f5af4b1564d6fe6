/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Channels of a flash device: which channel an address is on, and which of the waiting
 * requests makes the best use of the channels. The source is Okumura et al., "An I/O
 * scheduler that exploits the parallelism of SSDs".
 *
 * Pure, like ek_math.h.
 */
#ifndef EK_CHANNEL_H
#define EK_CHANNEL_H

#include "ek_math.h"

#define EK_CHANNELS_MAX	64

/*
 * The channel of a request that has none, or that spans several: its address does not show
 * which requests it collides with.
 */
#define EK_CHANNEL_NONE	EK_CHANNELS_MAX

/* The choice is among at most this many of a group's oldest requests. */
#define EK_CHANNEL_LOOK	64

/*
 * The channel of @bytes at @sector. Addresses go to the @channels channels in turn, @chunk_kb
 * KiB to each. If @chunk_kb is 0, each channel instead has one of @channels equal ranges of
 * the device's @capacity sectors, as in the paper.
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
 * Choose one of @nr waiting requests, which are sorted by age, oldest first. @channel[i] is
 * the channel of request i. @load[] is the number of requests in the device on each channel.
 * Returns the index of the first request whose channel has the least load.
 *
 * The paper visits channels in turn, and avoids those being written. The least load has the
 * same effect: a channel just served has more load, so another is next. A die that is busy
 * with any work keeps its load, so its channel is avoided. If the oldest request has no
 * channel, it goes first, so that a sequential stream stays in order.
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
