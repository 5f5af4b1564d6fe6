/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The policy core: which group is served next, and how much of the device it
 * may fill. Plain C: state in, decision out, time as an argument.
 *
 * The caller serialises all entry points but two: ek_core_issued() needs no
 * more than the caller's own order, and ek_core_complete() uses atomics only,
 * so completions take no lock. Requests stay in the caller's queues; the core
 * counts them, picks a group, and the caller takes a request of that group.
 */
#ifndef EK_CORE_H
#define EK_CORE_H

#include "types.h"

/* what a request does; the first two have a cost by size, the others by name */
enum ek_op { EK_OP_READ, EK_OP_WRITE, EK_OP_FLUSH, EK_OP_ERASE, EK_OP_ZERO, EK_OPS };
#define EK_DIRS		2

/* why a group was picked: decides how the request is charged */
enum ek_why { EK_WHY_NONE, EK_WHY_ORDER, EK_WHY_SOLO, EK_WHY_GUARD };

/* The core's part of a request. The caller sets the first line. */
struct ek_req {
	u32 bytes; u8 op; bool urgent;
	u8 why;		/* enum ek_why of its dispatch */
	u32 cost;	/* ns charged; what it adds to the work in flight */
	u64 issued;	/* when it was dispatched */
};

/* Alone time of one operation and size class: cost.c */
struct ek_cost_cell {
	u64 rate;	/* ns per byte, q16, at full use of the device; 0: unknown */
	u32 depth;	/* requests in flight when @rate was measured */
	u32 least;	/* least latency seen, ns; 0: unknown */
};

struct ek_core_group {
	struct ek_node node;		/* place in the tree of weights */
	u64 vtime;			/* ns << 12 / weight: charged so far */
	u32 share;			/* in force, see ek_node_share() */
	u32 share_generation;

	/* order.c */
	struct rb_node rb;		/* in ready or awaited, by @vtime */
	struct list_head idle;		/* candidates to become inactive */
	bool active, ready;
	u32 queued;			/* inserted, not dispatched */
	u32 urgent;			/* of these, urgent */
	struct list_head urgent_node;
	atomic_t capped;		/* out of @ready for its budget */
	struct llist_node released;	/* a completion made room */

	/* what is in the device, and what was sent there */
	atomic_t in_flight;
	atomic64_t in_flight_cost;
	u64 sent, sent_cost;		/* requests and their cost since ever */
	u64 last_done;			/* of a completion */
	u32 least;			/* least latency lately, ns */

	/* cost.c */
	u64 rate;			/* ns per byte of @op and @class; 0: unknown */
	u8 op, class;			/* of its last insertion */
	u8 rate_op, rate_class;
	bool own;			/* @rate is of an own solo */
	u8 solos;
	u32 bytes;			/* of its last insertion */
	u32 depth;			/* most requests that it ever had at once */
	u64 solo_at;			/* when it was measured */
	struct list_head solo_node;	/* unmeasured or measured */
	u64 turn_wall, turn_cost;	/* of its turns, not yet learned from */
	u8 turns;			/* how often they were */
	atomic64_t debt;		/* ns that completions found missing */

	/* budget.c */
	u32 limit;			/* requests in flight that give full rate */
	u32 base_latency;		/* ns, alone with few in flight */

	/* guard.c */
	struct list_head served_node;	/* by time of last service */
	u64 served;
	s64 pass_left;			/* ns that it may pass with since it was idle */
	struct list_head pass_node;

	/* gate.c */
	struct rb_node gate;		/* among groups whose submitters wait */
	u64 gate_vtime;
	u32 waiting, granted;
	u64 queued_cost;
	bool gated;
};

/* A count of service between two completions: meter in cost.c */
struct ek_meter {
	bool on;
	u64 from, to;			/* times of completions */
	u64 cost0, n0, cost, n;		/* served when it began; since then */
};

/* Run one group alone: solo.c */
struct ek_solo {
	struct ek_core_group *g;
	u64 begin, exclusive;		/* exclusive 0: others are still inside */
	struct ek_meter meter;
	bool growing, first;
	u32 limit;
	u64 best, last;			/* service per wall time, q16 */
	u32 least;
	u64 took, next;
};

enum ek_kind { EK_TURNS, EK_TOGETHER };
#define EK_MODES	8

/* A way to share the device, and what it was measured to serve. */
struct ek_mode {
	u8 kind;
	u32 x;				/* ms of a turn, or budgets in flight */
	u64 lambda;			/* alone time served per wall time, q16 */
	u32 tried;
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
	u64 vnow;
	u32 nr_active, nr_queued;
	struct ek_cost_cell cell[EK_OPS][EK_SIZES];
	u64 special[EK_OPS];		/* mean ns of operations without size */

	/* what is in the device */
	atomic_t in_flight;
	atomic64_t in_flight_cost[EK_DIRS];
	u64 sent_cost[EK_DIRS];
	u64 last_done;

	/* order */
	struct rb_root_cached ready, awaited;
	struct list_head idle;
	struct llist_head released;
	struct ek_core_group *owner;
	struct ek_meter turn;		/* what it served since it has the device alone */
	u64 owner_since;
	struct ek_core_group *picked;
	u8 why;
	struct ek_mode mode[EK_MODES];
	u8 now_mode, best_mode, trial;
	bool warm;
	u64 epoch, epoch_cost[EK_DIRS], next_trial;
	u32 odd;
	u64 changed, change_gap;	/* when the device did; until it is believed again */
	u64 lambda;
	u64 avg_wall, avg_cost[EK_DIRS];
	u64 write_factor;		/* q16 */

	/* solo */
	struct ek_solo solo;
	struct list_head unmeasured, measured;

	/* budget: greatest among active groups, as of the last look */
	u64 most_cost;			/* of a whole budget */
	u32 most_latency;		/* base latency */
	u32 most_request;		/* cost of one request */
	u64 short_until;		/* budgets are short until then */

	/* guard */
	struct list_head served, urgent, passing;
	s64 tokens;			/* ns of device time for service out of turn */
	u64 tokens_at;

	/* gate */
	struct rb_root_cached gate;
	struct list_head gate_passing;	/* light groups whose submitters wait */
	u32 nr_waiting;
	u32 tags;

	u64 nr_solos, nr_guarded, nr_passed, nr_holds, nr_switches;
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
/* @free tags are free: the group whose submitter gets one, or NULL. */
struct ek_core_group *ek_core_admit(struct ek_core *c, u32 free, u64 now);
/* @r of @g is in the caller's queue. */
void ek_core_insert(struct ek_core *c, struct ek_core_group *g,
		    const struct ek_req *r, u64 now);
/* @r left the caller's queue without being dispatched: it was merged. */
void ek_core_remove(struct ek_core *c, struct ek_core_group *g,
		    const struct ek_req *r);
/*
 * The group to serve next, or NULL; then *@wake is when to ask again though
 * nothing else happens, or is left alone.
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
