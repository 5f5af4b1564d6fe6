// SPDX-License-Identifier: Apache-2.0
/* Properties of the simulation, the search and the bounds, for many loads on many devices. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <cmocka.h>

#include "bound.h"
#include "search.h"

#define MS 1000000ULL

/* The paper's device without random variation, so that the bounds hold exactly. */
#define FLASH                                                                                    \
	"kind=flash,capacity_mb=1024,depth=32,active=32,link_read_mbps=550,link_write_mbps=550," \
	"channels=8,dies=2,planes=2,page_kb=16,channel_mbps=149,chunk_kb=16,t_r_us=70,"          \
	"t_prog_us=1380,cmd_us=12,cmd_write_us=14,buffer_kb=4096,gc_after_kb=0,suspend_us=0"

static const char *const devices[] = {
	"map=ranges",
	"map=stripe",
	"map=stripe,dies=1,t_r_us=115",
	"map=ranges,dies=4,suspend_us=20",
	"map=stripe,channels=3,chunk_kb=64",
	"map=ranges,link_duplex=1,link_write_mbps=200,buffer_kb=512",
	"map=stripe,depth=4,active=2",
	"map=stripe,slc_kb=1024,t_prog_slc_us=300,cmd_us=90",
};

static struct sim_load make(const char *set, u32 bytes, u32 outstanding, u32 read_pct, u64 seed)
{
	struct sim_load load = {
		.bytes = bytes,
		.outstanding = outstanding,
		.read_pct = read_pct,
		.seed = seed,
		.ramp = 5 * MS,
		.until = 15 * MS,
	};
	char why[256] = "";

	assert_int_equal(ek_flash_preset(&load.params, "", why, sizeof(why)), 0);
	assert_int_equal(ek_flash_set(&load.params, FLASH, why, sizeof(why)), 0);
	assert_int_equal(ek_flash_set(&load.params, set, why, sizeof(why)), 0);
	assert_int_equal(ek_flash_check(&load.params, why, sizeof(why)), 0);
	return load;
}

/* Call @check with many loads. */
static void each_load(void (*check)(struct sim_load *load))
{
	static const u32 sizes[] = { 4096, 16384, 131072 }, mixes[] = { 100, 90, 50, 0 };
	static const u32 depths[] = { 1, 32, 128 };
	u32 i, seed = 0;

	for (i = 0; i < ARRAY_SIZE(devices) * ARRAY_SIZE(sizes) * ARRAY_SIZE(mixes); i++) {
		u32 rest = i / ARRAY_SIZE(devices), mix = rest / ARRAY_SIZE(sizes);
		struct sim_load load = make(devices[i % ARRAY_SIZE(devices)],
					    sizes[rest % ARRAY_SIZE(sizes)], depths[i % 3],
					    mixes[mix], ++seed);

		load.sequential = i % 5 == 0;
		load.turn = i % 4 * 3000;
		load.tag = load.turn / 2;
		check(&load);
	}
}

static void a_place_is_that_of_the_model(void **state)
{
	u32 i, n;

	(void)state;
	for (i = 0; i < ARRAY_SIZE(devices); i++) {
		struct sim_load load = make(devices[i], 4096, 1, 100, 1);

		for (n = 0; n < 100; n++) {
			struct sim *sim = sim_new(&load);
			u64 pos = sim_io(&load, n).pos;
			struct sim_place place = sim_place(&sim->dev, pos);
			struct ek_flash_req req = { .sector = pos >> 9, .bytes = 4096 };
			u32 d;

			ek_flash_submit(&sim->dev, &req, 0);
			assert_int_equal(req.channel, place.channel);
			for (d = 0; d < load.params.channels * load.params.dies; d++)
				assert_int_equal(sim->dev.chan[d / load.params.dies]
								 .die[d % load.params.dies]
								 .free > 0,
						 d == place.die);
			free(sim);
		}
	}
}

static void step_fifo(struct sim *sim, u64 end)
{
	do
		policy_send(&policy_fifo, sim);
	while (sim_step(sim, end));
}

static void check_copy(struct sim_load *load)
{
	struct sim *sim = sim_new(load), *copy = sim_new(load), *whole = sim_new(load);

	step_fifo(whole, 15 * MS);
	step_fifo(sim, 7 * MS);
	sim_copy(copy, sim);
	step_fifo(copy, 15 * MS);
	assert_true(sim->now <= 7 * MS);
	step_fifo(sim, 15 * MS);
	assert_memory_equal(copy->count, whole->count, sizeof(copy->count));
	assert_memory_equal(sim->count, whole->count, sizeof(copy->count));
	assert_int_equal(copy->done, whole->done);
	free(sim);
	free(copy);
	free(whole);
}

static void a_copy_goes_on_as_the_original(void **state)
{
	(void)state;
	each_load(check_copy);
}

static void check_loop(struct sim_load *load)
{
	struct sim *sim = sim_new(load);
	bool seen[100000] = {};
	u32 i, inside, turning;

	do {
		policy_send(&policy_start, sim);
		inside = turning = 0;
		for (i = 0; i < load->outstanding; i++) {
			inside += sim->slot[i].state == SIM_INSIDE;
			turning += sim->slot[i].state == SIM_TURNS;
		}
		assert_int_equal(inside, sim->dev.inside);
		assert_int_equal(turning, sim_turning(sim));
		assert_int_equal(inside + turning + sim->nr_waiting, load->outstanding);
		assert_true(sim->tags <= load->params.depth);
		assert_in_range(sim->tags, inside, inside + turning);
		/* the requests that arrived are the first of the list, each of them once */
		assert_int_equal(sim->next, sim->done - turning + load->outstanding);
		for (i = 0; i < load->outstanding; i++)
			seen[sim->slot[i].index] = true;
	} while (sim_step(sim, 15 * MS));
	for (i = 0; i < sim->next; i++)
		assert_true(seen[i]);
	free(sim);
}

static void the_loop_is_closed_and_keeps_the_list(void **state)
{
	(void)state;
	each_load(check_loop);
}

static void check_order(struct sim_load *load)
{
	const struct effort effort = { .rounds = 2, .choices = 2, .horizon = MS / 5 };
	struct policy policy = policy_start, same = policy_start;
	struct outcome fifo, start, tuned, best, again;
	enum step step, step2;
	u64 bound;

	load->ramp = 2 * MS;
	load->until = 8 * MS;
	bound = bound_ios(load);
	assert_true(search_run(load, &policy_fifo, &fifo));
	assert_true(search_run(load, &policy_start, &start));
	assert_true(search_tune(load, effort.rounds, &policy));
	assert_true(search_run(load, &policy, &tuned));
	assert_true(search_best(load, &policy, &effort, &best, &step));

	assert_true(fifo.done > 0);
	assert_true(tuned.done >= start.done);
	assert_true(best.done >= fifo.done);
	assert_true(outcome_ios(&best) >= outcome_ios(&fifo));
	assert_true(bound >= best.done);
	assert_true(bound >= tuned.done);

	assert_true(search_tune(load, effort.rounds, &same));
	assert_memory_equal(&same, &policy, sizeof(policy));
	assert_true(search_best(load, &same, &effort, &again, &step2));
	assert_memory_equal(&again, &best, sizeof(best));
	assert_int_equal(step, step2);
}

static void bound_oracle_and_fifo_are_in_this_order(void **state)
{
	(void)state;
	each_load(check_order);
}

static void bounds_are_right_where_the_answer_is_known(void **state)
{
	struct sim_load load = make("map=ranges", 16384, 1, 100, 1);
	struct outcome outcome;

	(void)state;
	/* one read at a time takes the sum of command, cells, channel and link */
	load.until = 100 * MS;
	assert_int_equal(bound_queues(&load), 100000000 / (12000 + 70000 + 109959 + 29789));
	assert_true(search_run(&load, &policy_fifo, &outcome));
	assert_int_equal(outcome.done, bound_queues(&load));
	/* with a single channel, only its transfers limit the rate */
	load = make("map=ranges,channels=1,dies=16,link_read_mbps=5000,t_r_us=1,cmd_us=0", 16384,
		    128, 100, 1);
	load.until = 1000 * MS;
	assert_in_range(bound_work(&load), 1000000000 / 109959, 1000000000 / 109959 + 128);
	/* with many channels and dies, only the link limits the rate */
	load = make("map=stripe,channels=16,dies=16,cmd_us=0", 16384, 128, 100, 1);
	load.until = 1000 * MS;
	assert_int_equal(bound_work(&load), 1000000000 / 29789);
	/* writes, 16 dies: 1380 us and a transfer of 32 KiB per two requests; 256 stay buffered */
	load = make("map=stripe", 16384, 1, 0, 1);
	load.until = 10000 * MS;
	load.sequential = true;
	assert_in_range(bound_work(&load), 16 * 10000000 / 1599.919 * 2,
			16 * 10000000 / 1599.919 * 2 + 258);
}

static void the_oracle_gains_where_reads_wait_for_dies(void **state)
{
	struct sim_load load = make("map=stripe,dies=1,t_r_us=115", 4096, 128, 100, 1);
	const struct effort effort = {};
	struct outcome fifo, best;
	enum step step;

	(void)state;
	load.until = 250 * MS;
	assert_true(search_run(&load, &policy_fifo, &fifo));
	assert_true(search_best(&load, &policy_start, &effort, &best, &step));
	assert_int_equal(step, STEP_TUNED);
	assert_true(best.done * 100 > fifo.done * 106);
	assert_true(best.done * 100 > bound_ios(&load) * 99);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_place_is_that_of_the_model),
		cmocka_unit_test(a_copy_goes_on_as_the_original),
		cmocka_unit_test(the_loop_is_closed_and_keeps_the_list),
		cmocka_unit_test(bound_oracle_and_fifo_are_in_this_order),
		cmocka_unit_test(bounds_are_right_where_the_answer_is_known),
		cmocka_unit_test(the_oracle_gains_where_reads_wait_for_dies),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
