// SPDX-License-Identifier: GPL-2.0-only
/* Exports the inline functions of ek_channel.h as symbols, for test_channel.py. */
#include "../src/ek_channel.h"

u32 shim_channel_of(u64 sector, u32 bytes, u32 channels, u32 chunk_kb, u64 capacity);
u32 shim_channel_of(u64 sector, u32 bytes, u32 channels, u32 chunk_kb, u64 capacity)
{
	return ek_channel_of(sector, bytes, channels, chunk_kb, capacity);
}

u32 shim_channel_pick(const unsigned char *channel, u32 nr, const u32 *load);
u32 shim_channel_pick(const unsigned char *channel, u32 nr, const u32 *load)
{
	return ek_channel_pick(channel, nr, load);
}
