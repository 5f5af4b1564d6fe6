/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The block-layer side of evenkeel: types shared by its files.
 *
 *   elevator.c        the elevator's methods, in the order in which a request meets them
 *   admission.c       submitters that wait for a scheduler tag
 *   queue.c           the requests of a group, and which of them is next
 *   channel_choice.c  which of a group's reads, by flash channel (optional)
 *   fixed_share.c     fixed shares: completions that are held back (optional)
 *   cgroup.c          groups as a blkcg policy; io.weight, io.evenkeel.*
 *   sysfs.c           tunables in queue/iosched, state in debugfs
 *   trace.h           tracepoints
 *   compat.h          differences between kernel versions
 *
 * Which group is served or admitted next is decided in ../core.
 */
#ifndef EK_H
#define EK_H

#include <linux/atomic.h>
#include <linux/blkdev.h>
#include <linux/blk-mq.h>
#include <linux/hrtimer.h>
#include <linux/list.h>
#include <linux/percpu.h>
#include <linux/spinlock.h>

#include "elevator.h"
#include "blk-mq.h"
#include "blk-mq-debugfs.h"
#include "blk-mq-sched.h"
#include "blk-stat.h"
#include "blk-cgroup.h"

#include "compat.h"
#include "../core/core.h"
#include "../ek_math.h"
#include "../ek_channel.h"

/* what a debug kernel checks in addition to its own: invariants of the hot path */
#define ek_debug_warn(cond) \
	WARN_ON_ONCE(IS_ENABLED(CONFIG_PROVE_LOCKING) && (cond))

/* The queues of a group, each in order of arrival. */
enum ek_class {
	EK_URGENT,	/* other groups may wait for it: see ek_rq_is_urgent() */
	EK_READ,
	EK_WRITE_SYNC,	/* a task waits for it, or may: direct I/O, fsync() */
	EK_WRITE_ASYNC,	/* writeback */
	EK_CLASSES,
};

/* Reads overtake synchronous writes of their group that arrived up to this much earlier. */
#define EK_READ_LEAD_NS		(8 * NSEC_PER_MSEC)

/* The latencies that are kept, per direction. */
enum ek_hist {
	EK_HIST_WAIT,	/* request allocated -> issued to the device */
	EK_HIST_SERVE,	/* issued -> completed */
	EK_HIST_TOTAL,	/* allocated -> completed, as the submitter sees it */
	EK_HIST_GATE,	/* before allocation: submitters that waited for a tag */
	EK_HISTS,
};

/* Per CPU. Only its own CPU writes; readers add up all CPUs. */
struct ek_histograms {
	u64 count[2][EK_HISTS][EK_BUCKETS];
};

/*
 * A cgroup on one device. ek_data.lock protects all fields without a comment on
 * their locking.
 *
 * Lifetime: @refs counts the policy data of the blkg, the group's inserted and
 * not yet freed requests (one reference for all), each submitter that passes the
 * gate, each flush that is timed, each held-back completion, and each child.
 * The last put takes the group out of the core and frees it after an RCU grace
 * period.
 */
struct ek_group {
	struct blkg_policy_data pd;
	struct ek_data *ek;
	atomic_t refs;
	atomic_t held;		/* tags: requests inserted, not freed; any context */
	struct rcu_head rcu;
	struct list_head node;	/* in ek_data.groups */
	u64 cgroup;		/* inode number of its directory */
	u32 dev_weight;		/* set for this device; 0: the cgroup's default */

	/* The policy's part. The core sees neither requests nor waiters of a regulated group. */
	struct ek_core_group core;

	u32 queued;		/* requests in @fifo */
	struct list_head fifo[EK_CLASSES];
	u32 awaiting_flush;	/* of @queued: flushes of any group wait for these */
	u32 sync_streak;	/* others dispatched past a waiting EK_WRITE_ASYNC */
	struct list_head writers;	/* in ek_data.writers while EK_WRITE_ASYNC has some */

	struct list_head waiters;	/* submitters that wait for a tag, in order */
	u32 nr_waiting;
	bool gate_fixed;	/* they wait in ek_fixed.gate, not in the core */
	u32 pending;		/* admitted, and no request inserted since */
	struct list_head granted;	/* in ek_data.grantees while @pending */

	/* counters: [op_is_write] */
	u64 bytes[2];		/* given to the device */
	u64 ios[2];
	u64 merged[2];
	u64 throttled;		/* submitters that waited for a tag */
	u64 reordered;		/* reads taken before older ones for their channel */

	/*
	 * Fixed share. @fixed is what is asked for in percent, 0: none.
	 * @regulated: the requests that are here now are served that way.
	 */
	u32 fixed;
	bool regulated;
	struct list_head fixed_node;	/* in ek_fixed.groups if @fixed */
	struct list_head fixed_ready;	/* in ek_fixed.ready if @regulated and @queued */
	struct list_head fixed_gate;	/* in ek_fixed.gate if @gate_fixed and @waiters */
	atomic_t fixed_flight;	/* in the device as regulated requests; any context */
	unsigned long fixed_used;	/* jiffies: last request */
	u64 fixed_due;		/* ns: when the one in the device has to be done */
	u64 fixed_mean;		/* ns: and its service time */
	/* under ek_fixed.lock */
	u64 fixed_free;		/* ns: when the slower device is done with the last one */
	u64 fixed_late;		/* ns: by how much the last one was late */
	u64 fixed_ios;
	u64 fixed_nr_late;
	u64 fixed_ideal_ns;	/* sums: their ratio is the accuracy */
	u64 fixed_actual_ns;

	struct ek_histograms __percpu *histograms;	/* NULL until looked at */
};

struct ek_cgroup {
	struct blkcg_policy_data cpd;
	u32 weight;		/* default for all devices; under blkcg->lock */
};

/* The group of a bio that is not its submitter's own, between merge and tag. */
struct ek_stash {
	struct task_struct *task;
	struct ek_group *group;	/* holds a reference */
};

/*
 * Regulated groups of a queue. ek_data.lock protects the lists of groups and the
 * cap. @lock protects the rest; it is taken from any context, nests inside
 * ek_data.lock and has nothing but the timers' locks inside.
 */
struct ek_fixed {
	struct list_head groups;	/* by ek_group.fixed_node */
	struct list_head ready;		/* by ek_group.fixed_ready, in order of arrival */
	struct list_head gate;		/* by ek_group.fixed_gate, in order of arrival */
	u32 nr;			/* groups */
	u64 until;		/* ns: see ek_fixed_first() */
	u32 rule;		/* cap by the paper's rule, U32_MAX: no limit */
	u32 cap;		/* in force: requests of others in the device */
	struct ek_search search;	/* what was learned: cap - rule */
	bool held;		/* the cap held others back, since the last look */
	unsigned long tick;	/* jiffies of the last look */

	spinlock_t lock;	/* all below: see above */
	struct list_head jobs;		/* requests that are complete and held back */
	bool stopping;
	u64 busy_since;			/* ns: written under ek_data.lock */
	u64 last_done;			/* ns: last completion, 0: of none yet */
	unsigned long flushes;		/* of the device, at that completion */
	struct ek_service service[2][EK_SIZES];	/* [op_is_write] */
	u32 round;			/* regulated completions since the last look */
	u64 round_ideal;		/* ns: their sums */
	u64 round_actual;
};

/*
 * One request queue.
 *
 * @lock is taken with interrupts off, from process, softirq and hardirq
 * context; nothing else is taken under it but the runqueue locks of wake-ups.
 * It nests inside queue_lock and blkcg->lock. Completion takes it only when
 * a submitter waits at the gate.
 */
struct ek_data {
	struct request_queue *q;
	spinlock_t lock;	/* all fields without a comment on their locking */

	struct ek_core core;
	struct list_head groups;	/* all, by ek_group.node */
	struct list_head dispatch;	/* requeued and head insertions: go first */
	struct list_head writers;	/* groups with writeback, by ek_group.writers */
	unsigned long tick;		/* jiffies of the last look at @writers */
	u32 nr_queued;			/* in groups */
	u32 nr_ready;			/* those and @dispatch */

	/* Incremented under lock before dispatch, decremented at completion; any context. */
	atomic_t in_flight;
	atomic_t channel_flight[EK_CHANNELS_MAX];
	bool timing;		/* requests know when they were issued; any context */

	struct ek_fixed fixed;
	atomic_t fixed_in_flight;	/* of @in_flight, those of regulated groups */
	atomic_t fixed_tags;	/* tags that they hold; any context */

	bool on_hold;		/* dispatch waits for a completion, an insertion or @hold_timer */
	struct hrtimer hold_timer;

	/* admission.c */
	atomic_t tags_used;	/* allocated, counted ones */
	atomic_t granted;	/* admitted, tag not yet taken */
	u64 granted_at;		/* ns: last grant */
	u32 nr_waiting;
	struct list_head grantees;	/* by ek_group.granted */
	struct ek_stash __percpu *stash;

	/* tunables that are not the core's: see sysfs.c for units, bounds and reasons */
	u32 fixed_cap;
	u32 channels;
	u32 chunk_kb;

	/* counters: under lock */
	u64 nr_holds;
	u64 nr_gate_waits;
	u64 nr_stale_grants;
	atomic_t nr_nowait_limited;	/* REQ_NOWAIT beyond a share; any context */
};

/*
 * What we keep with a request: priv[0] is the group that it is accounted to, from
 * insertion until it is freed. priv[1] is a struct ek_rq_state. The place of the
 * io_cq, of which we have none, is for an ek_job: see fixed_share.c. fifo_time is
 * the group of a flush that is timed (until insertion), then the time of dispatch
 * (from then on).
 */
static inline struct ek_group *ek_rq_group(struct request *rq)
{
	return rq->elv.priv[0];
}

/*
 * How @rq is accounted. @flight: all of it but @urgent and @channel is valid. Before
 * insertion only @flusher is.
 */
struct ek_rq_state {
	u32 cost;		/* see struct ek_req */
	u8 channel;		/* EK_CHANNEL_NONE: on none */
	u8 size;		/* ek_size_class() */
	u8 why;			/* enum ek_why */
	u8 urgent:1;
	u8 flight:1;		/* it is in the device */
	u8 regulated:1;		/* as one of a regulated group */
	u8 flusher:1;		/* not inserted; fifo_time: the group whose flush it is */
};

static_assert(sizeof(struct ek_rq_state) == sizeof(void *));

static inline struct ek_rq_state *ek_rq_state(struct request *rq)
{
	return (struct ek_rq_state *)&rq->elv.priv[1];
}

/*
 * May a task of another group wait for I/O with these flags? Metadata and journal
 * blocks are read and written with locks held, and memory is reclaimed by writing
 * to swap, whichever cgroup owns the pages.
 */
static inline bool ek_is_urgent(blk_opf_t opf)
{
	return opf & (REQ_META | REQ_PRIO | REQ_SWAP);
}

/*
 * Each flush of any group waits for @rq, data that a flush is to follow, from its
 * submission on: on a device with a cache that cannot write past it.
 */
static inline bool ek_rq_awaits_flush(struct request *rq)
{
	return rq->rq_flags & RQF_FLUSH_SEQ;
}

static inline enum ek_class ek_rq_class(struct request *rq)
{
	if (unlikely(ek_rq_state(rq)->urgent))
		return EK_URGENT;
	if (!op_is_write(req_op(rq)))
		return EK_READ;
	return op_is_sync(rq->cmd_flags) ? EK_WRITE_SYNC : EK_WRITE_ASYNC;
}

static inline enum ek_op ek_rq_op(struct request *rq)
{
	switch (req_op(rq)) {
	case REQ_OP_READ:
		return EK_OP_READ;
	case REQ_OP_DISCARD:
	case REQ_OP_SECURE_ERASE:
		return EK_OP_ERASE;
	case REQ_OP_WRITE_ZEROES:
		return EK_OP_ZERO;
	default:
		return op_is_write(req_op(rq)) ? EK_OP_WRITE : EK_OP_READ;
	}
}

/* Does @rq name blocks, perhaps gigabytes of them, but move none? */
static inline bool ek_rq_erases(struct request *rq)
{
	/* nearly all */
	if (likely(req_op(rq) == REQ_OP_READ || req_op(rq) == REQ_OP_WRITE))
		return false;
	return ek_rq_op(rq) == EK_OP_ERASE || ek_rq_op(rq) == EK_OP_ZERO;
}

/* queue.c */
void ek_group_init(struct ek_group *g, struct ek_data *ek,
		   struct ek_group *parent, u32 weight);
void ek_group_add(struct ek_data *ek, struct ek_group *g, struct request *rq);
bool ek_group_quick(struct ek_data *ek, struct ek_group *g, struct request *rq);
void ek_group_remove(struct ek_data *ek, struct ek_group *g, struct request *rq);
void ek_group_set_weight(struct ek_group *g, u32 weight);
void ek_group_regulate(struct ek_data *ek, struct ek_group *g, bool regulated);
struct request *ek_next(struct ek_data *ek);
void ek_rq_left_device(struct ek_data *ek, struct ek_group *g,
		       struct request *rq, bool served, u64 now);
void ek_hold_arm(struct ek_data *ek, u64 now, u64 until);

static inline void ek_group_get(struct ek_group *g)
{
	atomic_inc(&g->refs);
}

void ek_group_release(struct ek_group *g);

/* Never under ek_data.lock: the last put takes it. */
static inline void ek_group_put(struct ek_group *g)
{
	if (atomic_dec_and_test(&g->refs))
		ek_group_release(g);
}

static inline struct ek_group *ek_group_of(struct ek_core_group *core)
{
	return container_of(core, struct ek_group, core);
}

static inline u32 ek_group_weight(struct ek_group *g)
{
	return READ_ONCE(g->core.node.weight);
}

static inline u32 ek_group_in_flight(struct ek_group *g)
{
	return atomic_read(&g->core.in_flight) + atomic_read(&g->fixed_flight);
}

/* Served by regulation, or about to be. Racy without lock. */
static inline bool ek_group_is_fixed(struct ek_group *g)
{
	return READ_ONCE(g->fixed) || READ_ONCE(g->regulated);
}

/* channel_choice.c */
bool ek_channel_on(struct ek_data *ek);
u32 ek_rq_channel(struct ek_data *ek, struct request *rq);
void ek_channels_changed(struct ek_data *ek);
struct request *ek_channel_first(struct ek_data *ek, struct ek_group *g,
				 u64 latest);

/* @rq waits from now on, or has grown: remember where it is, if that matters. */
static inline void ek_channel_note(struct ek_data *ek, struct request *rq)
{
	lockdep_assert_held(&ek->lock);
	if (unlikely(ek->channels > 1) && ek_rq_class(rq) == EK_READ)
		ek_rq_state(rq)->channel = ek_rq_channel(ek, rq);
}

/* fixed_share.c */
void ek_fixed_init(struct ek_data *ek);
void ek_fixed_stop(struct ek_data *ek);
void ek_fixed_hook(struct ek_data *ek, struct request *rq);
void ek_fixed_complete(struct ek_data *ek, struct request *rq, u64 now);
void ek_fixed_learn(struct ek_data *ek, struct request *rq, u64 now);
void ek_fixed_tick(struct ek_data *ek);
void ek_fixed_enter(struct ek_data *ek, struct ek_group *g);
void ek_fixed_convert(struct ek_data *ek, struct ek_group *g);
struct ek_group *ek_fixed_first(struct ek_data *ek);
void ek_fixed_expect(struct ek_data *ek, struct ek_group *g, struct request *rq);
bool ek_fixed_full(struct ek_data *ek, u32 flight);
int ek_fixed_set(struct ek_group *g, u32 percent);

/* admission.c */
/* with fewer free tags, each submitter asks for its own */
#define EK_FEW_TAGS	8

static inline u32 ek_tags(struct ek_data *ek)
{
	return READ_ONCE(ek->q->nr_requests) - ek->q->tag_set->reserved_tags;
}

/*
 * No submitter waits and most tags are free: no need to know who asks. With few
 * tags it always matters who has them. Called without lock, once per batch.
 */
static inline bool ek_gate_open(struct ek_data *ek)
{
	return !READ_ONCE(ek->nr_waiting) &&
	       2 * (u32)atomic_read(&ek->tags_used) + EK_FEW_TAGS <
	       READ_ONCE(ek->q->nr_requests);
}

/* Of @wanted tags for a group that is alone, as many as leave a quarter to others. */
static inline u32 ek_gate_left(struct ek_data *ek, u32 wanted)
{
	s32 left = READ_ONCE(ek->q->nr_requests) * 3 / 4 -
		   atomic_read(&ek->tags_used);

	return clamp_t(s32, left, 1, wanted);
}

void ek_gate_admit(struct ek_data *ek, struct ek_group *g, blk_opf_t opf);
void ek_gate_inserted(struct ek_data *ek, struct ek_group *g);
void ek_gate_kick(struct ek_data *ek);
void ek_gate_run(struct ek_data *ek);
void ek_gate_sort(struct ek_data *ek, struct ek_group *g);
bool ek_gate_fits(struct ek_data *ek, struct ek_group *g, bool async);

/* cgroup.c */
extern struct blkcg_policy ek_policy;
struct ek_group *ek_bio_group(struct ek_data *ek, struct bio *bio);
struct ek_group *ek_current_group(struct ek_data *ek, blk_opf_t opf);
void ek_stash_bio(struct ek_data *ek, struct bio *bio);

/* Is there one on this CPU that a request did not take? */
static inline bool ek_stash_left(struct ek_data *ek)
{
	return READ_ONCE(raw_cpu_ptr(ek->stash)->group);
}

void ek_stash_clear(struct ek_data *ek);
void ek_account_request(struct ek_group *g, struct request *rq, u64 now);
void ek_account_ns(struct ek_group *g, bool write, enum ek_hist hist, u64 ns);

/* @rq of @g was completed at @now. Costs nothing until the statistics are read. */
static inline void ek_account(struct ek_group *g, struct request *rq, u64 now)
{
	if (unlikely(READ_ONCE(g->histograms)))
		ek_account_request(g, rq, now);
}

int ek_cgroup_init(void);
void ek_cgroup_exit(void);

/* sysfs.c */
extern struct elv_fs_entry ek_attrs[];
extern const struct blk_mq_debugfs_attr ek_debugfs_attrs[];
void ek_tunables_init(struct ek_data *ek);

#endif /* EK_H */
