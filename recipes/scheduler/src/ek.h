/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * evenkeel: types shared by its parts.
 *
 *   ek_elevator.c  the elevator: merging, insertion, dispatch, completion
 *   ek_group.c   which group is next, by virtual time
 *   ek_gate.c    which group gets the next scheduler tag
 *   ek_window.c  how much may be in the device
 *   ek_channel.c  which of a group's reads, by flash channel
 *   ek_fixed.c    fixed share: completions that are held back
 *   ek_cgroup.c  groups as a blkcg policy; io.weight, io.evenkeel.stat
 *   ek_trace.h   tracepoints
 *   ek_sysfs.c   tunables in queue/iosched, state in debugfs
 *   ek_math.h    the arithmetic, testable in user space
 *   ek_share.h   what weights mean in a tree of cgroups, likewise
 *   ek_channel.h  the map of channels and the choice among them, likewise
 */
#ifndef EK_H
#define EK_H

#include <linux/atomic.h>
#include <linux/blkdev.h>
#include <linux/blk-mq.h>
#include <linux/hrtimer.h>
#include <linux/list.h>
#include <linux/percpu.h>
#include <linux/rbtree.h>
#include <linux/spinlock.h>

#include "elevator.h"
#include "blk-mq.h"
#include "blk-mq-debugfs.h"
#include "blk-mq-sched.h"
#include "blk-stat.h"
#include "blk-cgroup.h"

#include "compat.h"
#include "ek_math.h"
#include "ek_share.h"
#include "ek_channel.h"

/* what a debug kernel checks beside its own: invariants of the hot path */
#define ek_debug_warn(cond) \
	WARN_ON_ONCE(IS_ENABLED(CONFIG_PROVE_LOCKING) && (cond))

/* what waits in a group, each in order of arrival */
enum ek_class {
	EK_READ,
	EK_WRITE_SYNC,	/* somebody waits for it, or may: direct, fsync() */
	EK_WRITE_ASYNC,	/* written back */
	EK_CLASSES,
};

/* the latencies that are kept, per direction */
enum ek_hist {
	EK_HIST_WAIT,	/* request allocated -> issued to the device */
	EK_HIST_SERVE,	/* issued -> completed */
	EK_HIST_TOTAL,	/* allocated -> completed, as the submitter sees it */
	EK_HIST_GATE,	/* before that, of those that had to wait for a tag */
	EK_HISTS,
};

/* per CPU; only its own CPU writes, readers add up all */
struct ek_histograms {
	u64 count[2][EK_HISTS][EK_BUCKETS];
};

/*
 * A cgroup on one device. Fields are protected by ek_data.lock unless said.
 *
 * Lifetime: @refs counts one for the policy data of the blkg, one while there
 * are requests that were inserted and are not yet freed, one for each submitter
 * on its way through the gate, one for each child and one while the group is in
 * a tree. The last put frees it after an RCU grace period.
 */
struct ek_group {
	struct blkg_policy_data pd;
	struct ek_data *ek;
	atomic_t refs;
	atomic_t held;		/* tags: requests inserted, not freed; any context */
	struct rcu_head rcu;
	u64 cgroup;		/* its id, for those who look */

	struct ek_node share_node;	/* weight in force, place among groups */
	u32 dev_weight;		/* set for this device, 0: the cgroup's default */
	u32 share;		/* of @share_generation: see ek_group_share() */
	u32 share_generation;
	u64 ahead;		/* virtual time of ek_data.ahead_kb at @share */

	/*
	 * If @active, in ek_data.backlogged while @queued, else in .awaited; one
	 * whose last request left may still be in .backlogged, and moves when it
	 * gets to the front: see ek_first_backlogged().
	 */
	struct rb_node node;
	bool active;
	bool backlogged;
	u64 vtime;		/* start of the next request */
	u32 queued;
	u32 queued_kb;		/* estimate at insertion, for the gate */
	struct list_head fifo[EK_CLASSES];
	u32 awaiting_flush;	/* of @queued: each flush waits for these */
	u32 sync_streak;	/* others dispatched past a waiting EK_WRITE_ASYNC */
	unsigned long served;	/* jiffies: last dispatch, or begin of the queue */

	atomic_t in_flight;	/* dispatched, not completed: any context */
	atomic_t erasing;	/* of those, the ones that move no data */
	atomic_t flushing;	/* tags whose data are written, and not yet flushed */
	u64 last_done;		/* ns: last completion, written without lock */
	u32 think_us;		/* mean from last completion to next request */
	bool thought;		/* a hold for this group's next request is open */
	/* how much it takes: see ek_group_is_light() */
	unsigned long came_at;	/* jiffies: begin of the period that counts */
	u64 came_bytes;		/* served of it until then */
	u64 came_before;	/* and in a second before that */

	struct list_head waiters;	/* submitters that wait for a tag, in order */
	struct list_head gate;		/* in ek_data.gate while there are waiters */
	u32 pending;		/* admitted, not yet inserted */
	u64 pending_since;	/* ns: last admission */
	u32 request_kb;		/* cost of the last request inserted */

	/* counters: written under lock; [op_is_write] */
	u64 bytes[2];		/* given to the device */
	u64 ios[2];
	u64 merged[2];
	u64 throttled;		/* submitters that had to wait at the gate */
	u64 reordered;		/* reads taken before older ones for their channel */

	/*
	 * Fixed share. @fixed is what is asked for in percent, 0: none;
	 * @regulated whether the requests that are here now are served that way:
	 * then the group is in none of the trees.
	 */
	u32 fixed;
	bool regulated;
	struct list_head fixed_node;	/* in ek_fixed.groups if @fixed */
	struct list_head fixed_ready;	/* in ek_fixed.ready if @regulated and @queued */
	unsigned long fixed_used;	/* jiffies: last request */
	u64 fixed_due;		/* ns: when the one in the device has to be done */
	u64 fixed_mean;		/* ns: and its service time */
	/* under ek_fixed.lock */
	u64 fixed_free;		/* ns: when the slower device is done with the last one */
	u64 fixed_late;		/* ns: what the last one came too late */
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

/* the group of a bio that is not its submitter's own, between merge and tag */
struct ek_stash {
	struct task_struct *task;
	struct ek_group *group;	/* holds a reference */
};

/* How much of one direction may be in the device. Written under ek_data.lock. */
struct ek_window {
	u32 beside_kb;		/* KiB of cost, while other groups are active */
	u32 alone_kb;		/* the same for one that has been alone for EK_RECENT */
	u32 light_kb;		/* and while one of them is light */
	u32 rate;		/* KiB of cost per ms, as last measured; 0: not yet */
	u32 set_kb;		/* tunable: in force for both, 0: found by measuring */
	u64 sent_kb;		/* dispatched ever */
	u64 changed;		/* ns: last change of beside_kb */
	const char *why;	/* what set it */
};

/*
 * Regulated groups of a queue. Lists of groups and the cap are under
 * ek_data.lock, the rest under @lock, which is taken from any context, nests
 * inside ek_data.lock and has nothing but the timers' locks inside.
 */
struct ek_fixed {
	struct list_head groups;	/* by ek_group.fixed_node */
	struct list_head ready;		/* by ek_group.fixed_ready, in order of arrival */
	u32 nr;			/* groups */
	u64 until;		/* ns: see ek_fixed_first() */
	u32 rule;		/* cap by the paper's rule, U32_MAX: no limit */
	u32 cap;		/* in force: requests of others in the device */
	struct ek_search search;	/* what was learned: cap - rule */
	bool held;		/* others were, since the last look */

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
 * someone waits at the gate.
 */
struct ek_data {
	struct request_queue *q;
	spinlock_t lock;	/* all below, but what says otherwise: see above */

	struct rb_root_cached backlogged;	/* groups with requests, by vtime */
	struct rb_root_cached awaited;	/* active groups without, by vtime */
	struct list_head dispatch;	/* requeued and head insertions: go first */
	u64 vnow;			/* largest start tag dispatched */
	struct ek_top top;		/* shares of active groups */
	u32 nr_active;
	struct ek_group *last_active;	/* that became so last; not to be looked at */
	unsigned long shared;		/* jiffies: last time that there were two, */
	unsigned long light;		/* and that a light one came: ek_group_became_active() */
	u32 nr_queued;			/* in groups */
	u32 nr_ready;			/* those and @dispatch */
	unsigned long tick;		/* jiffies of the last look around */

	/* incremented under lock before dispatch, decremented at completion */
	atomic_t in_flight;
	atomic_t in_flight_kb;
	atomic_t erasing;	/* of @in_flight: those that move no data */
	bool idled;		/* the device had nothing to do; any context */
	bool timing;		/* times are taken; any context */

	struct ek_window window[2];	/* [op_is_write] */
	u64 slice_begin;	/* ns */
	u64 slice_kb[2];	/* ek_window.sent_kb at its begin */
	u32 slice_flight_kb;
	bool slice_erased;	/* and there were some that move no data */

	/*
	 * How long the device takes for a small request when it has no other,
	 * from one that was timed now and then. Set at dispatch under lock,
	 * taken by the completion of that very request.
	 */
	struct request *sample;
	u64 sample_at;		/* ns */
	u32 small_us;		/* 0: not known yet */
	unsigned long sampled;	/* jiffies */

	/* see ek_channel.c; in the device, as in_flight */
	atomic_t channel_flight[EK_CHANNELS_MAX];

	struct ek_fixed fixed;
	atomic_t fixed_in_flight;	/* of @in_flight, those of regulated groups */
	atomic_t fixed_tags;	/* tags that they hold; any context */

	bool on_hold;		/* dispatch waits for an awaited group: see ek_next() */
	u64 hold_until;		/* ns: when to give up whom ek_group_owed() has just named */
	struct hrtimer hold_timer;	/* ends a hold for a thinking group */

	/* the gate: scheduler tags */
	atomic_t tags_used;	/* allocated, counted ones */
	atomic_t granted;	/* admitted, tag not yet taken */
	u64 granted_at;		/* ns: last grant */
	u32 nr_waiting;
	struct list_head gate;	/* groups with waiters */
	struct ek_stash __percpu *stash;

	/* tunables: see ek_sysfs.c for units, bounds and reasons */
	u32 window_us;
	u32 ahead_kb;
	u32 request_kb;
	u32 think_max_us;
	u32 starve_ms;
	u32 fixed_cap;
	u32 read_lead_us;
	u32 channels;
	u32 chunk_kb;

	/* counters: under lock */
	u64 nr_holds;
	u64 nr_hold_expired;
	u64 nr_starved;
	u64 nr_gate_waits;
	u64 nr_gate_holds;
	u64 nr_gate_backstops;	/* a waiter woke by itself: a wake-up was lost */
	u64 nr_stale_grants;
	atomic_t nr_nowait_limited;	/* REQ_NOWAIT beyond a share; any context */
};

/*
 * What we keep with a request: priv[0] the group that it is accounted to, from
 * insertion until it is freed; priv[1] its cost while it is in the device; and
 * in the place for an io_cq, of which we have none, an ek_job: see ek_fixed.c.
 */
static inline struct ek_group *ek_rq_group(struct request *rq)
{
	return rq->elv.priv[0];
}

/*
 * What of @rq is counted while it is in the device. Of a read that waits, its
 * channel, which each choice among those that wait looks at.
 */
struct ek_flight {
	u32 kb;		/* cost, at least 1; 0: it is not there */
	u16 channel;	/* EK_CHANNEL_NONE: on none */
};

static inline struct ek_flight ek_rq_flight(struct request *rq)
{
	unsigned long v = (unsigned long)rq->elv.priv[1];

	return (struct ek_flight){ .kb = v >> 8, .channel = v & 0xff };
}

static inline void ek_rq_set_flight(struct request *rq, struct ek_flight f)
{
	rq->elv.priv[1] = (void *)((unsigned long)f.kb << 8 | f.channel);
}

static inline enum ek_class ek_rq_class(struct request *rq)
{
	if (!op_is_write(req_op(rq)))
		return EK_READ;
	return op_is_sync(rq->cmd_flags) ? EK_WRITE_SYNC : EK_WRITE_ASYNC;
}

/* Does @rq name blocks, perhaps gigabytes of them, but move none? */
static inline bool ek_rq_erases(struct request *rq)
{
	/* nearly all */
	if (likely(req_op(rq) == REQ_OP_READ || req_op(rq) == REQ_OP_WRITE))
		return false;
	switch (req_op(rq)) {
	case REQ_OP_DISCARD:
	case REQ_OP_SECURE_ERASE:
	case REQ_OP_WRITE_ZEROES:
		return true;
	default:
		return false;
	}
}

/*
 * Each flush of anybody waits for @rq, data that one is to follow, from its
 * submission on: on a device with a cache that cannot write past it.
 */
static inline bool ek_rq_awaits_flush(struct request *rq)
{
	return rq->rq_flags & RQF_FLUSH_SEQ;
}

static inline u32 ek_rq_cost_kb(struct ek_data *ek, struct request *rq)
{
	if (ek_rq_erases(rq))
		return ek->request_kb;
	return ek_cost_kb(blk_rq_bytes(rq), ek->request_kb);
}

/* ek_group.c */
void ek_group_init(struct ek_group *g, struct ek_data *ek,
		   struct ek_group *parent);
void ek_group_activate(struct ek_data *ek, struct ek_group *g);
void ek_group_add(struct ek_data *ek, struct ek_group *g, struct request *rq);
void ek_group_remove(struct ek_data *ek, struct ek_group *g, struct request *rq);
void ek_group_set_weight(struct ek_group *g, u32 weight);
void ek_group_retire(struct ek_data *ek, struct ek_group *g);
void ek_groups_prune(struct ek_data *ek, u64 now);
void ek_group_arrive(struct ek_data *ek, struct ek_group *g, u64 now);
struct ek_group *ek_group_awaited(struct ek_data *ek, u64 now, u64 *until);
struct request *ek_next(struct ek_data *ek);
void ek_groups_clear(struct ek_data *ek);
void ek_hold_arm(struct ek_data *ek, u64 now, u64 until);

static inline void ek_group_get(struct ek_group *g)
{
	atomic_inc(&g->refs);
}

void ek_group_release(struct ek_group *g);

static inline void ek_group_put(struct ek_group *g)
{
	if (atomic_dec_and_test(&g->refs))
		ek_group_release(g);
}

static inline struct ek_group *ek_group_of(struct ek_node *n)
{
	return container_of(n, struct ek_group, share_node);
}

static inline u32 ek_group_weight(struct ek_group *g)
{
	return READ_ONCE(g->share_node.weight);
}

/* Served by regulation, or about to be. Racy without lock. */
static inline bool ek_group_is_fixed(struct ek_group *g)
{
	return READ_ONCE(g->fixed) || READ_ONCE(g->regulated);
}

void ek_group_update_share(struct ek_data *ek, struct ek_group *g);

/*
 * The share in force of an active @g, EK_SHARE_ONE per unit of weight. A racy
 * reader (the gate, without lock) gets the last one.
 */
static inline u32 ek_group_share(struct ek_data *ek, struct ek_group *g)
{
	if (unlikely(g->share_generation != ek->top.generation))
		ek_group_update_share(ek, g);
	return g->share;
}

/* ek_window.c */
void ek_window_init(struct ek_data *ek);
void ek_window_update(struct ek_data *ek, u64 now);
void ek_window_measure(struct ek_data *ek, u64 now);

/* ek_channel.c */
bool ek_channel_on(struct ek_data *ek);
u32 ek_rq_channel(struct ek_data *ek, struct request *rq);
void ek_channels_changed(struct ek_data *ek);
struct request *ek_channel_first(struct ek_data *ek, struct ek_group *g,
				 u64 latest);
void ek_channel_set(struct ek_data *ek, struct request *rq);

/* @rq waits from now on, or has grown: remember where it is, if that matters. */
static inline void ek_channel_note(struct ek_data *ek, struct request *rq)
{
	lockdep_assert_held(&ek->lock);
	if (unlikely(ek->channels > 1))
		ek_channel_set(ek, rq);
}

/* ek_fixed.c */
void ek_fixed_init(struct ek_data *ek);
void ek_fixed_stop(struct ek_data *ek);
void ek_fixed_hook(struct ek_data *ek, struct request *rq);
void ek_fixed_complete(struct ek_data *ek, struct request *rq, u64 now);
void ek_fixed_learn(struct ek_data *ek, struct request *rq, u64 now);
void ek_fixed_tick(struct ek_data *ek);
void ek_fixed_convert(struct ek_data *ek, struct ek_group *g);
void ek_fixed_enter(struct ek_data *ek, struct ek_group *g);
struct ek_group *ek_fixed_first(struct ek_data *ek);
void ek_fixed_expect(struct ek_data *ek, struct ek_group *g, struct request *rq);
bool ek_fixed_full(struct ek_data *ek, u32 flight);
int ek_fixed_set(struct ek_group *g, u32 percent);

/* ek_gate.c */
/* below this many tags free, each is asked for by name */
#define EK_FEW_TAGS	8

/*
 * Nobody waits and most tags are free: who asks need not even be known. With
 * few tags it always matters who has them. Called without lock, and twice for
 * each request.
 */
static inline bool ek_gate_open(struct ek_data *ek)
{
	return !READ_ONCE(ek->nr_waiting) &&
	       2 * (u32)atomic_read(&ek->tags_used) + EK_FEW_TAGS <
	       READ_ONCE(ek->q->nr_requests);
}

/* Of @wanted tags for one that is alone, as many as leave a quarter to who comes. */
static inline u32 ek_gate_left(struct ek_data *ek, u32 wanted)
{
	s32 left = READ_ONCE(ek->q->nr_requests) * 3 / 4 -
		   atomic_read(&ek->tags_used);

	return clamp_t(s32, left, 1, wanted);
}

void ek_gate_admit(struct ek_data *ek, struct ek_group *g, blk_opf_t opf);
void ek_gate_kick(struct ek_data *ek);
void ek_gate_run(struct ek_data *ek);
bool ek_gate_free(struct ek_data *ek, struct ek_group *g, bool async);
bool ek_gate_fits(struct ek_data *ek, struct ek_group *g, bool async);

/* ek_cgroup.c */
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

/* @rq of @g was completed at @now. Costs nothing until somebody looks. */
static inline void ek_account(struct ek_group *g, struct request *rq, u64 now)
{
	if (unlikely(READ_ONCE(g->histograms)))
		ek_account_request(g, rq, now);
}

int ek_cgroup_init(void);
void ek_cgroup_exit(void);

/* ek_sysfs.c */
extern struct elv_fs_entry ek_attrs[];
extern const struct blk_mq_debugfs_attr ek_debugfs_attrs[];
void ek_tunables_init(struct ek_data *ek);

#endif /* EK_H */
