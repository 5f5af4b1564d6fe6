/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The player's logic, without I/O and without a clock of its own: which chunk to
 * read next, the play-out position, and what counts as a stall. Callers pass the
 * time in ns of any monotonic clock; it must not go back.
 */
#ifndef EK_PLAYOUT_H
#define EK_PLAYOUT_H

#include <stdbool.h>
#include <stdint.h>

#define PLAYOUT_NEVER		UINT64_MAX
/* sequence number of index reads; liburing uses UINT64_MAX for timeouts */
#define PLAYOUT_INDEX		(UINT64_MAX - 1)
/* so that (bytes % rate) * 10^9 fits into 64 bits */
#define PLAYOUT_MAX_RATE	UINT64_C(10000000000)
#define PLAYOUT_RECENT_NS	UINT64_C(10000000000)
/* the count of recent stalls does not go beyond this */
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
	uint64_t movies;	/* movies to play, 0: no limit; nothing is read after the last one */
	uint64_t index_every;	/* chunks from one index read to the next; 0: no index reads */
	unsigned int depth;	/* reads in flight at most */
};

struct playout_read {
	uint64_t seq;		/* to be passed to playout_done(); PLAYOUT_INDEX: an index read */
	uint64_t slot;		/* place of the chunk in the buffer */
	uint64_t movie;		/* movie that plays when the read begins; the first has 0 */
	uint64_t chunk;		/* number of the chunk, or of the index read, in its movie */
	uint64_t bytes;		/* bytes of the movie that it reads; 0: an index read */
};

struct playout_stats {
	enum playout_state state;
	uint64_t stalls;	/* including the current one */
	uint64_t stall_ns;	/* in all stalls, including the current one */
	uint64_t worst_ns;	/* longest stall */
	uint64_t recent;	/* stalls in the last 10 s, even if they began earlier */
	uint64_t buffered;	/* bytes that were read, but not yet played */
	uint64_t movies;	/* played to the end */
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
	uint64_t have;		/* chunks from base on that were read, without a gap */
	uint64_t movies;
	uint64_t index_at;	/* chunk before which the next index read is due */
	uint64_t indexed;	/* index reads of this movie */
	bool indexing;		/* an index read is in flight: no chunk is read meanwhile */
	unsigned int in_flight;
	bool *reading;		/* per slot: a read into it is in flight */
	uint64_t stalls;	/* including the current one */
	uint64_t stall_ns;	/* of ended stalls */
	uint64_t worst_ns;	/* of ended stalls */
	uint64_t start_ns;	/* longest completed pre-roll */
	uint64_t ends[PLAYOUT_RECENT_MAX];	/* when the last stalls ended; a ring buffer */
	uint64_t ended;		/* number of ended stalls; the next goes to ends[ended % MAX] */
};

/*
 * Returns NULL, or one sentence that says what is wrong with cfg. The caller owns
 * *p; playout_free() releases the memory that it points to.
 */
const char *playout_init(struct playout *p, const struct playout_cfg *cfg, uint64_t now);
void playout_free(struct playout *p);
/* Starts the clock again, at now. To be called before any read. */
void playout_restart(struct playout *p, uint64_t now);

/* Moves the play-out clock to now, which may begin a stall or end the movie. */
void playout_advance(struct playout *p, uint64_t now);

/*
 * Returns true and the next read to submit, if the buffer has room and fewer than
 * depth reads are in flight.
 *
 * With index_every, the player reads the movie's container index before the first
 * chunk and after each index_every chunks. A player cannot know where the next chunk
 * is before it has read the index. So no chunk is read while an index read is in
 * flight.
 *
 * Reading ahead does not stop at the movie's end, because the player does not know
 * what the viewer will choose next. It goes on with the movie's beginning.
 */
bool playout_next_read(struct playout *p, uint64_t now, struct playout_read *r);

/* The read seq has completed in full at now. Reads may complete in any order. */
void playout_done(struct playout *p, uint64_t seq, uint64_t now);

/*
 * The next time at which the state changes even if no read completes: the movie's
 * end, a stall, or room for the next read. PLAYOUT_NEVER if there is none.
 */
uint64_t playout_next_event(const struct playout *p, uint64_t now);

/* The play-out position at now: bytes of the movie that were played. */
uint64_t playout_position(const struct playout *p, uint64_t now);

void playout_get_stats(const struct playout *p, uint64_t now, struct playout_stats *s);
const char *playout_state_name(enum playout_state state);

#endif
