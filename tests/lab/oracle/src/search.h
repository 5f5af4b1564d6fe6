/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The search for the best order. It takes the best of three:
 *
 * 1. the oldest first, as without a scheduler;
 * 2. a policy (policy.h) whose weights a random local search has improved;
 * 3. that policy, looking ahead: before each decision, copies of the whole state are run
 *    to a horizon, each with another choice first. The choice whose copy completes most
 *    is made (a rollout, as in Bertsekas, Tsitsiklis and Wu, 1997).
 *
 * The result is an actual schedule, so it is a lower bound for what is possible.
 * bound.h has an upper bound. The search is deterministic.
 */
#ifndef EK_ORACLE_SEARCH_H
#define EK_ORACLE_SEARCH_H

#include "policy.h"

struct effort {
	u32 rounds;		/* number of varied policies that the tuning tries */
	u32 choices;		/* number of choices that are compared before each decision */
	u64 horizon;		/* how far ahead, ns; 0: not at all */
};

enum step { STEP_FIFO, STEP_TUNED, STEP_AHEAD };

/* what a schedule completed */
struct outcome {
	struct sim_count count[2];	/* EK_FS_READ, EK_FS_WRITE: between ramp and until */
	u64 done;			/* all completions up to until */
};

u64 outcome_ios(const struct outcome *outcome);

/* All return false if there is not enough memory. */
bool search_run(const struct sim_load *load, const struct policy *policy, struct outcome *outcome);
bool search_ahead(const struct sim_load *load, const struct policy *policy,
		  const struct effort *effort, struct outcome *outcome);
/* Improve @policy. Stops early if it is close to the bound. */
bool search_tune(const struct sim_load *load, u32 rounds, struct policy *policy);
/* Fills in the best outcome of the three, and its step. Looks ahead only far from the bound. */
bool search_best(const struct sim_load *load, const struct policy *policy,
		 const struct effort *effort, struct outcome *best, enum step *step);

#endif /* EK_ORACLE_SEARCH_H */
