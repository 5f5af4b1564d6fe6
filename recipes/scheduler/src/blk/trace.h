/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Tracepoints evenkeel:*. The field cgroup is the inode number of the cgroup's directory.
 * Costs and times are in ns. A tracepoint that nobody listens to is a no-op.
 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM evenkeel

#if !defined(EK_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define EK_TRACE_H

#include <linux/tracepoint.h>

#include "ek.h"

TRACE_DEFINE_ENUM(EK_URGENT);
TRACE_DEFINE_ENUM(EK_READ);
TRACE_DEFINE_ENUM(EK_WRITE_SYNC);
TRACE_DEFINE_ENUM(EK_WRITE_ASYNC);

/*
 * A request goes to the device. ahead: the virtual time of its group, after the charge for
 * the request, minus the core's virtual time. why: enum ek_why.
 */
TRACE_EVENT(ek_dispatch,
	    TP_PROTO(struct ek_data *ek, struct ek_group *g, struct request *rq),
	    TP_ARGS(ek, g, rq),
	    TP_STRUCT__entry(
		__field(dev_t, dev)
		__field(u64, cgroup)
		__field(sector_t, sector)
		__field(u32, bytes)
		__field(u32, cost)
		__field(u32, share)
		__field(s64, ahead)
		__field(int, in_flight)
		__field(u8, class)
		__field(u8, why)
	    ),
	    TP_fast_assign(
		__entry->dev = disk_devt(ek->q->disk);
		__entry->cgroup = g->cgroup;
		__entry->sector = blk_rq_pos(rq);
		__entry->bytes = blk_rq_bytes(rq);
		__entry->cost = ek_rq_state(rq)->cost;
		__entry->share = g->core.share;
		__entry->ahead = g->core.vtime - ek->core.vnow;
		__entry->in_flight = atomic_read(&ek->in_flight);
		__entry->class = ek_rq_class(rq);
		__entry->why = ek_rq_state(rq)->why;
	    ),
	    TP_printk("%d:%d cgroup=%llu %s sector=%llu bytes=%u cost=%u share=%u.%02u ahead=%lld in_flight=%d why=%u",
		      MAJOR(__entry->dev), MINOR(__entry->dev), __entry->cgroup,
		      __print_symbolic(__entry->class, { EK_URGENT, "urgent" },
				       { EK_READ, "read" },
				       { EK_WRITE_SYNC, "sync-write" },
				       { EK_WRITE_ASYNC, "async-write" }),
		      (u64)__entry->sector, __entry->bytes, __entry->cost,
		      __entry->share >> EK_SHARE_SHIFT,
		      (__entry->share % EK_SHARE_ONE) * 100 / EK_SHARE_ONE,
		      __entry->ahead, __entry->in_flight, __entry->why)
);

/* Dispatch holds until a completion, an insertion, or the time `until` (ktime_get_ns()). */
TRACE_EVENT(ek_hold,
	    TP_PROTO(struct ek_data *ek, u64 until),
	    TP_ARGS(ek, until),
	    TP_STRUCT__entry(
		__field(dev_t, dev)
		__field(u64, until)
		__field(u32, queued)
		__field(int, in_flight)
	    ),
	    TP_fast_assign(
		__entry->dev = disk_devt(ek->q->disk);
		__entry->until = until;
		__entry->queued = ek->nr_queued;
		__entry->in_flight = atomic_read(&ek->in_flight);
	    ),
	    TP_printk("%d:%d until=%llu queued=%u in_flight=%d",
		      MAJOR(__entry->dev), MINOR(__entry->dev), __entry->until,
		      __entry->queued, __entry->in_flight)
);

/* A submitter was admitted after a wait of `waited` ns at the gate. */
TRACE_EVENT(ek_gate,
	    TP_PROTO(struct ek_data *ek, struct ek_group *g, u64 waited),
	    TP_ARGS(ek, g, waited),
	    TP_STRUCT__entry(
		__field(dev_t, dev)
		__field(u64, cgroup)
		__field(u64, waited)
		__field(int, held)
		__field(u32, waiting)
	    ),
	    TP_fast_assign(
		__entry->dev = disk_devt(ek->q->disk);
		__entry->cgroup = g->cgroup;
		__entry->waited = waited;
		__entry->held = atomic_read(&g->held);
		__entry->waiting = ek->nr_waiting;
	    ),
	    TP_printk("%d:%d cgroup=%llu waited=%llu tags=%d waiting=%u",
		      MAJOR(__entry->dev), MINOR(__entry->dev), __entry->cgroup,
		      __entry->waited, __entry->held, __entry->waiting)
);

/*
 * A request of a group with a fixed share completed. took: from its allocation to the
 * completion. early: from the completion to the time at which its bios are due; negative if
 * it is late.
 */
TRACE_EVENT(ek_fixed,
	    TP_PROTO(struct ek_data *ek, struct ek_group *g, u64 begin, u64 now,
		     u64 due),
	    TP_ARGS(ek, g, begin, now, due),
	    TP_STRUCT__entry(
		__field(dev_t, dev)
		__field(u64, cgroup)
		__field(u64, took)
		__field(s64, early)
		__field(s32, cap)
	    ),
	    TP_fast_assign(
		__entry->dev = disk_devt(ek->q->disk);
		__entry->cgroup = g->cgroup;
		__entry->took = now - begin;
		__entry->early = due - now;
		__entry->cap = ek->fixed.cap;
	    ),
	    TP_printk("%d:%d cgroup=%llu took=%llu early=%lld cap=%d",
		      MAJOR(__entry->dev), MINOR(__entry->dev), __entry->cgroup,
		      __entry->took, __entry->early, __entry->cap)
);

#endif /* EK_TRACE_H */

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE trace
#include <trace/define_trace.h>
