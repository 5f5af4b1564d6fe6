/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The player's logic, without I/O and without a clock of its own: which chunk to
 * read next, the play-out position, and what counts as a stall. Callers pass the
 * current time in ns. It may come from any clock that never goes back.
 */
#ifndef EK_PLAYOUT_H
#define EK_PLAYOUT_H

#include <stdbool.h>
#include <stdint.h>

#define PLAYOUT_NEVER		UINT64_MAX
/* sequence number of every index read; liburing already uses UINT64_MAX, for timeouts */
#define PLAYOUT_INDEX		(UINT64_MAX - 1)
/* largest rate, bytes per second: with it, (bytes % rate) * 10^9 fits into 64 bits */
#define PLAYOUT_MAX_RATE	UINT64_C(10000000000)
/* a stall is recent for 10 s after its end */
#define PLAYOUT_RECENT_NS	UINT64_C(10000000000)
/* number of ended stalls that are remembered, so at most this many of them count as recent */
#define PLAYOUT_RECENT_MAX	128

enum playout_state {
	PLAYOUT_PREROLL,	/* filling the buffer before a movie starts */
	PLAYOUT_PLAYING,
	PLAYOUT_BUFFERING,	/* a stall: the buffer ran empty */
};

struct playout_cfg {
	uint64_t rate;		/* play-out speed, bytes per second */
	uint64_t chunk;		/* one read, bytes */
	uint64_t slots;		/* size of the buffer, in chunks */
	uint64_t movie;		/* bytes of one movie; its last chunk may be shorter */
	uint64_t preroll;	/* bytes buffered before a movie starts */
	uint64_t rebuffer;	/* bytes buffered before play resumes after a stall */
	uint64_t movies;	/* movies to play, 0: no limit; no read goes beyond the last movie */
	uint64_t index_every;	/* chunks from one index read to the next; 0: no index reads */
	unsigned int depth;	/* largest number of reads in flight */
};

struct playout_read {
	uint64_t seq;		/* number for playout_done(); PLAYOUT_INDEX: an index read */
	uint64_t slot;		/* slot of the buffer for the chunk */
	uint64_t movie;		/* number of the movie that plays when the read begins, from 0 on */
	uint64_t chunk;		/* number of the chunk, or of the index read, in its movie */
	uint64_t bytes;		/* bytes of the movie to read; 0: an index read */
};

struct playout_stats {
	enum playout_state state;
	uint64_t stalls;	/* including the current one */
	uint64_t stall_ns;	/* total time of all stalls, including the current one */
	uint64_t worst_ns;	/* longest stall, including the current one */
	uint64_t recent;	/* stalls that ended in the last 10 s, and the current one */
	uint64_t buffered;	/* bytes that were read, but not yet played */
	uint64_t movies;	/* movies played to the end */
	uint64_t start_ns;	/* longest pre-roll, including the current one */
};

struct playout {
	struct playout_cfg cfg;
	uint64_t chunks;	/* in one movie */
	enum playout_state state;
	uint64_t since;		/* when the state began; the position was `pos` then */
	uint64_t pos;		/* bytes of the movie played at `since` */
	uint64_t base;		/* sequence number of the movie's first chunk */
	uint64_t next;		/* sequence number of the next read */
	uint64_t have;		/* number of consecutive chunks from base on that were read */
	uint64_t movies;	/* movies played to the end */
	uint64_t index_at;	/* number of the chunk before which the next index read is due */
	uint64_t indexed;	/* number of index reads of this movie */
	bool indexing;		/* an index read is in flight; until it completes, no read begins */
	unsigned int in_flight;
	bool *reading;		/* per slot: a read into it is in flight */
	uint64_t stalls;	/* including the current one */
	uint64_t stall_ns;	/* total time of ended stalls */
	uint64_t worst_ns;	/* longest ended stall */
	uint64_t start_ns;	/* longest completed pre-roll */
	uint64_t ends[PLAYOUT_RECENT_MAX];	/* when the last stalls ended; a ring buffer */
	uint64_t ended;		/* number of ended stalls; the next one goes to ends[ended % MAX] */
};

/*
 * Returns NULL, or one sentence that says what is wrong with cfg. The caller owns
 * *p; playout_free() releases the memory that it points to.
 */
const char *playout_init(struct playout *p, const struct playout_cfg *cfg, uint64_t now);
void playout_free(struct playout *p);
/* Lets the first pre-roll begin at now. Call it before the first read. */
void playout_restart(struct playout *p, uint64_t now);

/* Moves the play-out clock to now, which may begin a stall or end the movie. */
void playout_advance(struct playout *p, uint64_t now);

/*
 * Returns true and the next read to submit, if the buffer has room and fewer than
 * depth reads are in flight.
 *
 * If cfg.index_every is not 0, the player reads the movie's container index before the
 * first chunk, and again after each index_every chunks. A player cannot know where the
 * next chunk is before it has read the index. So no other read begins while an index
 * read is in flight.
 *
 * At the movie's end the player goes on reading ahead, from the movie's beginning. It
 * cannot know which movie the viewer will choose next.
 */
bool playout_next_read(struct playout *p, uint64_t now, struct playout_read *r);

/* Reports that read number seq returned all its bytes at now. Reads may complete in any order. */
void playout_done(struct playout *p, uint64_t seq, uint64_t now);

/*
 * The next time at which something happens even if no read completes: the movie ends, a
 * stall begins, or the buffer has room for the next read. PLAYOUT_NEVER if nothing will.
 */
uint64_t playout_next_event(const struct playout *p, uint64_t now);

/* The play-out position at now: the number of bytes of the movie that were played. */
uint64_t playout_position(const struct playout *p, uint64_t now);

void playout_get_stats(const struct playout *p, uint64_t now, struct playout_stats *s);
const char *playout_state_name(enum playout_state state);

#endif
