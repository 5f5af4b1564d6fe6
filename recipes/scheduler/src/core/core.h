/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The policy core: which group is served next, and how much of the device it
 * may fill. Plain C: state in, decision out, time as an argument.
 *
 * The caller serialises all entry points but two. ek_core_complete() and
 * ek_core_charge() take no lock: they change atomics, and single words that
 * one reader tolerates to be late. Each such field says "completion" below.
 * Requests stay in the caller's queues. The core counts them and picks a
 * group; the caller then takes a request of that group.
 */
#ifndef EK_CORE_H
#define EK_CORE_H

#include "types.h"

/* What a request does. The first two have a cost by size, the others by name. */
enum ek_op { EK_OP_READ, EK_OP_WRITE, EK_OP_FLUSH, EK_OP_ERASE, EK_OP_ZERO, EK_OPS };
#define EK_DIRS		2

/* Why a group was picked. Only GUARD spends the guard's tokens. */
enum ek_why {
	EK_WHY_NONE,
	EK_WHY_ORDER,	/* least virtual time */
	EK_WHY_SOLO,	/* it has the device alone: its turn */
	EK_WHY_AHEAD,	/* out of turn, but within what its share pays for */
	EK_WHY_GUARD,	/* out of turn, beyond its share or starving */
};

/* The core's part of a request. The caller sets the first line. */
struct ek_req {
	u32 bytes; u8 op; bool urgent;
	u8 why;		/* enum ek_why of its dispatch */
	u32 cost;	/* ns charged; what it adds to the work in flight */
	u64 issued;	/* when it was dispatched */
};

/* What is known of one direction and size class, from all groups: cost.c */
struct ek_cost_cell {
	u64 rate;	/* ns per byte, q16, of a group that fills the device; 0: unknown */
	u32 depth;	/* requests in flight when @rate was measured */
	u64 pool;	/* ns per byte, q16: the mean of groups that are alike; 0: none */
	u64 memory;	/* ns of device time that @pool is the mean of */
	u32 members;	/* active groups that are alike */
	u64 shared;	/* when there were last several */
	u8 strays;	/* turns in a row of groups that are not alike */
	u32 least;	/* least latency seen, ns; 0: unknown. Completion */
};

/* The cost of the last request of a direction, so that most requests need no division. */
struct ek_cost_cache {
	u32 bytes;	/* 0: empty */
	u32 cost;	/* ns */
	u32 prices;	/* ek_core.prices that @cost is of */
};

struct ek_core_group {
	struct ek_node node;		/* place in the tree of weights */
	u64 vtime;			/* ns << 12 / weight: charged so far */
	u64 charged;			/* ns, since ever */
	u64 left;			/* when it last had something, before it became inactive */
	u64 unpaid;			/* ns that it owes for requests sent by ek_core_quick() */
	u32 share;			/* in force, see ek_node_share() */
	u32 share_generation;

	/* order.c */
	struct rb_node rb;		/* in ready or awaited, by @vtime */
	struct list_head idle;		/* candidates to become inactive */
	bool active;
	bool placed;			/* in one of the two trees */
	bool ready;			/* has a request and may send it: in tree ready */
	u32 queued;			/* inserted, not dispatched */
	u32 urgent;			/* of these, urgent */
	struct list_head urgent_node;
	atomic_t capped;		/* 1: at its limit; 2: in released. Completion */
	struct llist_node released;	/* Completion made room */

	/* what is in the device, and what was sent there */
	atomic_t in_flight;		/* Completion */
	atomic_t out_of_turn;		/* of these, served out of turn. Completion */
	atomic64_t in_flight_cost;	/* ns. Completion */
	u64 sent, sent_cost;		/* requests, and ns of their cost, since ever */
	u64 last_done;			/* of the last completion. Completion; late is harmless */
	u32 least;			/* latency, ns; 0: none. Completion; may lose one */

	/* cost.c */
	u64 rate;			/* ns per byte of rate_op and rate_class; 0: none yet */
	u8 op, class;			/* of its last insertion */
	u8 rate_op, rate_class;
	bool guessed;			/* @rate is by its least latency */
	bool known;			/* @rate was measured, or cannot be */
	u32 bytes;			/* of its last insertion */
	struct ek_cost_cache cache[EK_DIRS];
	bool alike;			/* its rate is the pool's, but for chance */
	u32 noise;			/* by how much turns differ from @rate, mean, q16 */
	u32 prices;			/* ek_core.prices that @priced is of */
	u64 priced;			/* of @sent, those that were charged at an older rate */
	u64 memory;			/* ns of device time that @rate is the mean of */
	u64 solo_at;			/* when it last had a turn */
	s8 off;				/* turns in a row with @rate far too low (or high) */
	u64 brief_wall, brief_cost;	/* ns of turns that were too short to tell anything */
	struct list_head solo_node;	/* unmeasured or measured */
	atomic64_t debt;		/* ns that completions found missing. Completion */

	/* budget.c */
	u32 limit;			/* requests in flight that give full rate */
	bool growing;			/* @limit is not found yet */
	u64 best;			/* cost per time, q16, with half of @limit in flight */

	/* guard.c */
	struct list_head served_node;	/* by time of last service */
	u64 served;
	bool light;			/* it uses little: it passes */
	bool apart;			/* it also pauses: it is in no tree, and takes no turn */
	s64 pass_left;			/* ns of device time that it may pass with */
	u64 pass_at;			/* when that was last refilled */
	u64 paused;			/* when it last had nothing at all */
	u64 busy;			/* since when it has something */
	struct list_head pass_node;

	/* gate.c */
	struct rb_node gate;		/* among groups whose submitters wait */
	u64 gate_vtime;
	bool gated, gate_holds;
	u32 waiting, granted;		/* submitters without a tag; with one, not inserted yet */
};

/* A count of service between two completions: meter in cost.c */
struct ek_meter {
	bool on;
	u64 from, to;			/* times of completions */
	u64 cost0, n0, cost, n;		/* served when it began; since then */
};

/* One group has the device alone: turn.c */
struct ek_turn {
	struct ek_core_group *g;	/* the owner, or NULL */
	u64 begin;
	u64 exclusive;			/* since when nothing else is in the device; 0: not yet */
	u64 length;			/* ns */
	u64 paid;			/* the most that the group pays for it, ns */
	u64 sent_cost;			/* of its own that had completed when it began */
	u64 others;			/* ns of cost of others, at @exclusive or since */
	u64 flushed;			/* core's @flushed when it began */
	u32 had;			/* most requests that it had at once */
	bool stalled;			/* the device did something else first */
	bool quick;			/* requests went without it: its time tells nothing */
	struct ek_meter all;		/* since @exclusive */
	struct ek_meter steady;		/* since its first completion after @exclusive */
	struct ek_meter window;
	u64 quickest;			/* most cost per time of a window, q16 */
};

/* What the owner of the last turn still has in the device. */
struct ek_tail {
	struct ek_core_group *g;	/* NULL: nothing, or it is not to be measured */
	u64 from, cost;			/* its last completion; ns */
	u64 sent;			/* requests of @g until then */
};

/* Two ways to share the device: mode.c */
enum ek_kind { EK_TURNS, EK_TOGETHER, EK_KINDS };

struct ek_mode {
	u8 kind;			/* enum ek_kind */
	bool warm;			/* what is in the device is of the other kind */
	u64 lambda[EK_KINDS];		/* alone time served per time, q16, mean */
	u32 tried[EK_KINDS];		/* epochs */
	u64 last;			/* lambda of the epoch before, q16 */
	bool same;			/* that and the one before it agree */
	u64 epoch, epoch_cost;		/* when it began; what was served until then */
	u32 stretch;			/* turns are so many times as long */
	u32 stretched;			/* @tried when that last changed */
	bool stretch_pays;		/* it was shown, or @stretch is 1 */
	u64 stretch_from;		/* lambda with turns half as long */
	u64 stretch_next, stretch_gap;	/* when it may grow; the gap grows with each failure */
	u64 best;			/* most lambda of a step, q16 */
	u32 best_scale;			/* the scale of that step */
	u64 next_trial, gap;
	s32 odd;			/* epochs in a row that differ from the mean */
	u64 changed, change_gap;	/* when the device did; until it is believed again */
};

/* At most six; core.c has the reasons. */
struct ek_core_tunables {
	u32 turn_ms;
	u32 await_us;
	u32 lead_ms;
	u32 starve_ms;
	u32 guard_percent;
	u32 solo_percent;
};

struct ek_core {
	struct ek_core_tunables t;
	struct ek_top top;
	u64 vnow;			/* least virtual time of an active group */
	u32 nr_active, nr_queued;
	u32 nr_unknown;			/* active groups whose rate is not known */
	struct ek_cost_cell cell[EK_DIRS][EK_SIZES];
	u64 special[EK_OPS];		/* mean ns of operations without size. Completion */
	u32 prices;			/* changes whenever a pool's rate does */

	/* what is in the device */
	atomic_t in_flight;		/* Completion */
	atomic_t out_of_turn;		/* of these, served out of turn. Completion */
	atomic64_t in_flight_cost;	/* ns. Completion */
	u64 sent_cost;			/* ns since ever */
	u64 last_done;			/* Completion; late is harmless */
	u64 filled;			/* when the device was last sent something while empty */

	/* order */
	struct rb_root_cached ready, awaited;
	struct list_head idle;
	u64 idle_at;			/* when the list was last looked at */
	struct llist_head released;	/* Completion adds */
	u64 promise, promise_at;	/* virtual time that everyone was promised */
	u8 why;

	/* turn */
	struct ek_turn turn;
	struct ek_tail tail;
	struct list_head unmeasured, measured;
	u64 clock, clock_at;		/* virtual time of an ideal device; and when */
	u64 solo_end, solo_took;	/* the last turn: its end, and how long it was */
	u64 hidden;			/* ns that writers cost in turns of others */
	s64 residue;			/* ns that turns of writers took beyond their cost */
	atomic64_t flushed;		/* ns of work that passed the queue. Completion */
	u64 wrote;			/* time of the last write; 0: none */

	struct ek_mode mode;

	/* budget: greatest among groups served in this epoch and the one before */
	u32 most_latency, most_latency_next;	/* base latency, ns */
	u32 most_request, most_request_next;	/* cost of one request, ns */
	u32 scale;			/* TOGETHER: limits are multiplied by this */
	u64 short_until;		/* budgets are short until then */

	/* guard */
	struct list_head served, urgent, passing;
	s64 tokens;			/* ns of device time for service out of turn */
	u64 tokens_at;

	/* gate */
	struct rb_root_cached gate;
	struct list_head gate_passing;	/* light groups whose submitters wait */
	u32 nr_waiting, nr_granted;
	u32 tags;

	u64 nr_turns, nr_solos, nr_guarded, nr_passed, nr_holds, nr_quick;
};

/* Life */
void ek_core_init(struct ek_core *c, u32 tags, u64 now);
void ek_core_group_init(struct ek_core *c, struct ek_core_group *g,
			struct ek_core_group *parent, u32 weight);
void ek_core_group_exit(struct ek_core *c, struct ek_core_group *g);
void ek_core_set_weight(struct ek_core *c, struct ek_core_group *g, u32 weight);

/* A request's way, in order */

/* A submitter of @g has no scheduler tag: it waits until ek_core_admit() returns @g. */
void ek_core_arrive(struct ek_core *c, struct ek_core_group *g, u64 now);
/* A submitter of @g that waited for a tag no longer does. */
void ek_core_depart(struct ek_core *c, struct ek_core_group *g);
/* @free tags are free: the group whose submitter gets one, or NULL. */
struct ek_core_group *ek_core_admit(struct ek_core *c, u32 free, u64 now);
/* One of the queued requests of @g became urgent. */
void ek_core_promote(struct ek_core *c, struct ek_core_group *g);
/* Submitters of @g that were admitted did not come: their grants are void. */
void ek_core_ungrant(struct ek_core *c, struct ek_core_group *g);
/* @r of @g is in the caller's queue. */
void ek_core_insert(struct ek_core *c, struct ek_core_group *g,
		    const struct ek_req *r, u64 now);
/*
 * Instead of ek_core_insert(), ek_core_pick() and ek_core_dispatch(): may @r of @g
 * go at once, because the device has next to nothing to do? If true, it went.
 */
bool ek_core_quick(struct ek_core *c, struct ek_core_group *g, struct ek_req *r, u64 now);
/* @r left the caller's queue without being dispatched: it was merged. */
void ek_core_remove(struct ek_core *c, struct ek_core_group *g,
		    const struct ek_req *r);
/*
 * The group to serve next, or NULL. If NULL, *@wake is the time to ask again
 * even if nothing else happens; it is left alone if there is no such time.
 */
struct ek_core_group *ek_core_pick(struct ek_core *c, u64 now, u64 *wake);
/* @r of the picked group @g goes to the device. An urgent one goes first. */
void ek_core_dispatch(struct ek_core *c, struct ek_core_group *g,
		      struct ek_req *r, u64 now);
/* @r was done, or left the device undone (@requeued). Any context, no lock. */
void ek_core_complete(struct ek_core *c, struct ek_core_group *g,
		      struct ek_req *r, bool requeued, u64 now);
/* Work that passes the queue, as a flush does, was done since @issued. Any context. */
void ek_core_charge(struct ek_core *c, struct ek_core_group *g, u64 issued, u64 now);

#endif /* EK_CORE_H */
