// SPDX-License-Identifier: GPL-2.0-only
/* The engine of ek-sim: see sim.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "sim.h"

/* If requests wait and none completes for this time (ns), the requests count as lost. */
#define SIM_STUCK	(100 * EK_SEC)
/* The number of latencies that are kept of each job, for its percentile. */
#define SIM_SAMPLES	(1 << 16)

/* One I/O of a job. */
struct io {
	struct sim_job_state *job;
	u64 began;			/* ns */
	u32 left;			/* requests not completed yet */
	bool flushed;			/* the flush after a synchronous write was sent */
	struct io *next;		/* in sim.spare_io */
};

/* A request: a piece of an I/O, or a flush. */
struct rq {
	struct sim_cmd cmd;		/* must be first: rq_done() casts */
	struct ek_req core;
	struct io *io;
	struct rq *next;		/* in a fifo, or in sim.spare */
	u64 asked;			/* when the submitter asked for its tag, ns */
};

struct fifo {
	struct rq *head, *tail;
};

struct sim_job_state {
	const struct sim_job *job;
	struct group *g;
	/*
	 * Bytes: the job uses @length from @from on; a sequential job goes on at offset @at.
	 * @random: state of the random numbers.
	 */
	u64 from, length, at, random;
	struct fifo todo;		/* pieces without a tag */
	struct sim_job_state *next;	/* in a list of submitters that wait for a tag */
	bool waits;			/* it is in such a list */
	u64 lat_nr;			/* number of latencies in @lat */
	u32 *lat;			/* latencies of I/Os, us */
};

struct group {
	struct ek_core_group core;
	struct fifo queue;		/* requests inserted and not dispatched */
	struct sim_job_state *head, *tail;	/* submitters that wait for a tag */
	u64 vtime;			/* SIM_BYTES: virtual time by bytes */
	u32 held, weight;		/* @held: tags that it holds */
};

/* At time @at (ns), @job begins an I/O. */
struct event {
	u64 at;
	struct sim_job_state *job;
};

struct sim {
	const struct sim_setup *s;
	struct sim_device *dev;
	struct ek_core core;
	struct group *groups, root, parents[SIM_JOBS];
	struct sim_job_state *jobs;
	struct sim_job_state *head, *tail;	/* SIM_NONE: all submitters that wait, in order */
	struct sim_result *result;
	int nr;				/* number of jobs, and of groups */
	/*
	 * Of the device: @depth, @max_bytes (largest request), @inside (requests in it).
	 * Scheduler tags: @tags in all, @free of them. @queued: requests in all groups' queues.
	 */
	u32 depth, tags, free, inside, max_bytes, queued;
	struct event *heap;		/* by time */
	u32 events, room;		/* number of events in @heap; its size */
	struct rq *spare;
	struct io *spare_io;
	/*
	 * In ns: @now is the virtual clock, @from and @to bound the window. @sent, @done:
	 * requests sent to the device and completed, since the start.
	 */
	u64 now, from, to, sent, done;
};

static u64 next_random(u64 *s)
{
	u64 z = (*s += 0x9e3779b97f4a7c15ULL);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return z ^ (z >> 31);
}

static void event_push(struct sim *m, u64 at, struct sim_job_state *job)
{
	u32 i = m->events++, p;

	if (m->events > m->room) {
		m->room = 2 * m->events;
		m->heap = realloc(m->heap, m->room * sizeof(*m->heap));
	}
	for (; i; i = p) {
		p = (i - 1) / 2;
		if (m->heap[p].at <= at)
			break;
		m->heap[i] = m->heap[p];
	}
	m->heap[i] = (struct event){ at, job };
}

static struct sim_job_state *event_pop(struct sim *m)
{
	struct sim_job_state *job = m->heap[0].job;
	struct event last = m->heap[--m->events];
	u32 i = 0, c;

	for (;;) {
		c = 2 * i + 1;
		if (c >= m->events)
			break;
		if (c + 1 < m->events && m->heap[c + 1].at < m->heap[c].at)
			c++;
		if (m->heap[c].at >= last.at)
			break;
		m->heap[i] = m->heap[c];
		i = c;
	}
	if (m->events)
		m->heap[i] = last;
	return job;
}

static void fifo_add(struct fifo *f, struct rq *rq)
{
	rq->next = NULL;
	if (f->head)
		f->tail->next = rq;
	else
		f->head = rq;
	f->tail = rq;
}

static struct rq *fifo_take(struct fifo *f)
{
	struct rq *rq = f->head;

	f->head = rq->next;
	rq->next = NULL;
	return rq;
}

static struct rq *rq_new(struct sim *m, struct io *io)
{
	struct rq *rq = m->spare;

	if (rq)
		m->spare = rq->next;
	else
		rq = malloc(sizeof(*rq));
	rq->io = io;
	rq->next = NULL;
	rq->core = (struct ek_req){};
	io->left++;
	return rq;
}

static void rq_insert(struct sim *m, struct rq *rq);

/* As ek_gate_open() of the module: tags are plenty, so no submitter has to wait. */
static bool gate_open(struct sim *m)
{
	return m->s->sched == SIM_CORE && !m->core.nr_waiting &&
	       ek_tags_plenty(m->tags - m->free, m->tags);
}

/* The submitter of @js needs a tag for its first piece. */
static void submitter_asks(struct sim *m, struct sim_job_state *js)
{
	struct sim_job_state **head = &m->head, **tail = &m->tail;

	js->todo.head->asked = m->now;
	if (gate_open(m)) {
		rq_insert(m, fifo_take(&js->todo));
		return;
	}
	if (m->s->sched != SIM_NONE) {
		head = &js->g->head;
		tail = &js->g->tail;
	}
	js->waits = true;
	js->next = NULL;
	if (*head)
		(*tail)->next = js;
	else
		*head = js;
	*tail = js;
	if (m->s->sched == SIM_CORE)
		ek_core_arrive(&m->core, &js->g->core, m->now);
}

static struct rq *submitter_goes(struct sim_job_state **head)
{
	struct sim_job_state *js = *head;

	*head = js->next;
	js->waits = false;
	return fifo_take(&js->todo);
}

/* @js begins an I/O: append its pieces to todo. */
static void io_begin(struct sim *m, struct sim_job_state *js)
{
	const struct sim_job *job = js->job;
	struct io *io = m->spare_io;
	u64 at, left = job->bytes, slots;

	if (io)
		m->spare_io = io->next;
	else
		io = malloc(sizeof(*io));
	*io = (struct io){ .job = js, .began = m->now };
	if (job->random) {
		slots = js->length / job->bytes;
		at = (slots ? next_random(&js->random) % slots : 0) * job->bytes;
	} else {
		if (js->at + job->bytes > js->length)
			js->at = 0;
		at = js->at;
		js->at += job->bytes;
	}
	while (left) {
		struct rq *rq = rq_new(m, io);

		rq->cmd.sector = (js->from + at) >> 9;
		rq->cmd.bytes = rq->core.bytes = left < m->max_bytes ? left : m->max_bytes;
		rq->cmd.op = rq->core.op = job->op;
		rq->core.urgent = job->urgent;
		at += rq->cmd.bytes;
		left -= rq->cmd.bytes;
		fifo_add(&js->todo, rq);
	}
	if (!js->waits)
		submitter_asks(m, js);
}

static void to_device(struct sim *m, struct rq *rq)
{
	m->inside++;
	m->sent++;
	sim_device_submit(m->dev, &rq->cmd, m->now);
}

/* @rq has got a tag: insert it into its group's queue, or send it at once. */
static void rq_insert(struct sim *m, struct rq *rq)
{
	struct sim_job_state *js = rq->io->job;
	struct group *g = js->g;

	m->free--;
	g->held++;
	if (m->s->sched == SIM_CORE && m->inside < m->depth &&
	    ek_core_quick(&m->core, &g->core, &rq->core, m->now)) {
		to_device(m, rq);
	} else {
		m->queued++;
		fifo_add(&g->queue, rq);
		if (m->s->sched == SIM_CORE)
			ek_core_insert(&m->core, &g->core, &rq->core, m->now);
	}
	if (js->todo.head)
		submitter_asks(m, js);
}

/*
 * SIM_BYTES: the group with the least bytes / weight. If @waiting, of those whose submitters
 * may have a tag; otherwise of those that have requests queued.
 */
static struct group *least_bytes(struct sim *m, bool waiting)
{
	struct group *g, *best = NULL;

	for (g = m->groups; g < m->groups + m->nr; g++) {
		if (waiting ? !g->head || (m->free <= m->tags / 4 && g->held > m->tags / m->nr) :
			      !g->queue.head)
			continue;
		if (!best || g->vtime < best->vtime)
			best = g;
	}
	return best;
}

/* Give the free tags to submitters. */
static void admit(struct sim *m)
{
	struct ek_core_group *cg;
	struct group *g;

	while (m->free) {
		switch (m->s->sched) {
		case SIM_NONE:
			if (!m->head)
				return;
			rq_insert(m, submitter_goes(&m->head));
			continue;
		case SIM_BYTES:
			g = least_bytes(m, true);
			break;
		default:
			cg = ek_core_admit(&m->core, m->free, m->now);
			g = cg ? container_of(cg, struct group, core) : NULL;
		}
		if (!g)
			return;
		rq_insert(m, submitter_goes(&g->head));
	}
}

/* The next request for the device, or NULL. */
static struct rq *pick(struct sim *m, u64 *wake)
{
	struct ek_core_group *cg;
	struct group *g;
	struct rq *rq;

	if (m->s->sched == SIM_CORE) {
		cg = ek_core_pick(&m->core, m->now, wake);
		if (!cg)
			return NULL;
		g = container_of(cg, struct group, core);
		rq = fifo_take(&g->queue);
		ek_core_dispatch(&m->core, cg, &rq->core, m->now);
		return rq;
	}
	g = least_bytes(m, false);
	if (!g)
		return NULL;
	rq = fifo_take(&g->queue);
	g->vtime += (u64)rq->cmd.bytes * 10000 / g->weight;
	return rq;
}

/*
 * Admit submitters and send requests until none may go. SIM_NONE needs no order of its own:
 * it has only as many tags as the device takes requests.
 */
static void dispatch(struct sim *m, u64 *wake)
{
	struct rq *rq;

	for (;;) {
		admit(m);
		if (m->inside >= m->depth)
			return;
		rq = m->queued ? pick(m, wake) : NULL;
		if (!rq)
			return;
		m->queued--;
		to_device(m, rq);
	}
}

static void io_done(struct sim *m, struct io *io)
{
	struct sim_job_state *js = io->job;
	u64 us = (m->now - io->began) / 1000;

	if (m->now >= m->from) {
		struct sim_result *r = &m->result[js - m->jobs];

		r->ios++;
		r->latency_max = max_t(u64, r->latency_max, m->now - io->began);
		if (js->lat_nr < SIM_SAMPLES)
			js->lat[js->lat_nr++] = (u32)us;
	}
	if (!js->job->every)
		event_push(m, m->now + js->job->think, js);
	io->next = m->spare_io;
	m->spare_io = io;
}

/* A flush follows synchronous write @io. It bypasses the scheduler. */
static void io_flush(struct sim *m, struct io *io)
{
	struct rq *rq = rq_new(m, io);

	io->flushed = true;
	rq->cmd.sector = 0;
	rq->cmd.bytes = 0;
	rq->cmd.op = rq->core.op = SIM_FLUSH;
	rq->asked = m->now;
	to_device(m, rq);
}

static void rq_done(struct sim *m, struct rq *rq)
{
	struct io *io = rq->io;
	struct sim_job_state *js = io->job;
	struct sim_result *r = &m->result[js - m->jobs];

	m->inside--;
	m->done++;
	if (rq->cmd.op == SIM_FLUSH) {
		if (m->s->sched == SIM_CORE)
			ek_core_charge(&m->core, &js->g->core, rq->asked, m->now);
	} else {
		m->free++;
		js->g->held--;
		if (m->s->sched == SIM_CORE)
			ek_core_complete(&m->core, &js->g->core, &rq->core, false, m->now);
	}
	if (m->now >= m->from) {
		r->bytes += rq->cmd.bytes;
		r->longest = max_t(u64, r->longest, m->now - rq->asked);
	}
	rq->next = m->spare;
	m->spare = rq;
	if (--io->left)
		return;
	if (js->job->sync && !io->flushed)
		io_flush(m, io);
	else
		io_done(m, io);
}

/* A request that still waits at the end counts for the longest wait, too. */
static void still_waiting(struct sim *m)
{
	int i;

	for (i = 0; i < m->nr; i++) {
		struct rq *first = m->jobs[i].g->queue.head ?: m->jobs[i].todo.head;

		if (first && m->s->sched != SIM_NONE)
			m->result[i].longest = max_t(u64, m->result[i].longest, m->now - first->asked);
	}
}

/* Advance the virtual clock from event to event until the window ends. */
static int loop(struct sim *m, char *why, size_t size)
{
	u64 next, wake, last = m->now;
	struct sim_cmd *cmd;

	for (;;) {
		while ((cmd = sim_device_reap(m->dev, m->now))) {
			rq_done(m, (struct rq *)cmd);
			last = m->now;
		}
		while (m->events && m->heap[0].at <= m->now) {
			struct sim_job_state *js = event_pop(m);

			if (js->job->every)
				event_push(m, m->now + js->job->every, js);
			io_begin(m, js);
		}
		wake = SIM_NEVER;
		dispatch(m, &wake);
		next = sim_device_next(m->dev);
		if (m->events)
			next = min_t(u64, next, m->heap[0].at);
		if (wake <= m->now)
			wake = m->now + 1;
		next = min_t(u64, next, wake);
		if (next >= m->to)
			return 0;
		if (m->inside == 0 && m->queued && m->now - last > SIM_STUCK) {
			snprintf(why, size, "lost: at %.3f s %u requests wait, nothing is in the device",
				 (double)m->now / 1e9, m->queued);
			return -1;
		}
		m->now = max_t(u64, m->now, next);
	}
}

u32 sim_tags(enum sim_sched sched, u32 depth)
{
	/* as blk_mq_init_sched(): twice the depth, of which at most BLKDEV_DEFAULT_RQ count */
	return sched == SIM_NONE ? depth : 2 * min_t(u32, depth, 128);
}

static void groups_init(struct sim *m, const struct sim_job *jobs)
{
	struct group *g, *up;
	int i;

	m->groups = calloc(m->nr, sizeof(*m->groups));
	ek_core_init(&m->core, m->tags, m->now);
	ek_core_group_init(&m->core, &m->root.core, NULL, 100);
	for (i = 0; i < m->nr; i++) {
		g = &m->groups[i];
		up = &m->root;
		if (jobs[i].parent) {
			up = &m->parents[jobs[i].parent];
			if (!up->weight) {
				up->weight = jobs[i].parent_weight;
				ek_core_group_init(&m->core, &up->core, &m->root.core, up->weight);
			}
		}
		ek_core_group_init(&m->core, &g->core, &up->core, jobs[i].weight);
		g->weight = jobs[i].weight;
	}
}

static void jobs_init(struct sim *m, const struct sim_job *jobs, int only)
{
	u64 part = sim_device_bytes(m->dev) / m->nr & ~((1ULL << 20) - 1);
	struct sim_job_state *js;
	u32 q;
	int i;

	m->jobs = calloc(m->nr, sizeof(*m->jobs));
	for (i = 0; i < m->nr; i++) {
		js = &m->jobs[i];
		js->job = &jobs[i];
		js->g = &m->groups[i];
		js->from = part * i;
		js->length = part;
		js->random = m->s->seed * 1000 + i + 1;
		js->lat = malloc(SIM_SAMPLES * sizeof(u32));
		if (only >= 0 && i != only)
			continue;
		for (q = 0; q < (jobs[i].every ? 1 : jobs[i].depth); q++)
			event_push(m, m->now, js);
	}
}

static int by_value(const void *a, const void *b)
{
	u32 x = *(const u32 *)a, y = *(const u32 *)b;

	return x < y ? -1 : x > y;
}

/* Free @rq, which will not be served. */
static void rq_drop(struct sim *m, struct rq *rq)
{
	if (!--rq->io->left) {
		rq->io->next = m->spare_io;
		m->spare_io = rq->io;
	}
	rq->next = m->spare;
	m->spare = rq;
}

static void fifo_drop(struct sim *m, struct fifo *f)
{
	while (f->head)
		rq_drop(m, fifo_take(f));
}

static void free_spare(struct sim *m)
{
	struct rq *rq;
	struct io *io;

	while ((rq = m->spare)) {
		m->spare = rq->next;
		free(rq);
	}
	while ((io = m->spare_io)) {
		m->spare_io = io->next;
		free(io);
	}
}

static void finish(struct sim *m)
{
	struct sim_cmd *cmd;
	int i;

	for (i = 0; i < m->nr; i++) {
		struct sim_job_state *js = &m->jobs[i];

		m->result[i].rate = m->groups[i].core.rate;
		m->result[i].together = m->core.mode.kind == EK_TOGETHER;
		m->result[i].quick = m->core.nr_quick;
		qsort(js->lat, js->lat_nr, sizeof(u32), by_value);
		if (js->lat_nr)
			m->result[i].latency_p99 = 1000ULL * js->lat[(js->lat_nr - 1) * 99 / 100];
		free(js->lat);
	}
	/* free everything, so that the sanitizer reports only real leaks */
	while (sim_device_next(m->dev) != SIM_NEVER && m->inside) {
		m->now = max_t(u64, m->now, sim_device_next(m->dev));
		while ((cmd = sim_device_reap(m->dev, m->now))) {
			m->inside--;
			rq_drop(m, (struct rq *)cmd);
		}
	}
	for (i = 0; i < m->nr; i++) {
		fifo_drop(m, &m->groups[i].queue);
		fifo_drop(m, &m->jobs[i].todo);
	}
	free_spare(m);
	free(m->groups);
	free(m->jobs);
	free(m->heap);
	sim_device_free(m->dev);
}

static void show_core(struct sim *m)
{
	static const char * const kinds[] = { "turns", "together" };
	struct ek_core *c = &m->core;
	int i;

	for (i = 0; i < EK_KINDS; i++)
		printf("  %s: lambda %.3f, epochs %u%s\n", kinds[i], c->mode.lambda[i] / 65536.,
		       c->mode.tried[i], c->mode.kind == i ? ", now" : "");
	printf("  active %u, unknown %u, turns %llu, solos %llu, guarded %llu, passed %llu, holds %llu, scale %u, "
	       "hidden %.3f ns/byte\n", c->nr_active, c->nr_unknown,
	       (unsigned long long)c->nr_turns, (unsigned long long)c->nr_solos,
	       (unsigned long long)c->nr_guarded, (unsigned long long)c->nr_passed,
	       (unsigned long long)c->nr_holds, c->scale, (double)c->hidden.rate / EK_ONE);
	for (i = 0; i < m->nr && i < 6; i++) {
		struct ek_core_group *g = &m->groups[i].core;

		printf("  group %d: %.2f MB/s alone%s, limit %u%s, least latency %u us\n", i,
		       g->rate ? 65536e3 / g->rate : 0., g->known ? "" : " (guess)", g->limit,
		       g->growing ? " (grows)" : "", g->least / 1000);
	}
}

int sim_run(const struct sim_setup *s, const struct sim_job *jobs, int nr, int only,
	    struct sim_result *result, u64 *requests, char *why, size_t size)
{
	struct sim *m = calloc(1, sizeof(*m));
	bool writes = false;
	int ret, i;

	*m = (struct sim){ .s = s, .nr = nr, .result = result };
	memset(result, 0, nr * sizeof(*result));
	m->dev = sim_device_new(s->device, why, size);
	if (!m->dev) {
		free(m);
		return -1;
	}
	m->depth = sim_device_depth(m->dev);
	m->max_bytes = sim_device_max_bytes(m->dev);
	m->tags = s->tags && s->sched != SIM_NONE ? s->tags : sim_tags(s->sched, m->depth);
	m->free = m->tags;
	for (i = 0; i < nr; i++)
		writes |= jobs[i].op != SIM_READ;
	if (writes)
		m->now = sim_device_fill(m->dev);
	m->from = m->now + s->settle;
	m->to = m->from + s->window;
	groups_init(m, jobs);
	jobs_init(m, jobs, only);
	ret = loop(m, why, size);
	still_waiting(m);
	*requests += m->done;
	if (s->trace && s->sched == SIM_CORE)
		show_core(m);
	finish(m);
	free(m);
	return ret;
}
