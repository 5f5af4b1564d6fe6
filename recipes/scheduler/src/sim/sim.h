/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * ek-sim: jobs, scheduler tags and a device on a virtual clock.
 *
 * A job has one submitter, as a process with asynchronous direct I/O has: it
 * sends the pieces of its I/Os in order and sleeps when there is no tag.
 */
#ifndef EK_SIM_H
#define EK_SIM_H

#include "../core/core.h"
#include "device.h"

#define SIM_JOBS	256

struct sim_job {
	u32 weight;
	u32 parent, parent_weight;	/* nested below parent group 1.., or 0 */
	u8 op;
	bool random, sync, urgent;
	u32 depth;
	u64 bytes, think;
	u64 every;		/* open loop: ns between arrivals; 0: closed loop */
};

enum sim_sched { SIM_NONE, SIM_BYTES, SIM_CORE };

struct sim_setup {
	const char *device;
	enum sim_sched sched;
	u32 tags;		/* 0: as the block layer chooses */
	u64 settle, window;	/* ns */
	u64 seed;
	bool trace;
};

struct sim_result {
	u64 bytes, ios;
	u64 longest;		/* wait of a request: from asking for a tag to done */
	u64 latency_p99, latency_max;	/* of I/Os */
	u64 rate;		/* SIM_CORE: what the core believes, ns per byte, q16 */
	bool together;		/* SIM_CORE: not in turns at the end */
};

/* What the window served, or -1 with the reason in @why. @only: one job alone, or -1. */
int sim_run(const struct sim_setup *s, const struct sim_job *jobs, int nr, int only,
	    struct sim_result *result, u64 *requests, char *why, size_t size);
u32 sim_tags(enum sim_sched sched, u32 depth);

#endif
