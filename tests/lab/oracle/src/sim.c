// SPDX-License-Identifier: Apache-2.0
/* The closed loop. sim.h describes it. */
#include "sim.h"

#include <stdlib.h>

/* splitmix64: a good hash of a counter */
static u64 mix(u64 x)
{
	x += 0x9e3779b97f4a7c15;
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
	x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
	return x ^ (x >> 31);
}

struct sim_io sim_io(const struct sim_load *load, u32 index)
{
	u64 random = mix(mix(load->seed) + index);
	u64 blocks = ((u64)load->params.capacity_mb << 20) / load->bytes;
	bool read = (random >> 32) % 100 < load->read_pct;

	return (struct sim_io){
		.pos = (load->sequential ? index : mix(random)) % blocks * load->bytes,
		.op = read ? EK_FS_READ : EK_FS_WRITE,
	};
}

/* the same as ek_fs_locate(), which is static in the model; test_search.c compares the results */
struct sim_place sim_place(const struct ek_flash *dev, u64 pos)
{
	u64 channel, in;

	if (dev->p.map == EK_FS_RANGES) {
		channel = min(pos / dev->range, (u64)dev->p.channels - 1);
		in = pos - channel * dev->range;
	} else {
		u64 chunk = pos / dev->chunk;

		channel = chunk % dev->p.channels;
		in = chunk / dev->p.channels * dev->chunk + pos % dev->chunk;
	}
	return (struct sim_place){
		.channel = (u16)channel,
		.die = (u16)(channel * dev->p.dies + in / dev->op_bytes % dev->p.dies),
	};
}

/* A job's next request arrives and waits in @slot. */
static void arrive(struct sim *sim, u32 slot)
{
	struct sim_io io = sim_io(sim->load, sim->next);
	struct sim_place place = sim_place(&sim->dev, io.pos);
	struct sim_slot *s = &sim->slot[slot];

	s->channel = place.channel;
	s->die = place.die;
	s->index = sim->next++;
	s->came = sim->now;
	s->state = SIM_WAITS;
	s->req.sector = io.pos >> 9;
	s->req.op = io.op;
	s->req.bytes = sim->load->bytes;
	sim->waiting[sim->nr_waiting++] = (u8)slot;
}

struct sim *sim_new(const struct sim_load *load)
{
	size_t bytes = offsetof(struct sim, dev) + ek_flash_bytes(&load->params);
	struct sim *sim = calloc(1, bytes);
	u32 i;

	if (!sim)
		return NULL;
	sim->load = load;
	sim->bytes = bytes;
	ek_flash_init(&sim->dev, &load->params, 0);
	for (i = 0; i < load->outstanding; i++)
		arrive(sim, i);
	return sim;
}

static struct ek_flash_req *moved(struct sim *to, const struct sim *from, struct ek_flash_req *req)
{
	return req ? (struct ek_flash_req *)((char *)to + ((char *)req - (const char *)from)) :
		     NULL;
}

static void move_list(struct sim *to, const struct sim *from, struct ek_fs_list *list)
{
	struct ek_flash_req *req;

	list->head = moved(to, from, list->head);
	list->tail = moved(to, from, list->tail);
	for (req = list->head; req; req = req->next) {
		req->prev = moved(to, from, req->prev);
		req->next = moved(to, from, req->next);
	}
}

void sim_copy(struct sim *to, const struct sim *from)
{
	memcpy(to, from, from->bytes);
	move_list(to, from, &to->dev.queue);
	move_list(to, from, &to->dev.running);
	move_list(to, from, &to->dev.finished);
	to->dev.stalled = moved(to, from, to->dev.stalled);
}

bool sim_ready(const struct sim *sim)
{
	return sim->nr_waiting && sim->tags < sim->load->params.depth;
}

u32 sim_turning(const struct sim *sim)
{
	return sim->last_turn - sim->first_turn;
}

/* The device has completed requests: the host handles them, one at a time. */
static void reap(struct sim *sim)
{
	struct ek_flash_req *req;

	while ((req = ek_flash_reap(&sim->dev, sim->now))) {
		struct sim_slot *s = (struct sim_slot *)req;
		u64 begin = max(req->done, sim->cpu);

		s->state = SIM_TURNS;
		s->untag = begin + sim->load->tag;
		s->again = begin + sim->load->turn;
		sim->cpu = s->again;
		sim->turn[sim->last_turn++ % SIM_SLOTS] = (u8)(s - sim->slot);
		sim->reading[s->die] -= req->op == EK_FS_READ;
		sim->done++;
		if (s->untag >= sim->load->ramp && s->untag < sim->load->until) {
			struct sim_count *count = &sim->count[req->op];

			count->ios++;
			count->bytes += req->bytes;
			count->wait += s->untag - s->came;
		}
	}
}

void sim_send(struct sim *sim, u32 i)
{
	u32 slot = sim->waiting[i];
	struct sim_slot *s = &sim->slot[slot];

	sim->nr_waiting--;
	memmove(sim->waiting + i, sim->waiting + i + 1, sim->nr_waiting - i);
	s->state = SIM_INSIDE;
	sim->reading[s->die] += s->req.op == EK_FS_READ;
	sim->tags++;
	ek_flash_submit(&sim->dev, &s->req, sim->now);
	reap(sim);
}

/* The host's next two events: a tag becomes free, and a job sends its next request. */
static u64 next_untag(const struct sim *sim)
{
	return sim->first_tagged == sim->last_turn ?
		       EK_FS_NEVER :
		       sim->slot[sim->turn[sim->first_tagged % SIM_SLOTS]].untag;
}

static u64 next_again(const struct sim *sim)
{
	return sim->first_turn == sim->first_tagged ?
		       EK_FS_NEVER :
		       sim->slot[sim->turn[sim->first_turn % SIM_SLOTS]].again;
}

bool sim_step(struct sim *sim, u64 end)
{
	u64 device = ek_flash_next(&sim->dev), untag = next_untag(sim), again = next_again(sim);
	u64 next = min(device, min(untag, again));

	if (next > end)
		return false;
	sim->now = max(sim->now, next);
	reap(sim);
	while (next_untag(sim) <= sim->now) {
		sim->first_tagged++;
		sim->tags--;
	}
	while (next_again(sim) <= sim->now)
		arrive(sim, sim->turn[sim->first_turn++ % SIM_SLOTS]);
	return true;
}
