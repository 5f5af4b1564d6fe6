// SPDX-License-Identifier: Apache-2.0
/* Policies. policy.h describes them. */
#include "policy.h"

/* score of a choice that must not be made now */
#define NEVER (-1e9)

const struct policy policy_fifo = { .fifo = true };

const struct policy policy_start = {
	.weight = {
		[READ_BASE] = 10, [READ_START] = 1, [READ_WAITING] = 1, [READ_LIMIT] = 1,
		[WRITE_BASE] = 10, [WRITE_PAGES] = 2,
	},
};

/* the requests in the device and in the scheduler, by die or by channel */
struct view {
	u32 reads[EK_FS_CHANNELS];		  /* reads in the device */
	u32 waiting[EK_FS_CHANNELS * EK_FS_DIES]; /* reads that wait */
	u32 first[EK_FS_CHANNELS * EK_FS_DIES];	  /* index of the oldest in sim->waiting */
	u32 writes[EK_FS_CHANNELS];		  /* writes that wait */
	u32 first_write[EK_FS_CHANNELS];
	double balance; /* waiting reads less waiting writes; 4: all outstanding are such reads */
	double lag;	/* backlog of the link, in units of 100 us */
};

static void look(struct view *view, const struct sim *sim)
{
	const struct ek_flash_params *p = &sim->load->params;
	const struct ek_fs_cal *link = &sim->dev.link[0];
	u64 sent = link->tail > link->head ? link->span[link->tail - 1].to : 0;
	s64 balance = 0;
	u32 i;

	memset(view, 0, sizeof(*view));
	for (i = 0; i < p->channels * p->dies; i++)
		view->reads[i / p->dies] += sim->reading[i];
	for (i = 0; i < sim->nr_waiting; i++) {
		const struct sim_slot *s = &sim->slot[sim->waiting[i]];

		if (s->req.op == EK_FS_READ) {
			balance++;
			if (!view->waiting[s->die]++)
				view->first[s->die] = i;
		} else {
			balance--;
			if (!view->writes[s->channel]++)
				view->first_write[s->channel] = i;
		}
	}
	view->balance = 4 * (double)balance / sim->load->outstanding;
	view->lag = sent > sim->now ? (double)(sent - sim->now) / 1e5 : 0;
}

/* when the first gap of at least @len begins, at or after @ready; the model will choose this gap */
static u64 gap(const struct ek_fs_cal *cal, u64 ready, u64 len)
{
	u64 at = ready;
	u32 i;

	for (i = cal->head; i < cal->tail; i++) {
		if (cal->span[i].to <= ready)
			continue;
		if (at + len <= cal->span[i].from)
			break;
		at = max(at, cal->span[i].to);
	}
	return at;
}

/* pages that wait for a die of @chan and the filled part of the next page, in units of 4 */
static double pages(const struct sim *sim, const struct ek_fs_chan *chan)
{
	double sum = (double)chan->open / (double)sim->dev.unit;
	u32 p;

	for (p = chan->head; p; p = sim->dev.ops[p - 1].next)
		sum++;
	return sum / 4;
}

static double score_read(const double *weight, const struct sim *sim, const struct view *view,
			 u32 die, double waiting_pages)
{
	const struct ek_flash_params *p = &sim->load->params;
	const struct ek_fs_chan *chan = &sim->dev.chan[die / p->dies];
	u64 command = max(sim->now, sim->dev.cmd_free) + p->cmd_us * 1000ULL;
	u64 begin = max(command, chan->die[die % p->dies].free);
	u64 read = begin + p->t_r_us * 1000ULL;
	u64 out = gap(&chan->cal, read, sim->load->bytes * 1000ULL / p->channel_mbps);
	double start = (double)(begin - command) / 1e5;

	if (start > weight[READ_LIMIT])
		return NEVER;
	return weight[READ_BASE] - weight[READ_START] * start -
	       weight[READ_CONFLICT] * (double)(out - read) / 1e5 -
	       weight[READ_SIBLINGS] * (view->reads[die / p->dies] - sim->reading[die]) / 4 -
	       weight[READ_SAME] * sim->reading[die] / 4 +
	       weight[READ_WAITING] * view->waiting[die] / 4 - weight[READ_PAGES] * waiting_pages +
	       weight[READ_BALANCE] * view->balance;
}

static double score_write(const double *weight, const struct sim *sim, const struct view *view,
			  u32 channel, double waiting_pages)
{
	const struct ek_fs_chan *chan = &sim->dev.chan[channel];
	u64 buffer = (u64)sim->load->params.buffer_kb << 10;
	u32 programs = 0, i;

	/* the write would stall, and hold up all later writes */
	if (sim->dev.stalled || sim->dev.buffered + sim->load->bytes > buffer)
		return NEVER;
	for (i = 0; i < sim->load->params.dies; i++)
		programs += chan->die[i].releasing > 0;
	return weight[WRITE_BASE] - weight[WRITE_PAGES] * waiting_pages -
	       weight[WRITE_FULL] * (double)sim->dev.buffered / (double)buffer +
	       weight[WRITE_WAITING] * view->writes[channel] / 4 +
	       weight[WRITE_READS] * view->reads[channel] / 4 +
	       weight[WRITE_PROGRAMS] * programs / 4 - weight[WRITE_BALANCE] * view->balance -
	       weight[WRITE_LAG] * view->lag;
}

/* Insert a choice into the @n best and keep at most @most. Ties keep their order. Returns @n. */
static u32 insert(struct choice *choice, u32 n, u32 most, u32 i, double score)
{
	u32 at = n;

	while (at && choice[at - 1].score < score)
		at--;
	if (at == most)
		return n;
	if (n == most)
		n--;
	memmove(choice + at + 1, choice + at, (n - at) * sizeof(*choice));
	choice[at] = (struct choice){ i, score };
	return n + 1;
}

u32 policy_choices(const struct policy *policy, const struct sim *sim, struct choice *choice,
		   u32 most)
{
	const struct ek_flash_params *p = &sim->load->params;
	struct view view;
	u32 n = 0, c, d;

	if (policy->fifo) {
		choice[0] = (struct choice){ 0, 1 };
		return 1;
	}
	look(&view, sim);
	for (c = 0; c < p->channels; c++) {
		double waiting = pages(sim, &sim->dev.chan[c]);

		for (d = c * p->dies; d < (c + 1) * p->dies; d++)
			if (view.waiting[d])
				n = insert(choice, n, most, view.first[d],
					   score_read(policy->weight, sim, &view, d, waiting));
		if (view.writes[c])
			n = insert(choice, n, most, view.first_write[c],
				   score_write(policy->weight, sim, &view, c, waiting));
	}
	/* waiting is a choice only if an event is to come that ends it */
	if (sim->tags || sim_turning(sim))
		n = insert(choice, n, most, SIM_NONE, 0);
	return n;
}

void policy_send(const struct policy *policy, struct sim *sim)
{
	struct choice choice;

	while (sim_ready(sim)) {
		policy_choices(policy, sim, &choice, 1);
		if (choice.i == SIM_NONE)
			break;
		sim_send(sim, choice.i);
	}
}
