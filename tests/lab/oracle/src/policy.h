/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Policies: which of the waiting requests goes to the device next, or none for now.
 *
 * A policy knows the whole state of the device and gives each choice a score. The
 * choices are the oldest read for each die, the oldest write for each channel, and to
 * wait for the next event, which scores 0. Requests for one die are alike, so another
 * choice could be better only by chance.
 *
 * Each weight says how much one property adds to a score. search.c looks for good weights.
 */
#ifndef EK_ORACLE_POLICY_H
#define EK_ORACLE_POLICY_H

#include "sim.h"

/* Times count in units of 100 us, numbers of requests and pages in units of 4. */
enum policy_weight {
	READ_BASE,		/* score of each read */
	READ_START,		/* cost of the time until its die is free */
	READ_CONFLICT,		/* cost of the time for which it will wait for the channel */
	READ_SIBLINGS,		/* cost of each read for other dies of the channel */
	READ_SAME,		/* cost of each read in the device for this die */
	READ_WAITING,		/* reads that wait for this die */
	READ_PAGES,		/* cost of pages that wait for the channel */
	READ_BALANCE,		/* the more waiting reads exceed waiting writes */
	READ_LIMIT,		/* a read whose die is busy for longer than this is not sent */
	WRITE_BASE,		/* score of each write */
	WRITE_PAGES,		/* cost of pages that wait for the channel */
	WRITE_FULL,		/* cost of a full buffer */
	WRITE_WAITING,		/* writes that wait for the channel */
	WRITE_READS,		/* reads in the device for the channel */
	WRITE_PROGRAMS,		/* dies of the channel that program */
	WRITE_BALANCE,		/* the more waiting writes exceed waiting reads */
	WRITE_LAG,		/* cost of transfers that wait for the link */
	POLICY_WEIGHTS,
};

struct policy {
	bool fifo;		/* always send the oldest request; the weights do not matter */
	double weight[POLICY_WEIGHTS];
};

#define POLICY_CHOICES (EK_FS_CHANNELS * (EK_FS_DIES + 1) + 1)

struct choice {
	u32 i;			/* index of the request in sim->waiting, or SIM_NONE: wait */
	double score;
};

extern const struct policy policy_fifo;
/* the policy with which a search begins */
extern const struct policy policy_start;

/* Fills in up to @most choices, the best first; returns their number, at least 1 if sim_ready(). */
u32 policy_choices(const struct policy *policy, const struct sim *sim, struct choice *choice,
		   u32 most);
/* Send what the policy wants to send now. */
void policy_send(const struct policy *policy, struct sim *sim);

#endif /* EK_ORACLE_POLICY_H */
