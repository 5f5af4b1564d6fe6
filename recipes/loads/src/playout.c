// SPDX-License-Identifier: Apache-2.0
/*
 * Play-out clock, stall accounting and buffer of ek-player.
 *
 * The reads of chunks have sequence numbers, which increase by 1. The chunk with number
 * seq is in slot seq % slots of the buffer. The current movie's first chunk has the number
 * `base`. When a movie ends, base becomes `next`, the number of the next read, so chunks
 * that were read ahead are dropped. Reads of the old movie that are still in flight keep
 * their slots until they complete; their data are not used.
 */
#include "playout.h"

#include <stdlib.h>
#include <string.h>

#define NSEC UINT64_C(1000000000)

static uint64_t min_u64(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t max_u64(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* bytes that are played in ns; whole seconds are computed separately, against overflow */
static uint64_t bytes_in(const struct playout *p, uint64_t ns)
{
	return ns / NSEC * p->cfg.rate + ns % NSEC * p->cfg.rate / NSEC;
}

/* ns until these bytes are played, rounded up: at that time all of them have been played */
static uint64_t time_for(const struct playout *p, uint64_t bytes)
{
	uint64_t rest = bytes % p->cfg.rate * NSEC;

	return bytes / p->cfg.rate * NSEC + (rest + p->cfg.rate - 1) / p->cfg.rate;
}

/* bytes of n chunks, counted from the movie's beginning; beyond its end the movie repeats */
static uint64_t bytes_of(const struct playout *p, uint64_t n)
{
	return n / p->chunks * p->cfg.movie + n % p->chunks * p->cfg.chunk;
}

/* play-out position up to which the movie has been read */
static uint64_t limit(const struct playout *p)
{
	return min_u64(bytes_of(p, p->have), p->cfg.movie);
}

static void new_movie(struct playout *p)
{
	p->base = p->next;
	p->have = 0;
	p->indexed = 0;
	p->index_at = p->cfg.index_every ? 0 : PLAYOUT_NEVER;
}

const char *playout_init(struct playout *p, const struct playout_cfg *cfg, uint64_t now)
{
	memset(p, 0, sizeof(*p));
	if (!cfg->rate || cfg->rate > PLAYOUT_MAX_RATE)
		return "the rate must be between 1 byte/s and 10 GB/s";
	if (!cfg->chunk)
		return "the chunk must not be empty";
	if (!cfg->depth)
		return "at least one read must be in flight";
	if (!cfg->movie)
		return "the movie must not be empty";
	if (cfg->movie > UINT64_C(1) << 62 || cfg->chunk > UINT64_C(1) << 62)
		return "the movie is too long";
	if (!cfg->preroll || !cfg->rebuffer)
		return "pre-roll and re-buffering must be longer than 0";
	/* The chunk being played must not be overwritten. So one slot less is available. */
	if (cfg->slots < 2 || (cfg->slots - 1) < cfg->preroll / cfg->chunk + 1 ||
	    (cfg->slots - 1) < cfg->rebuffer / cfg->chunk + 1)
		return "the buffer is too small: it must hold the longer of pre-roll and re-buffering, and two chunks";

	p->reading = calloc(cfg->slots, sizeof(*p->reading));
	if (!p->reading)
		return "out of memory";
	p->cfg = *cfg;
	p->chunks = (cfg->movie - 1) / cfg->chunk + 1;
	new_movie(p);
	p->state = PLAYOUT_PREROLL;
	p->since = now;
	return NULL;
}

void playout_free(struct playout *p)
{
	free(p->reading);
	p->reading = NULL;
}

void playout_restart(struct playout *p, uint64_t now)
{
	p->since = now;
}

uint64_t playout_position(const struct playout *p, uint64_t now)
{
	if (p->state != PLAYOUT_PLAYING)
		return p->pos;
	return min_u64(p->pos + bytes_in(p, now - p->since), limit(p));
}

static void enter(struct playout *p, enum playout_state state, uint64_t pos, uint64_t when)
{
	p->state = state;
	p->pos = pos;
	p->since = when;
}

void playout_advance(struct playout *p, uint64_t now)
{
	uint64_t dry;

	if (p->state != PLAYOUT_PLAYING)
		return;
	dry = p->since + time_for(p, limit(p) - p->pos);
	if (p->have >= p->chunks) {
		if (now < dry)
			return;
		p->movies++;
		new_movie(p);
		enter(p, PLAYOUT_PREROLL, 0, dry);
	} else if (now > dry) {
		/* At now == dry, play-out has just used up the data. The stall begins after it. */
		p->stalls++;
		enter(p, PLAYOUT_BUFFERING, limit(p), dry);
	}
}

static void stall_ended(struct playout *p, uint64_t now)
{
	uint64_t ns = now - p->since;

	p->stall_ns += ns;
	p->worst_ns = max_u64(p->worst_ns, ns);
	p->ends[p->ended++ % PLAYOUT_RECENT_MAX] = now;
}

/* starts or resumes play-out if enough has been read */
static void settle(struct playout *p, uint64_t now)
{
	uint64_t ahead = bytes_of(p, p->have) - p->pos;

	switch (p->state) {
	case PLAYOUT_PREROLL:
		if (ahead >= min_u64(p->cfg.preroll, p->cfg.movie)) {
			p->start_ns = max_u64(p->start_ns, now - p->since);
			enter(p, PLAYOUT_PLAYING, 0, now);
		}
		break;
	case PLAYOUT_BUFFERING:
		if (ahead >= p->cfg.rebuffer || p->have >= p->chunks) {
			stall_ended(p, now);
			enter(p, PLAYOUT_PLAYING, p->pos, now);
		}
		break;
	case PLAYOUT_PLAYING:
		break;
	}
}

/* sequence number of the oldest chunk that is still needed, the one being played */
static uint64_t oldest(const struct playout *p, uint64_t now)
{
	return p->base + playout_position(p, now) / p->cfg.chunk;
}

bool playout_next_read(struct playout *p, uint64_t now, struct playout_read *r)
{
	uint64_t slot = p->next % p->cfg.slots;
	uint64_t ahead;

	playout_advance(p, now);
	if (p->in_flight >= p->cfg.depth || p->indexing || p->reading[slot] ||
	    p->next - oldest(p, now) >= p->cfg.slots)
		return false;
	ahead = p->next - p->base;
	if (p->cfg.movies &&
	    (p->movies >= p->cfg.movies || (p->movies + 1 == p->cfg.movies && ahead >= p->chunks)))
		return false;
	p->in_flight++;
	r->movie = p->movies;
	if (ahead >= p->index_at && ahead < p->chunks) {
		r->seq = PLAYOUT_INDEX;
		r->slot = 0;
		r->chunk = p->indexed++;
		r->bytes = 0;
		p->index_at += p->cfg.index_every;
		p->indexing = true;
		return true;
	}
	r->seq = p->next;
	r->slot = slot;
	r->chunk = ahead % p->chunks;
	r->bytes = bytes_of(p, r->chunk + 1) - bytes_of(p, r->chunk);
	p->reading[slot] = true;
	p->next++;
	return true;
}

void playout_done(struct playout *p, uint64_t seq, uint64_t now)
{
	/* Advance the clock before the data count: until now they were missing, maybe in a stall. */
	playout_advance(p, now);
	p->in_flight--;
	if (seq == PLAYOUT_INDEX) {
		p->indexing = false;
		return;
	}
	p->reading[seq % p->cfg.slots] = false;
	while (p->base + p->have < p->next && !p->reading[(p->base + p->have) % p->cfg.slots])
		p->have++;
	settle(p, now);
}

uint64_t playout_next_event(const struct playout *p, uint64_t now)
{
	uint64_t event, room;

	if (p->state != PLAYOUT_PLAYING)
		return PLAYOUT_NEVER;
	event = p->since + time_for(p, limit(p) - p->pos);
	if (p->have < p->chunks)
		event++;
	if (p->next - oldest(p, now) >= p->cfg.slots) {
		uint64_t edge = (playout_position(p, now) / p->cfg.chunk + 1) * p->cfg.chunk;

		room = p->since + time_for(p, edge - p->pos);
		event = min_u64(event, room);
	}
	return event;
}

void playout_get_stats(const struct playout *p, uint64_t now, struct playout_stats *s)
{
	uint64_t kept = min_u64(p->ended, PLAYOUT_RECENT_MAX);

	memset(s, 0, sizeof(*s));
	s->state = p->state;
	s->stalls = p->stalls;
	s->stall_ns = p->stall_ns;
	s->worst_ns = p->worst_ns;
	s->movies = p->movies;
	s->start_ns = p->start_ns;
	s->buffered = bytes_of(p, p->have) - playout_position(p, now);
	for (uint64_t i = 0; i < kept; i++)
		if (now - p->ends[i] < PLAYOUT_RECENT_NS)
			s->recent++;
	if (p->state == PLAYOUT_BUFFERING) {
		uint64_t ns = now - p->since;

		s->stall_ns += ns;
		s->worst_ns = max_u64(s->worst_ns, ns);
		s->recent++;
	}
	if (p->state == PLAYOUT_PREROLL)
		s->start_ns = max_u64(s->start_ns, now - p->since);
}

const char *playout_state_name(enum playout_state state)
{
	switch (state) {
	case PLAYOUT_PREROLL:
		return "pre-roll";
	case PLAYOUT_PLAYING:
		return "playing";
	case PLAYOUT_BUFFERING:
		return "buffering";
	}
	return "?";
}
