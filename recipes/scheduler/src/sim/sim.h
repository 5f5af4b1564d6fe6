/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * ek-sim: jobs, scheduler tags and a device on a virtual clock.
 *
 * Each job is a group of its own, with one submitter, like a process with asynchronous direct
 * I/O. An I/O larger than the device's largest request is sent in pieces. The submitter sends
 * the pieces of its I/Os in order, and sleeps while it has no tag for the next piece.
 */
#ifndef EK_SIM_H
#define EK_SIM_H

#include "../core/core.h"
#include "device.h"

/* The largest number of jobs. */
#define SIM_JOBS	256

struct sim_job {
	u32 weight;
	u32 parent, parent_weight;	/* number and weight of the parent group; 0: top level */
	u8 op;				/* enum sim_op */
	bool random, sync, urgent;	/* sync: a flush follows each I/O */
	u32 depth;			/* closed loop: number of I/Os at once */
	u64 bytes, think;		/* size of an I/O; ns from its end to the next I/O */
	u64 every;			/* open loop: ns between new I/Os; 0: closed loop */
};

/* No scheduler; virtual time by bytes, for comparison; the policy core. */
enum sim_sched { SIM_NONE, SIM_BYTES, SIM_CORE };

struct sim_setup {
	const char *device;	/* see device.h */
	enum sim_sched sched;
	u32 tags;		/* scheduler tags; 0: the number that the block layer chooses */
	u64 settle, window;	/* time before the measurement, and of the measurement, ns */
	u64 seed;
	bool trace;		/* print the state of the core at the end */
};

/* What one job got in the window. */
struct sim_result {
	u64 bytes, ios;		/* bytes and I/Os completed */
	u64 longest;		/* longest time from asking for a tag to completion, ns */
	u64 latency_p99, latency_max;	/* of I/Os, ns */
	u64 rate;		/* SIM_CORE: the rate that the core learned, ns per byte, q16 */
	bool together;		/* SIM_CORE: the mode at the end is TOGETHER */
	u64 quick;		/* SIM_CORE: requests of all jobs that went to an idle device at once */
};

/*
 * Run @nr jobs and set @result for each; with @only >= 0, run job @only alone. Adds the number
 * of completed requests to @requests. Returns 0, or -1 with the reason in @why.
 */
int sim_run(const struct sim_setup *s, const struct sim_job *jobs, int nr, int only,
	    struct sim_result *result, u64 *requests, char *why, size_t size);
/* The number of scheduler tags that the block layer chooses for a device of @depth. */
u32 sim_tags(enum sim_sched sched, u32 depth);

#endif
