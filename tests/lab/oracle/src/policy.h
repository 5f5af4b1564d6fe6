/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Policies: which of the waiting requests goes to the device next, or none for now.
 *
 * A policy scores each choice from what it knows of the device: all of its state. The
 * choices are the oldest read for each die, the oldest write for each channel, and to
 * wait for the next event, which scores 0. Requests of one die are alike, so no other
 * choice can be better but by chance.
 *
 * The weights say what counts how much. search.c looks for good ones.
 */
#ifndef EK_ORACLE_POLICY_H
#define EK_ORACLE_POLICY_H

#include "sim.h"

/* Times count in units of 100 us, numbers of requests and pages in units of 4. */
enum policy_weight {
	READ_BASE,		/* of each read */
	READ_START,		/* cost of the time until its die is free */
	READ_CONFLICT,		/* cost of the time for which it will wait for the channel */
	READ_SIBLINGS,		/* cost of each read for other dies of the channel */
	READ_SAME,		/* cost of each read in the device for this die */
	READ_WAITING,		/* reads that wait for this die */
	READ_PAGES,		/* cost of pages that wait for the channel */
	READ_BALANCE,		/* more reads than writes wait */
	READ_LIMIT,		/* a read whose die is busy for longer than this is not sent */
	WRITE_BASE,		/* of each write */
	WRITE_PAGES,		/* cost of pages that wait for the channel */
	WRITE_FULL,		/* cost of a full buffer */
	WRITE_WAITING,		/* writes that wait for the channel */
	WRITE_READS,		/* reads in the device for the channel */
	WRITE_PROGRAMS,		/* dies of the channel that program */
	WRITE_BALANCE,		/* more writes than reads wait */
	WRITE_LAG,		/* cost of transfers that wait for the link */
	POLICY_WEIGHTS,
};

struct policy {
	bool fifo;		/* send the oldest: the weights do not matter */
	double weight[POLICY_WEIGHTS];
};

#define POLICY_CHOICES (EK_FS_CHANNELS * (EK_FS_DIES + 1) + 1)

struct choice {
	u32 i;			/* of the waiting requests, or SIM_NONE: wait */
	double score;
};

extern const struct policy policy_fifo;
/* where a search begins */
extern const struct policy policy_start;

/* The best @most choices, best first. There is at least one if sim_ready(). Returns their number. */
u32 policy_choices(const struct policy *policy, const struct sim *sim, struct choice *choice,
		   u32 most);
/* Send what the policy wants to send now. */
void policy_send(const struct policy *policy, struct sim *sim);

#endif /* EK_ORACLE_POLICY_H */
