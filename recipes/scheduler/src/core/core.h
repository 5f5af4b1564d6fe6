/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The policy core decides which group is served next, and how much work each group
 * may have in the device. It is plain C without a clock: each caller passes the time.
 *
 * Locking: the caller serialises all entry points except ek_core_complete() and
 * ek_core_charge(). These two may run at any time, without a lock. They change only
 * atomics, lock-less lists, and single words whose readers tolerate a late value.
 * The comment of each field that they change contains "Completion".
 *
 * Requests stay in the caller's queues. The core counts them and picks a group; then
 * the caller takes a request of that group.
 *
 * Conventions: times and durations are u64 or s64 nanoseconds. "q16" marks a ratio with
 * 16 fraction bits (EK_Q). "In flight" means dispatched and not completed. docs/glossary.md
 * defines the terms.
 */
#ifndef EK_CORE_H
#define EK_CORE_H

#include "types.h"

/*
 * What a request does. The cost of a read or a write depends on its size. The cost of
 * any other operation is the mean of the last few of its kind.
 */
enum ek_op { EK_OP_READ, EK_OP_WRITE, EK_OP_FLUSH, EK_OP_ERASE, EK_OP_ZERO, EK_OPS };
/* The number of operations whose cost depends on size: reads and writes. */
#define EK_DIRS		2

/* Why a group was picked. Only EK_WHY_GUARD spends the guard's tokens. */
enum ek_why {
	EK_WHY_NONE,
	EK_WHY_ORDER,	/* the group has the least virtual time */
	EK_WHY_SOLO,	/* the group owns the turn: it has the device alone */
	EK_WHY_AHEAD,	/* out of turn, and the group's share pays for it */
	EK_WHY_INSTEAD,	/* out of turn, because the reads of the turn's owner wait */
	EK_WHY_GUARD,	/* out of turn, beyond the group's share, or because the group starves */
};

/* The core's part of a request. The caller sets @bytes, @op and @urgent. */
struct ek_req {
	u32 bytes; u8 op; bool urgent;
	u8 why;		/* enum ek_why of its dispatch */
	u32 cost;	/* device time charged at dispatch, ns */
	u64 issued;	/* time of its dispatch */
};

/* What all groups together showed about one direction and size class: cost.c */
struct ek_cost_cell {
	u64 rate;	/* ns per byte, q16, of a group that fills the device; 0: unknown */
	u32 depth;	/* limit of the group that @rate was measured with */
	u64 pool;	/* mean rate of the groups that are alike, ns/byte, q16; 0: none */
	u64 memory;	/* @pool is the mean over this device time, ns */
	u32 members;	/* number of active groups that are alike */
	u64 shared;	/* last time at which @members was above 1 */
	u8 strays;	/* number of turns in a row whose groups were not alike */
	u32 least;	/* least latency seen, ns; 0: unknown. Completion */
};

/* The cost of a group's last request of one direction: most requests need no division. */
struct ek_cost_cache {
	u32 bytes;	/* size of that request; 0: the cache is empty */
	u32 cost;	/* ns */
	u32 prices;	/* value of ek_core.prices when @cost was computed */
};

/* One cgroup on one device. "It" in a field's comment is the group. */
struct ek_core_group {
	struct ek_node node;		/* place in the tree of weights */
	u64 vtime;			/* virtual time: device time charged << 12 / share, ns */
	u64 charged;			/* device time charged since the group exists, ns */
	u64 left;			/* last dispatch or completion before it became inactive */
	u64 unpaid;			/* ns that it owes for requests sent by ek_core_quick() */
	u32 share;			/* see ek_node_share(); valid for @share_generation */
	u32 share_generation;		/* value of ek_top.generation when @share was computed */

	/* order.c */
	struct rb_node rb;		/* in ek_core.ready or ek_core.awaited, by @vtime */
	struct list_head idle;		/* in ek_core.idle while it has nothing queued */
	bool active;			/* it competes: it has requests, or is awaited */
	bool placed;			/* @rb is in one of the two trees */
	bool ready;			/* it may send a request now: @rb is in ek_core.ready */
	u32 queued;			/* requests inserted and not dispatched */
	u32 urgent;			/* the urgent ones of @queued */
	struct list_head urgent_node;	/* in ek_core.urgent while @urgent is not 0 */
	atomic_t capped;		/* 1: at its limit; 2: in @released. Completion */
	struct llist_node released;	/* in ek_core.released. Completion */

	/* what is in the device, and what was sent there */
	atomic_t in_flight;		/* requests in the device. Completion */
	atomic_t out_of_turn;		/* those of @in_flight sent out of turn. Completion */
	atomic64_t in_flight_cost;	/* cost of @in_flight, ns. Completion */
	u64 sent, sent_cost;		/* all requests dispatched; their cost, ns */
	u64 last_done;			/* time of its last completion. Completion */
	u32 least;			/* least latency of its requests, ns; 0: unknown.
					 * Completion: a concurrent update may be lost
					 */

	/* cost.c */
	u64 rate;			/* ns/byte, q16, for @rate_op and @rate_class; 0: none */
	u8 op, class;			/* direction and size class of its last read or write */
	u8 rate_op, rate_class;		/* direction and size class that @rate is valid for */
	bool guessed;			/* @rate was derived from the least latency */
	bool known;			/* @rate needs no first turn: it was measured, or taken
					 * from the pool, or the group paused before its first turn
					 */
	u32 bytes;			/* size of its last read or write */
	struct ek_cost_cache cache[EK_DIRS];
	bool alike;			/* @rate differs from the pool's only by chance */
	u32 noise;			/* mean relative difference of turns from @rate, q16 */
	u32 prices;			/* value of ek_core.prices at its last computed cost */
	u64 priced;			/* the first @priced requests had an older rate */
	u64 memory;			/* @rate is the mean over this device time, ns */
	u64 solo_at;			/* end of its last turn */
	s8 off;				/* turns in a row that took far more (negative: less) than
					 * @rate says
					 */
	u64 brief_wall, brief_cost;	/* time and cost of turns too short to measure, ns */
	struct list_head solo_node;	/* in ek_core.unmeasured or ek_core.measured */
	atomic64_t debt;		/* ns to add to its next charge. Completion */

	/* budget.c */
	u32 limit;			/* least number of requests in flight for the full rate */
	bool growing;			/* @limit is not found yet */
	u64 best;			/* most cost per time at smaller limits, q16; 0: none yet */

	/* guard.c */
	struct list_head served_node;	/* in ek_core.served while it has requests queued */
	u64 served;			/* last dispatch, or when its queue stopped being empty */
	bool light;			/* it uses little of its share: it may go out of turn */
	bool apart;			/* light, and it pauses: it is in no tree, gets no turn */
	s64 pass_left;			/* allowance for service out of turn, ns of device time */
	u64 pass_at;			/* when @pass_left was last refilled */
	u64 paused;			/* end of its last pause */
	u64 busy;			/* when its present period of activity began */
	u64 away;			/* mean length of the time without a request, ns */
	struct list_head pass_node;	/* in ek_core.passing or ek_core.gate_passing */

	/* gate.c */
	struct rb_node gate;		/* in ek_core.gate, by @gate_holds and @gate_vtime */
	u64 gate_vtime;			/* its virtual time after service of all it has queued */
	/* @gated: @gate is in the tree; @gate_holds: it has requests queued, or grants */
	bool gated, gate_holds;
	/* @waiting: submitters that wait for a tag; @granted: admitted, no request inserted yet */
	u32 waiting, granted;
};

/* Counts a group's service between two completions: see ek_meter_begin(). */
struct ek_meter {
	bool on;			/* it has begun */
	u64 from, to;			/* times of the first and last completion */
	/* @cost0, @n0: cost (ns) and number of requests completed until @from; @cost, @n: since */
	u64 cost0, n0, cost, n;
};

/* The present turn, in which one group has the device alone: turn.c */
struct ek_turn {
	struct ek_core_group *g;	/* the owner; NULL: there is no turn */
	u64 begin;			/* when @g became the owner */
	u64 exclusive;			/* when others' requests had left the device; 0: not yet */
	u64 length;			/* how long the turn lasts from @exclusive on, ns */
	u64 paid;			/* the most that the owner is charged for the turn, ns */
	u64 sent_cost;			/* cost of the owner's requests completed at @begin, ns */
	u64 others;			/* cost of others' requests in the device at @exclusive, or
					 * dispatched since, ns
					 */
	u64 instead;			/* cost of others' requests sent while reads waited, ns */
	u64 waits;			/* last completion of the owner before they waited */
	u64 flushed;			/* value of ek_core.flushed at @begin */
	u64 idle;			/* pauses of the owner, longer than a request, ns */
	u64 back, pause;		/* end and length of the owner's last pause, ns */
	u64 seen, others_seen;		/* its last completion; service of others until then, ns */
	u64 gap, gap_end;		/* longest time without a completion (ns), and its end */
	u64 idle_steady, others_steady;	/* @idle and service of others when @steady began, ns */
	u32 had;			/* the most requests that the owner had at once */
	bool stalled;			/* the first completion after @exclusive took too long */
	bool quick;			/* ek_core_quick() sent a request: time tells nothing */
	bool brief;			/* too short to measure: ek_tail completes it */
	struct ek_meter all;		/* since @exclusive */
	struct ek_meter steady;		/* since the owner's first completion after @exclusive */
	struct ek_meter window;		/* the present window: see EK_WINDOW_NS */
	u64 quickest;			/* the most cost per time of a window, q16; 0: none yet */
};

/* The requests that the owner of the last turn had in the device when the turn ended. */
struct ek_tail {
	struct ek_core_group *g;	/* that owner; NULL: nothing is to be measured */
	u64 from, cost;			/* its last completion; cost of these requests, ns */
	u64 sent;			/* value of ek_core_group.sent at the end of the turn */
	/* if the turn was too short to measure the rate: what they were charged, otherwise 0 */
	u64 charged;
	u64 busy;			/* since when the device has served them, at the earliest */
};

/*
 * Hidden time: what writes take of the device later, for example to collect garbage. The sums
 * are halved from time to time: hidden.c
 */
struct ek_hidden {
	u64 took;			/* hidden time, ns */
	u64 bytes;			/* bytes written; 0: none yet */
	u64 charged;			/* what writes were charged, hidden time included, ns */
	u64 rate;			/* mean hidden time, ns per byte, q16 */
	u64 since;			/* when it was last checked whether there are few writes */
	u64 recent;			/* what writes were charged since then, ns */
};

/* The two modes, which share the device in different ways: mode.c */
enum ek_kind { EK_TURNS, EK_TOGETHER, EK_KINDS };

struct ek_mode {
	u8 kind;			/* enum ek_kind: the present mode */
	bool warm;			/* steps are measured, the first epoch has not begun */
	u64 lambda[EK_KINDS];		/* mean of alone time served / time passed, q16 */
	u32 tried[EK_KINDS];		/* number of epochs in @lambda */
	u64 last;			/* lambda of the last epoch, q16 */
	bool same;			/* the last two epochs had nearly the same lambda */
	/*
	 * @epoch: when the present step or epoch began. @epoch_cost: cost (ns) of all requests
	 * completed by then.
	 */
	u64 epoch, epoch_cost;
	u64 epoch_idle;			/* ns of it in which no group had a request */
	u32 stretch;			/* factor by which turns are longer: 1, 2 or 4 */
	u32 stretched;			/* value of @tried[EK_TURNS] when @stretch changed */
	bool stretch_pays;		/* this @stretch serves more than half of it; or it is 1 */
	u64 stretch_from;		/* lambda of TURNS before @stretch changed, q16 */
	/*
	 * @stretch must not grow before @stretch_next. @stretch_gap: ns from the last failure
	 * to @stretch_next.
	 */
	u64 stretch_next, stretch_gap;
	u64 best;			/* the largest lambda of a step so far, q16 */
	u32 best_scale;			/* the scale of that step */
	/*
	 * TOGETHER must not be tried before @next_trial. @gap: ns to wait after the next
	 * failed trial.
	 */
	u64 next_trial, gap;
	s32 odd;			/* epochs in a row far above (negative: below) the mean */
	/*
	 * @changed: when the core last concluded that the device changed. It must not conclude
	 * so again for @change_gap ns.
	 */
	u64 changed, change_gap;
};

/* There are at most six tunables. ek_core_defaults in core.c has the reasons for their values. */
struct ek_core_tunables {
	u32 turn_ms;		/* length of a turn */
	u32 await_us;		/* how long a group without requests stays active */
	u32 lead_ms;		/* TOGETHER: lead in device time from which on dispatch holds */
	u32 starve_ms;		/* a group may starve from this wait on */
	u32 guard_percent;	/* tokens: part of device time for service out of turn */
	u32 solo_percent;	/* TOGETHER: part of the time for turns that measure */
};

struct ek_core {
	struct ek_core_tunables t;
	struct ek_top top;		/* the top level of the tree of weights */
	u64 vnow;			/* least virtual time of active groups; never falls */
	u32 nr_active, nr_queued;	/* active groups; requests queued in all groups */
	u32 nr_unknown;			/* active groups without @known that are not apart */
	struct ek_cost_cell cell[EK_DIRS][EK_SIZES];
	u64 special[EK_OPS];		/* mean ns of operations without a size. Completion */
	u32 prices;			/* incremented whenever the rate of a pool changes */

	/* what is in the device */
	atomic_t in_flight;		/* requests. Completion */
	atomic_t out_of_turn;		/* those of @in_flight sent out of turn. Completion */
	atomic64_t in_flight_cost;	/* cost of @in_flight, ns. Completion */
	u64 sent_cost;			/* cost of all requests dispatched since the start, ns */
	u64 last_done;			/* time of the last completion. Completion */
	u64 filled;			/* last dispatch to an empty device */

	/*
	 * order: two trees by virtual time. @ready has the groups that may send a request now.
	 * @awaited has the other active groups, except the owner of the turn and groups that
	 * are apart.
	 */
	struct rb_root_cached ready, awaited;
	struct list_head idle;		/* active groups that have nothing queued */
	u64 idle_at;			/* when @idle was last checked */
	struct llist_head released;	/* groups below their limit again. Completion */
	u64 promise, promise_at;	/* virtual time promised to every group; when computed */
	u8 why;				/* enum ek_why of the group that was picked last */

	/* turn */
	struct ek_turn turn;
	bool newcomer;			/* a new group became active during this turn */
	struct ek_tail tail;
	struct ek_hidden hidden;
	/*
	 * @unmeasured: active groups whose rate a turn has to measure. @measured: the other
	 * active groups. In both, the group whose turn or solo to measure is next is first.
	 */
	struct list_head unmeasured, measured;
	u64 clock, clock_at;		/* virtual time of an ideal device; when computed */
	u64 solo_end, solo_took;	/* end and length (ns) of the last turn */
	u64 paid_to;			/* the time until then was charged, or was hidden time */
	atomic64_t flushed;		/* ns of flushes, which bypass the queue. Completion */
	u64 wrote;			/* last dispatch of anything but a read; 0: none */

	struct ek_mode mode;

	/* budget: maxima of requests served in this epoch (@..._next), and in the last one too */
	u32 most_latency, most_latency_next;	/* the largest least latency of a group, ns */
	u32 most_request, most_request_next;	/* the largest cost of one request, ns */
	u32 scale;			/* TOGETHER: factor for limits and for the bound */
	u64 short_until;		/* the bound is short until this time, for light groups */

	/*
	 * guard: @served has all groups with queued requests, the longest unserved first.
	 * @urgent has those with urgent requests, @passing the light ones.
	 */
	struct list_head served, urgent, passing;
	struct ek_core_group *starve_next;	/* in @served: checked next; NULL: the first */
	s64 tokens;			/* device time for service out of turn, ns */
	u64 tokens_at;			/* when @tokens was last refilled */

	/* gate */
	struct rb_root_cached gate;	/* groups that may queue more and whose submitters wait */
	struct list_head gate_passing;	/* light groups without requests whose submitters wait */
	u32 nr_waiting, nr_granted;	/* sums of ek_core_group.waiting and .granted */
	u32 tags;			/* number of scheduler tags */

	/*
	 * Counters since the start. @nr_turns: turns, including solos. @nr_solos: turns while
	 * the mode is TOGETHER. @nr_guarded: requests dispatched as EK_WHY_GUARD. @nr_passed:
	 * picks of a light group out of turn. @nr_holds: holds of dispatch. @nr_quick: requests
	 * sent by ek_core_quick().
	 */
	u64 nr_turns, nr_solos, nr_guarded, nr_passed, nr_holds, nr_quick;
};

/* Initialisation, and the life of a group */
void ek_core_init(struct ek_core *c, u32 tags, u64 now);
void ek_core_group_init(struct ek_core *c, struct ek_core_group *g,
			struct ek_core_group *parent, u32 weight);
void ek_core_group_exit(struct ek_core *c, struct ek_core_group *g);
void ek_core_set_weight(struct ek_core *c, struct ek_core_group *g, u32 weight);

/* Entry points, in the order in which a request meets them */

/* A submitter of @g has no scheduler tag. It waits until ek_core_admit() returns @g. */
void ek_core_arrive(struct ek_core *c, struct ek_core_group *g, u64 now);
/* A submitter of @g stops waiting for a tag without having got one. */
void ek_core_depart(struct ek_core *c, struct ek_core_group *g);
/* While @free tags are free: the group whose submitter gets one, or NULL for no group. */
struct ek_core_group *ek_core_admit(struct ek_core *c, u32 free, u64 now);
/* One of the queued requests of @g became urgent. */
void ek_core_promote(struct ek_core *c, struct ek_core_group *g);
/* The submitters of @g that were admitted inserted no requests. Their grants become void. */
void ek_core_ungrant(struct ek_core *c, struct ek_core_group *g);
/* The caller has put @r of @g into its queue. */
void ek_core_insert(struct ek_core *c, struct ek_core_group *g,
		    const struct ek_req *r, u64 now);
/*
 * The short way, instead of ek_core_insert(), ek_core_pick() and ek_core_dispatch():
 * may @r of @g go to the device at once, because the device has next to nothing to do?
 * If true, the core has counted @r as dispatched, and the caller must dispatch it.
 */
bool ek_core_quick(struct ek_core *c, struct ek_core_group *g, struct ek_req *r, u64 now);
/* @r left the caller's queue without dispatch, for example because it was merged. */
void ek_core_remove(struct ek_core *c, struct ek_core_group *g,
		    const struct ek_req *r);
/*
 * The group to serve next, or NULL. With NULL, *@wake is lowered to the time at which
 * the caller must ask again, even if nothing else happens until then. If there is no
 * such time, *@wake does not change.
 */
struct ek_core_group *ek_core_pick(struct ek_core *c, u64 now, u64 *wake);
/* @r of @g, the group picked, goes to the device. Urgent requests of @g must go first. */
void ek_core_dispatch(struct ek_core *c, struct ek_core_group *g,
		      struct ek_req *r, u64 now);
/* @r completed; or, with @requeued, it left the device unserved. Any context, no lock. */
void ek_core_complete(struct ek_core *c, struct ek_core_group *g,
		      struct ek_req *r, bool requeued, u64 now);
/*
 * Work of @g that bypasses the queue, such as a flush, completed. It was issued at
 * @issued. Any context, no lock.
 */
void ek_core_charge(struct ek_core *c, struct ek_core_group *g, u64 issued, u64 now);

#endif /* EK_CORE_H */
