/* SPDX-License-Identifier: GPL-2.0-only */
/* Tracepoint flashsim:flashsim_request: the parts of a request's time. */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM flashsim

#if !defined(FLASHSIM_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define FLASHSIM_TRACE_H

#include <linux/tracepoint.h>

#include "flashsim_timing.h"

TRACE_EVENT(flashsim_request,
	    TP_PROTO(const char *dev, const struct ek_flash_req *req, u32 tag, int error),
	    TP_ARGS(dev, req, tag, error),
	    TP_STRUCT__entry(
		__string(dev, dev)
		__field(u8, op)
		__field(u8, channel)
		__field(u32, tag)
		__field(int, error)
		__field(u64, sector)
		__field(u32, bytes)
		__field(u64, total)
		__array(u64, part, EK_FS_PARTS)
	    ),
	    TP_fast_assign(
		__assign_str(dev);
		__entry->op = req->op;
		__entry->channel = req->channel;
		__entry->tag = tag;
		__entry->error = error;
		__entry->sector = req->sector;
		__entry->bytes = req->bytes;
		__entry->total = req->done - req->arrive;
		memcpy(__entry->part, req->part, sizeof(req->part));
	    ),
	    TP_printk("dev=%s op=%s sector=%llu bytes=%u tag=%u channel=%u error=%d queue_ns=%llu link_wait_ns=%llu cmd_ns=%llu link_ns=%llu die_wait_ns=%llu cell_ns=%llu channel_ns=%llu buffer_wait_ns=%llu gc_ns=%llu seek_ns=%llu rotate_ns=%llu map_ns=%llu retry_ns=%llu erase_ns=%llu background_ns=%llu throttle_ns=%llu total_ns=%llu",
		      __get_str(dev),
		      __print_symbolic(__entry->op, { 0, "read" }, { 1, "write" }, { 2, "flush" },
				       { 3, "discard" }),
		      __entry->sector, __entry->bytes, __entry->tag, __entry->channel,
		      __entry->error, __entry->part[0], __entry->part[1], __entry->part[2],
		      __entry->part[3], __entry->part[4], __entry->part[5], __entry->part[6],
		      __entry->part[7], __entry->part[8], __entry->part[9], __entry->part[10],
		      __entry->part[11], __entry->part[12], __entry->part[13], __entry->part[14],
		      __entry->part[15], __entry->total)
);

#endif /* FLASHSIM_TRACE_H */

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE flashsim_trace
#include <trace/define_trace.h>
