// SPDX-License-Identifier: Apache-2.0
/* The search for the best order. search.h describes it. */
#include "search.h"
#include "bound.h"

#include <math.h>
#include <stdlib.h>

#define AHEAD_PARTS 8

/* A schedule is good enough if it lacks at most this part of the bound's completions, in 1/1000. */
#define ENOUGH 5

static bool enough(u64 done, u64 bound)
{
	return done * 1000 >= bound * (1000 - ENOUGH);
}

u64 outcome_ios(const struct outcome *outcome)
{
	return outcome->count[EK_FS_READ].ios + outcome->count[EK_FS_WRITE].ios;
}

static void report(const struct sim *sim, struct outcome *outcome)
{
	memcpy(outcome->count, sim->count, sizeof(outcome->count));
	outcome->done = sim->done;
}

static void run_to(const struct policy *policy, struct sim *sim, u64 end)
{
	policy_send(policy, sim);
	while (sim_step(sim, end))
		policy_send(policy, sim);
}

bool search_run(const struct sim_load *load, const struct policy *policy, struct outcome *outcome)
{
	struct sim *sim = sim_new(load);

	if (!sim)
		return false;
	run_to(policy, sim, load->until);
	report(sim, outcome);
	free(sim);
	return true;
}

/* --- look ahead ------------------------------------------------------------ */

/*
 * What a copy of @sim completes within the horizon if it begins with choice @i: the sum of
 * counts at several times in the horizon's second half, so earlier completions count more.
 * With one count at the end, a transfer that ends just before or after it would decide.
 */
static u64 ahead(const struct policy *policy, const struct sim *sim, struct sim *copy, u32 i,
		 u64 horizon)
{
	u64 sum = 0;
	u32 part;

	sim_copy(copy, sim);
	if (i != SIM_NONE)
		sim_send(copy, i);
	else if (!sim_step(copy, sim->now + horizon))
		return 0;
	for (part = AHEAD_PARTS / 2 + 1; part <= AHEAD_PARTS; part++) {
		run_to(policy, copy, sim->now + horizon * part / AHEAD_PARTS);
		sum += copy->done - sim->done;
	}
	return sum;
}

static u32 decide(const struct policy *policy, const struct effort *effort, const struct sim *sim,
		  struct sim *copy)
{
	struct choice choice[POLICY_CHOICES];
	u32 n = policy_choices(policy, sim, choice, effort->choices), best = 0, i;
	u64 most = 0;

	for (i = 0; n > 1 && i < n; i++) {
		u64 done = ahead(policy, sim, copy, choice[i].i, effort->horizon);

		if (done > most) {
			most = done;
			best = i;
		}
	}
	return choice[best].i;
}

bool search_ahead(const struct sim_load *load, const struct policy *policy,
		  const struct effort *effort, struct outcome *outcome)
{
	struct sim *sim = sim_new(load), *copy = sim_new(load);
	bool ok = sim && copy;

	while (ok) {
		while (sim_ready(sim)) {
			u32 i = decide(policy, effort, sim, copy);

			if (i == SIM_NONE)
				break;
			sim_send(sim, i);
		}
		if (!sim_step(sim, load->until))
			break;
	}
	if (ok)
		report(sim, outcome);
	free(sim);
	free(copy);
	return ok;
}

/* --- tuning ---------------------------------------------------------------- */

/* xorshift64: a random number from 0 to 1 */
static double draw(u64 *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return (double)(*state >> 11) / 9007199254740992.0;
}

/* Change some of the weights: mostly a little, sometimes to anything. */
static void vary(struct policy *policy, u64 *state)
{
	u32 n = 1 + (u32)(draw(state) * 3), w;

	while (n--) {
		w = (u32)(draw(state) * POLICY_WEIGHTS);
		if (draw(state) < 0.15)
			policy->weight[w] = 10 * draw(state) * (draw(state) < 0.3 ? -1 : 1);
		else
			policy->weight[w] +=
				(2 * draw(state) - 1) * (0.5 + 0.5 * fabs(policy->weight[w]));
	}
}

bool search_tune(const struct sim_load *load, u32 rounds, struct policy *policy)
{
	u64 state = 88172645463325252;
	struct outcome outcome;
	u64 most, bound = bound_ios(load);

	if (!search_run(load, policy, &outcome))
		return false;
	most = outcome.done;
	while (rounds-- && !enough(most, bound)) {
		struct policy tried = *policy;

		vary(&tried, &state);
		if (!search_run(load, &tried, &outcome))
			return false;
		if (outcome.done > most) {
			most = outcome.done;
			*policy = tried;
		}
	}
	return true;
}

/* An outcome is better if it completes more by the end, and no less in the time that is counted. */
static void improve(struct outcome *best, enum step *step, const struct outcome *outcome,
		    enum step by)
{
	if (outcome->done <= best->done || outcome_ios(outcome) < outcome_ios(best))
		return;
	*best = *outcome;
	*step = by;
}

bool search_best(const struct sim_load *load, const struct policy *policy,
		 const struct effort *effort, struct outcome *best, enum step *step)
{
	u64 bound = bound_ios(load);
	struct outcome outcome;

	*step = STEP_FIFO;
	if (!search_run(load, &policy_fifo, best))
		return false;
	if (!search_run(load, policy, &outcome))
		return false;
	improve(best, step, &outcome, STEP_TUNED);
	if (enough(best->done, bound) || !effort->horizon)
		return true;
	if (!search_ahead(load, policy, effort, &outcome))
		return false;
	improve(best, step, &outcome, STEP_AHEAD);
	return true;
}
