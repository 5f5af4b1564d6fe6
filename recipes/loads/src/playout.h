/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The player's logic without I/O and without a clock of its own: which chunk
 * to read next, where play-out stands, and what counts as a stall. Time comes
 * in as nanoseconds of any monotonic clock and must not go back.
 */
#ifndef EK_PLAYOUT_H
#define EK_PLAYOUT_H

#include <stdbool.h>
#include <stdint.h>

#define PLAYOUT_NEVER		UINT64_MAX
/* names index reads; not the largest, which liburing keeps for timeouts */
#define PLAYOUT_INDEX		(UINT64_MAX - 1)
/* keeps (bytes % rate) * 10^9 inside 64 bits */
#define PLAYOUT_MAX_RATE	UINT64_C(10000000000)
#define PLAYOUT_RECENT_NS	UINT64_C(10000000000)
/* stalls remembered for the count of recent ones; beyond, the count saturates */
#define PLAYOUT_RECENT_MAX	128

enum playout_state {
	PLAYOUT_PREROLL,	/* filling the buffer before a movie starts */
	PLAYOUT_PLAYING,
	PLAYOUT_BUFFERING,	/* ran dry: a stall is going on */
};

struct playout_cfg {
	uint64_t rate;		/* play-out speed, bytes per second */
	uint64_t chunk;		/* one read, bytes */
	uint64_t slots;		/* chunks that the buffer holds */
	uint64_t movie;		/* bytes in one movie; its last chunk may be short */
	uint64_t preroll;	/* bytes buffered before a movie starts */
	uint64_t rebuffer;	/* bytes buffered before play resumes after a stall */
	uint64_t movies;	/* to play, 0: without end; nothing is read beyond the last */
	uint64_t index_every;	/* chunks from one index read to the next, 0: none */
	unsigned int depth;	/* reads outstanding at most */
};

struct playout_read {
	uint64_t seq;		/* names the read in playout_done(); PLAYOUT_INDEX: the index */
	uint64_t slot;		/* where in the buffer it goes */
	uint64_t movie;		/* which movie since the start, from 0 */
	uint64_t chunk;		/* which chunk of that movie; which of its index reads */
	uint64_t bytes;		/* of the movie that it brings */
};

struct playout_stats {
	enum playout_state state;
	uint64_t stalls;	/* begun, the one going on included */
	uint64_t stall_ns;	/* together, the one going on included */
	uint64_t worst_ns;
	uint64_t recent;	/* stalls that touch the last 10 s */
	uint64_t buffered;	/* bytes read and not yet played */
	uint64_t movies;	/* played to the end */
	uint64_t start_ns;	/* longest wait for a movie to start, the one going on included */
};

struct playout {
	struct playout_cfg cfg;
	uint64_t chunks;	/* in one movie */
	enum playout_state state;
	uint64_t since;		/* time at which position was `pos` and state began */
	uint64_t pos;		/* bytes of the movie played at `since` */
	uint64_t base;		/* sequence number of the movie's first chunk */
	uint64_t next;		/* sequence number of the next read */
	uint64_t have;		/* chunks read without a gap, from base */
	uint64_t movies;
	uint64_t index_at;	/* chunk of the movie that waits for the next index read */
	uint64_t indexed;	/* index reads of this movie */
	bool indexing;		/* one is outstanding: no chunk is read meanwhile */
	unsigned int in_flight;
	bool *reading;		/* per slot: a read into it is outstanding */
	uint64_t stalls;	/* ended or going on */
	uint64_t stall_ns;	/* of ended stalls */
	uint64_t worst_ns;	/* of ended stalls */
	uint64_t start_ns;	/* longest pre-roll that has ended */
	uint64_t ends[PLAYOUT_RECENT_MAX];	/* when the last stalls ended, a ring */
	uint64_t ended;		/* stalls ended: ends[] is written at ended % MAX */
};

/*
 * Returns NULL, or what is wrong with cfg in one sentence. *p is owned by the
 * caller; playout_free() releases what it points to.
 */
const char *playout_init(struct playout *p, const struct playout_cfg *cfg, uint64_t now);
void playout_free(struct playout *p);
/* The clock starts now; before any read. */
void playout_restart(struct playout *p, uint64_t now);

/* Moves the play-out clock to now: a stall or the movie's end may lie behind it. */
void playout_advance(struct playout *p, uint64_t now);

/*
 * The next read to submit, if the buffer has room and fewer than depth reads
 * are outstanding.
 * With index_every, a movie's container index is consulted
 * before its first chunk and before each index_every-th after it, and as a
 * player cannot know where the next chunk is until then, no chunk is asked for
 * while an index read is outstanding. Reading ahead does not stop at the movie's end (it goes on
 * with its beginning): what the viewer picks next is not known.
 */
bool playout_next_read(struct playout *p, uint64_t now, struct playout_read *r);

/* The read seq has arrived in full at now; in any order. */
void playout_done(struct playout *p, uint64_t seq, uint64_t now);

/*
 * When something changes with no read arriving: the movie's end, a stall, or
 * room for the next read. PLAYOUT_NEVER if nothing does.
 */
uint64_t playout_next_event(const struct playout *p, uint64_t now);

/* Bytes of the movie played at now. */
uint64_t playout_position(const struct playout *p, uint64_t now);

void playout_get_stats(const struct playout *p, uint64_t now, struct playout_stats *s);
const char *playout_state_name(enum playout_state state);

#endif
