// SPDX-License-Identifier: Apache-2.0
/*
 * Decompresses a row of the history. zlib takes a third of the processor time of a chart, and 1.5 times as long as ISA-L.
 */
#include "history.h"

#include <isa-l/igzip_lib.h>

int64_t ek_history_unzip(const void *data, size_t size, void *to, size_t room)
{
	struct inflate_state state;

	if (size > UINT32_MAX || room > UINT32_MAX)
		return -1;
	isal_inflate_init(&state);
	state.crc_flag = ISAL_ZLIB; /* it has a header and a checksum, as in RFC 1950 */
	/* the library does not write to its input, but the pointer is not const */
	state.next_in = (uint8_t *)(uintptr_t)data;
	state.avail_in = (uint32_t)size;
	state.next_out = to;
	state.avail_out = (uint32_t)room;
	if (isal_inflate_stateless(&state) != ISAL_DECOMP_OK ||
	    state.block_state != ISAL_BLOCK_FINISH)
		return -1;
	return state.total_out;
}
