/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The search for the best order. It takes the best of three:
 *
 * 1. the oldest first, as without a scheduler;
 * 2. a policy (policy.h) whose weights a random local search has improved;
 * 3. that policy, looking ahead: before each choice, copies of the whole state are run
 *    to a horizon, each with another choice first. The one that has completed most by
 *    then is made (a rollout, as in Bertsekas, Tsitsiklis and Wu, 1997).
 *
 * The result is a schedule that exists, so what is possible is at least that good.
 * bound.h has what is possible at most. The search is deterministic.
 */
#ifndef EK_ORACLE_SEARCH_H
#define EK_ORACLE_SEARCH_H

#include "policy.h"

struct effort {
	u32 rounds;		/* of tuning */
	u32 choices;		/* that are looked at before each decision */
	u64 horizon;		/* how far ahead, ns; 0: not at all */
};

enum step { STEP_FIFO, STEP_TUNED, STEP_AHEAD };

/* what a schedule reached */
struct outcome {
	struct sim_count count[2];	/* EK_FS_READ, EK_FS_WRITE: between ramp and until */
	u64 done;			/* all completions up to until */
};

u64 outcome_ios(const struct outcome *outcome);

/* All return false without memory. */
bool search_run(const struct sim_load *load, const struct policy *policy, struct outcome *outcome);
bool search_ahead(const struct sim_load *load, const struct policy *policy,
		  const struct effort *effort, struct outcome *outcome);
/* Improve @policy. Stops early where little is left to the bound. */
bool search_tune(const struct sim_load *load, u32 rounds, struct policy *policy);
/* The best of the three steps, and which it was. Looks ahead only if something is left to the bound. */
bool search_best(const struct sim_load *load, const struct policy *policy,
		 const struct effort *effort, struct outcome *best, enum step *step);

#endif /* EK_ORACLE_SEARCH_H */
