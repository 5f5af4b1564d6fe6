/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The block-layer side of evenkeel: types shared by its files.
 *
 *   elevator.c        the elevator's methods, in the order in which a request meets them
 *   admission.c       submitters that wait for a scheduler tag
 *   queue.c           the requests of a group, and which of them is next
 *   channel_choice.c  which of a group's reads is next, by flash channel (if set)
 *   fixed_share.c     fixed shares, whose completions are held back (if set)
 *   blame.c           who slows whom (from the first read of io.evenkeel.stat on)
 *   cgroup.c          groups as a blkcg policy; io.weight, io.evenkeel.*
 *   sysfs.c           tunables in queue/iosched, state in debugfs
 *   trace.h           tracepoints
 *   compat.h          differences between kernel versions
 *
 * The policy core, in ../core, decides which group is served or admitted next.
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
#include "../core/blame.h"
#include "../ek_math.h"
#include "../ek_channel.h"

/* Warn if an invariant of the hot path is broken. Only kernels with lockdep check it. */
#define ek_debug_warn(cond) \
	WARN_ON_ONCE(IS_ENABLED(CONFIG_PROVE_LOCKING) && (cond))

/* The classes of requests. A group has a queue for each, in order of arrival. */
enum ek_class {
	EK_URGENT,	/* a task of another group may wait for it: see ek_rq_is_urgent() */
	EK_READ,
	EK_WRITE_SYNC,	/* a task may wait for it: direct I/O, fsync() */
	EK_WRITE_ASYNC,	/* no task waits for it: writeback */
	EK_CLASSES,
};

/* Reads overtake synchronous writes of their group that arrived up to this much earlier. */
#define EK_READ_LEAD_NS		(8 * NSEC_PER_MSEC)

/* The most requests that were dispatched and that the driver may not have started yet. */
#define EK_BLAME_SENT	8

/* The latencies of which a group keeps histograms, one for each direction. */
enum ek_hist {
	EK_HIST_WAIT,	/* from the request's allocation until the device gets it */
	EK_HIST_SERVE,	/* from then until its completion */
	EK_HIST_TOTAL,	/* from allocation until the submitter sees the completion */
	EK_HIST_GATE,	/* before allocation: a submitter's wait for a tag, if it waited */
	EK_HISTS,
};

/* The histograms of one CPU. Only this CPU writes them. Readers add up all CPUs. */
struct ek_histograms {
	u64 count[2][EK_HISTS][EK_BUCKETS];
};

/*
 * A cgroup on one device. ek_data.lock protects each field whose comment names no other
 * rule. "Any context" means that the field changes without the lock.
 *
 * Lifetime: @refs counts references. There is one for the policy data of the blkg, one for
 * all requests that are inserted and not yet freed, and one for each submitter at the gate,
 * each flush that is timed, each held-back completion and each child. The last put takes
 * the group out of the core, and frees it after an RCU grace period.
 */
struct ek_group {
	struct blkg_policy_data pd;
	struct ek_data *ek;
	atomic_t refs;
	atomic_t held;		/* tags it holds: requests inserted, not freed; any context */
	struct rcu_head rcu;
	struct list_head node;	/* in ek_data.groups */
	u64 cgroup;		/* inode number of the cgroup's directory */
	u32 dev_weight;		/* weight set for this device; 0: the cgroup's default weight */

	/* The core's part. It does not count requests and waiters of a regulated group. */
	struct ek_core_group core;

	u32 queued;		/* requests in @fifo */
	struct list_head fifo[EK_CLASSES];
	u32 awaiting_flush;	/* those of @queued that flushes wait for: ek_rq_awaits_flush() */
	u32 sync_streak;	/* others dispatched in a row while EK_WRITE_ASYNC waited */
	struct list_head writers;	/* in ek_data.writers while it has EK_WRITE_ASYNC queued */

	struct list_head waiters;	/* submitters that wait for a tag: ek_waiter.turn order */
	u32 nr_waiting;		/* number of @waiters */
	bool gate_fixed;	/* @waiters wait in ek_fixed.gate, not in the core */
	u32 pending;		/* submitters admitted that have inserted no request yet */
	struct list_head granted;	/* in ek_data.grantees while @pending is not 0 */
	u64 granted_at;		/* time of its last grant, ns */

	/* counters since the start: [0] reads, [1] writes */
	u64 bytes[2];		/* bytes sent to the device */
	u64 ios[2];		/* requests sent to the device */
	u64 merged[2];		/* merges into a queued request */
	u64 throttled;		/* submitters that waited for a tag (all directions) */
	u64 reordered;		/* reads sent before older ones because of their channel */

	/*
	 * Fixed share. @fixed is the percentage that is set; 0: none. @regulated: the
	 * requests that the group has now are served by fixed share, not by weight. This
	 * follows @fixed when the group has nothing in the device.
	 */
	u32 fixed;
	bool regulated;
	struct list_head fixed_node;	/* in ek_fixed.groups if @fixed */
	struct list_head fixed_ready;	/* in ek_fixed.ready if @regulated and @queued */
	struct list_head fixed_gate;	/* in ek_fixed.gate if @gate_fixed and @waiters */
	atomic_t fixed_flight;	/* regulated requests in the device; any context */
	unsigned long fixed_used;	/* time of the last request, jiffies */
	u64 fixed_due;		/* when its request in the device is due, ns */
	u64 fixed_mean;		/* mean service time of such requests, ns */
	/* under ek_fixed.lock */
	u64 fixed_free;		/* when the last request was due: the next begins then, ns */
	u64 fixed_late;		/* how late the last request was, ns */
	u64 fixed_ios;		/* regulated requests completed since the start */
	u64 fixed_nr_late;	/* those that were late by more than 1/64 of the ideal time */
	u64 fixed_ideal_ns;	/* sum of the ideal times of fixed_ios requests, ns */
	u64 fixed_actual_ns;	/* sum of their actual times, ns: the ratio is the accuracy */

	/* NULL until somebody reads io.evenkeel.stat */
	struct ek_histograms __percpu *histograms;
	struct ek_blame_group blame;	/* under ek_data.blame_lock */
};

/* A cgroup on all devices. */
struct ek_cgroup {
	struct blkcg_policy_data cpd;
	u32 weight;		/* default weight for all devices; under blkcg->lock */
};

/*
 * The group of a bio that a task submits for another cgroup. It is kept here from the
 * merge attempt until the task asks for a tag: see ek_stash_bio().
 */
struct ek_stash {
	struct task_struct *task;
	struct ek_group *group;	/* holds a reference */
};

/*
 * The fixed shares of a request queue. ek_data.lock protects the fields before @lock, and
 * @lock those after it. @lock is taken in any context. It nests inside ek_data.lock, and only
 * the locks of timers nest inside @lock.
 */
struct ek_fixed {
	struct list_head groups;	/* by ek_group.fixed_node */
	struct list_head ready;		/* by ek_group.fixed_ready, in order of arrival */
	struct list_head gate;		/* by ek_group.fixed_gate, in order of arrival */
	u32 nr;			/* number of @groups */
	u64 until;		/* ns; a result of ek_fixed_first() */
	u32 rule;		/* the cap by the rule of Nagao et al.; U32_MAX: no limit */
	u32 cap;		/* how many requests of others may be in the device now */
	struct ek_search search;	/* the search for @cap */
	bool held;		/* @cap held a request of others back in this round */
	unsigned long tick;	/* time of the last ek_fixed_tick(), jiffies */

	spinlock_t lock;	/* for the fields below */
	struct list_head jobs;		/* requests that are complete and held back: ek_job */
	bool stopping;			/* the elevator is being removed: hold nothing back */
	u64 busy_since;			/* last dispatch to an idle device, ns; ek_data.lock */
	u64 last_done;			/* last completion, ns; 0: none yet */
	unsigned long flushes;		/* number of flushes of the device at @last_done */
	struct ek_service service[2][EK_SIZES];	/* [0] reads, [1] writes */
	u32 round;			/* regulated requests completed in this round */
	u64 round_ideal;		/* sum of their ideal times, ns */
	u64 round_actual;		/* sum of their actual times, ns */
};

/*
 * One request queue.
 *
 * @lock is taken with interrupts off, in process, softirq and hardirq context. It nests
 * inside queue_lock and blkcg->lock. Inside it nest only @blame_lock, ek_fixed.lock, the lock
 * of the hold timer, and the runqueue locks of wake-ups. The completion path takes @lock only
 * when a submitter waits at the gate. @blame_lock is taken in any context, and no lock nests
 * inside it.
 */
struct ek_data {
	struct request_queue *q;
	spinlock_t lock;	/* for all fields whose comment names no other rule */

	struct ek_core core;
	struct list_head groups;	/* all groups, by ek_group.node */
	struct list_head dispatch;	/* requests that go before all groups */
	struct list_head writers;	/* groups with EK_WRITE_ASYNC, by ek_group.writers */
	unsigned long tick;		/* last check of @writers, jiffies */
	u32 nr_queued;			/* requests queued in groups */
	u32 nr_ready;			/* @nr_queued plus the requests in @dispatch */

	/*
	 * Requests in the device, in all and on each channel. Incremented under @lock before
	 * dispatch, decremented at completion in any context.
	 */
	atomic_t in_flight;
	atomic_t channel_flight[EK_CHANNELS_MAX];
	bool timing;		/* the block layer notes when a request is issued; any context */

	/* blame.c */
	bool blaming;		/* requests that are queued from now on count; any context */
	u64 inserted;		/* time of the last insertion, ns; 0: its requests do not count */
	spinlock_t blame_lock;	/* for the fields below */
	struct ek_blame blame;
	struct request *sent[EK_BLAME_SENT];	/* dispatched and not started yet, oldest first */
	u32 nr_sent;		/* number of requests in @sent */

	struct ek_fixed fixed;
	atomic_t fixed_in_flight;	/* regulated requests of @in_flight; any context */
	atomic_t fixed_tags;	/* tags of regulated requests; any context */

	bool on_hold;		/* dispatch waits for a completion, an insertion or @hold_timer */
	struct hrtimer hold_timer;

	/* admission.c */
	atomic_t tags_used;	/* requests allocated and not freed; any context */
	atomic_t granted;	/* submitters admitted that have no tag yet; any context */
	u32 nr_waiting;		/* submitters that wait for a tag */
	struct list_head grantees;	/* groups with grants, the oldest last grant first */
	struct ek_stash __percpu *stash;	/* only its own CPU uses it, preemption off */

	/* tunables outside the core: sysfs.c has units, bounds and reasons */
	u32 fixed_cap;
	u32 channels;
	u32 chunk_kb;

	/* counters since the start */
	u64 nr_holds;		/* holds of dispatch */
	u64 nr_gate_waits;	/* submitters that waited for a tag */
	u64 nr_stale_grants;	/* times that grants became void: see EK_GRANT_STALE_NS */
	atomic_t nr_nowait_limited;	/* REQ_NOWAIT requests beyond a share; any context */
};

/*
 * What evenkeel keeps in a struct request:
 *
 *  elv.priv[0]  the group that it is accounted to, from insertion until it is freed
 *  elv.priv[1]  a struct ek_rq_state
 *  elv.icq      a struct ek_job or NULL: see fixed_share.c. evenkeel uses no io_cq.
 *  fifo_time    until insertion, the group that a flush is timed for, if @flusher. After
 *               dispatch, the time of dispatch (ns). While a flush follows its data, the
 *               time at which the flush began to be awaited (ns): see ek_finish_request().
 */
static inline struct ek_group *ek_rq_group(struct request *rq)
{
	return rq->elv.priv[0];
}

/*
 * How a request is accounted. Before insertion, only @flusher is valid. From insertion on,
 * @channel and @urgent are valid, too. While @flight is set, all fields are valid.
 */
struct ek_rq_state {
	u32 cost;		/* see struct ek_req */
	u8 channel;		/* its flash channel, or EK_CHANNEL_NONE */
	u8 size;		/* ek_size_class() of its bytes */
	u8 why;			/* enum ek_why */
	u8 urgent:1;		/* see ek_rq_is_urgent() */
	u8 flight:1;		/* it is in the device */
	u8 regulated:1;		/* it was dispatched as a request with a fixed share */
	u8 flusher:1;		/* it began with a flush: fifo_time is the group to charge */
	u8 blamed:1;		/* it counts in ek_data.blame */
};

static_assert(sizeof(struct ek_rq_state) == sizeof(void *));

static inline struct ek_rq_state *ek_rq_state(struct request *rq)
{
	return (struct ek_rq_state *)&rq->elv.priv[1];
}

/*
 * May a task of another group wait for I/O with the flags @opf? Yes for metadata and journal
 * blocks: file systems read and write them with locks held. Yes for swap: the kernel reclaims
 * memory by writing to swap, whichever cgroup owns the pages.
 */
static inline bool ek_is_urgent(blk_opf_t opf)
{
	return opf & (REQ_META | REQ_PRIO | REQ_SWAP);
}

/*
 * Must a flush follow the data of @rq? It must on a device that has a volatile cache and no
 * FUA. From the submission of @rq on, no flush of any group begins until the data of @rq are
 * written.
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

/* Does @rq move no data, although its size may be gigabytes: a discard, an erase, zeroes? */
static inline bool ek_rq_erases(struct request *rq)
{
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

/* Must not be called under ek_data.lock, because the last put takes this lock. */
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

/* Is @g served by fixed share, or will it soon be? Without ek_data.lock, a racy hint. */
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

/* @rq was queued, or grew by a merge: note its channel if the tunable `channels` is set. */
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

/* blame.c */
void ek_blame_queued(struct ek_data *ek, struct ek_group *g, struct request *rq);
void ek_blame_merged(struct ek_data *ek, struct ek_group *g);
void ek_blame_dispatched(struct ek_data *ek, struct request *rq, u64 now);
void ek_blame_left(struct ek_data *ek, struct ek_group *g, struct request *rq, u64 now);
bool ek_blame_gate(struct ek_data *ek, struct ek_group *g, u64 now);
void ek_blame_gate_left(struct ek_data *ek, struct ek_group *g, u64 now);
void ek_blame_leave(struct ek_data *ek, struct ek_group *g);
u32 ek_blame_read(struct ek_data *ek, struct ek_group *g, u64 *waited, u64 *pairs);

/* admission.c */
/* The number of scheduler tags for requests that pass the gate. */
static inline u32 ek_tags(struct ek_data *ek)
{
	return READ_ONCE(ek->q->nr_requests) - ek->q->tag_set->reserved_tags;
}

/*
 * May a submitter pass without a look-up of its group? Yes while no submitter waits and fewer
 * than about half of the tags are used. No if there are at most EK_FEW_TAGS tags: then it
 * always matters which group has them. Called without the lock, once per batch of tags.
 */
static inline bool ek_gate_open(struct ek_data *ek)
{
	return !READ_ONCE(ek->nr_waiting) &&
	       ek_tags_plenty(atomic_read(&ek->tags_used),
			      READ_ONCE(ek->q->nr_requests));
}

/*
 * The number of tags that a group that is alone may take at once. It wants @wanted of them,
 * and must leave a quarter of all tags to other groups. At least 1.
 */
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

/* Has this CPU a stash that no request has taken? */
static inline bool ek_stash_left(struct ek_data *ek)
{
	return READ_ONCE(raw_cpu_ptr(ek->stash)->group);
}

void ek_stash_clear(struct ek_data *ek);
void ek_account_request(struct ek_group *g, struct request *rq, u64 now);
void ek_account_ns(struct ek_group *g, bool write, enum ek_hist hist, u64 ns);

/* @rq of @g completed at @now. Until io.evenkeel.stat is read, this does nothing. */
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
