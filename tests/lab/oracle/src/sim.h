/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A closed loop of requests on the flash model: jobs that keep a number of requests
 * outstanding, a scheduler that chooses the waiting request that goes to the device
 * next, and the device.
 *
 * The requests are a fixed list: the n-th request that arrives is the n-th of the list,
 * whatever was chosen before. So two policies serve the same requests.
 *
 * Except for the pointer to the load, all pointers of the state point into its own memory.
 * So a copy (sim_copy) can be run ahead to see what a choice leads to.
 *
 * Times are in ns.
 */
#ifndef EK_ORACLE_SIM_H
#define EK_ORACLE_SIM_H

#include "flashsim_timing.h"

#define SIM_SLOTS 128
#define SIM_NONE  UINT32_MAX

struct sim_load {
	struct ek_flash_params params;
	u32 bytes;		/* of each request */
	u32 outstanding;	/* requests of all jobs together, 1 to SIM_SLOTS */
	u32 read_pct;
	bool sequential;
	u64 seed;
	u64 ramp;		/* completions before this time are not counted */
	u64 until;		/* end of the run */
	u64 tag;		/* host: from a completion until its tag is free */
	u64 turn;		/* host: from a completion to the next request; one at a time */
};

enum sim_state { SIM_WAITS, SIM_INSIDE, SIM_TURNS };

/* one of the jobs' outstanding requests */
struct sim_slot {
	struct ek_flash_req req;
	u32 index;		/* in the list of requests */
	enum sim_state state;
	u64 came;		/* when it arrived at the scheduler */
	u64 untag;		/* SIM_TURNS: when its tag is free */
	u64 again;		/* SIM_TURNS: when the next request takes its place */
	u16 channel, die;	/* of its first byte; die counts over all channels */
};

struct sim_count {
	u64 ios, bytes, wait;	/* wait: sum of latencies, from came to the completion */
};

struct sim {
	const struct sim_load *load;
	size_t bytes;		/* of the whole state */
	u64 now;
	u64 cpu;		/* the host is busy until then */
	u32 next;		/* index of the next request of the list */
	u32 tags;		/* number of tags in use */
	u32 nr_waiting;
	u8 waiting[SIM_SLOTS];	/* slots, in order of arrival */
	/*
	 * A ring of the slots in state SIM_TURNS, in order of their times: the host handles
	 * one at a time. Its entries are [first_turn, last_turn); those before first_tagged
	 * have freed their tags. The counters only grow: use them modulo SIM_SLOTS.
	 */
	u32 first_turn, first_tagged, last_turn;
	u8 turn[SIM_SLOTS];
	u8 reading[EK_FS_CHANNELS * EK_FS_DIES];	/* reads in the device, by die */
	u64 done;		/* all completions, also those not counted */
	struct sim_count count[2];	/* EK_FS_READ, EK_FS_WRITE */
	struct sim_slot slot[SIM_SLOTS];
	struct ek_flash dev;	/* last: its size depends on the parameters */
};

/* a request of the list */
struct sim_io {
	u64 pos;
	u8 op;
};

/* the channel and die of an address; die counts over all channels */
struct sim_place {
	u16 channel, die;
};

struct sim_io sim_io(const struct sim_load *load, u32 index);
struct sim_place sim_place(const struct ek_flash *dev, u64 pos);

/* NULL without memory. Free it with free(). */
struct sim *sim_new(const struct sim_load *load);
/* @to is from sim_new() with the same load. */
void sim_copy(struct sim *to, const struct sim *from);

/* whether the device takes one more request, and one waits */
bool sim_ready(const struct sim *sim);
/* number of completed requests for which the host still has work to do */
u32 sim_turning(const struct sim *sim);
/* Send the @i-th waiting request. */
void sim_send(struct sim *sim, u32 i);
/* Run to the next event. Returns false, and does nothing, if it comes after @end. */
bool sim_step(struct sim *sim, u64 end);

#endif /* EK_ORACLE_SIM_H */
