/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The timing of a flash device, a disk or a bare link: a discrete-event model
 * that reserves links, channels and dies. It uses no locks, no clock and no
 * kernel state, so the same code also runs in user space, where property tests
 * check it.
 *
 * Time is in nanoseconds (u64). The caller submits requests with their time of
 * arrival and asks for those that are done. Times must not run backwards. The
 * model does not read the caller's clock. So a caller that is late (a timer, a
 * busy CPU) does not make the device slower.
 *
 * The life of a request, and the parts of its time:
 *
 *   arrive -> QUEUE, ERASE, BACKGROUND -> [slot] -> LINK_WAIT (command path) -> CMD -> MAP ->
 *   read:  DIE_WAIT, GC -> CELL -> RETRY -> CHANNEL -> LINK_WAIT -> LINK -> done
 *   write: BUFFER_WAIT, GC -> LINK_WAIT -> LINK -> done, programmed later
 *   write through: LINK_WAIT -> LINK -> DIE_WAIT, GC -> CHANNEL -> CELL -> done
 *   discard: ERASE -> done
 *   disk:  SEEK -> ROTATE -> CHANNEL (medium) -> LINK -> done
 *
 * THROTTLE is the time by which a hot device takes longer for CMD and LINK.
 *
 * A request with several flash operations is done when its last operation is done.
 * Its parts are those of this critical path, so they sum up to the total time.
 *
 * All variation comes from a generator with the seed of the parameters, and is
 * drawn in the order of the model's events. So equal parameters, seeds and
 * requests give equal times.
 */
#ifndef FLASHSIM_TIMING_H
#define FLASHSIM_TIMING_H

#ifdef __KERNEL__
#include <linux/kernel.h>
#include <linux/limits.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/string.h>
#include <linux/types.h>
#else
#include "user_space.h"
#endif

#define EK_FS_NEVER	U64_MAX

#define EK_FS_CHANNELS	16
#define EK_FS_DIES	16	/* per channel */
#define EK_FS_REGIONS	64
/* most separate reservations of a link or channel; beyond this, the earliest gap is dropped */
#define EK_FS_SPANS	32

enum ek_fs_kind { EK_FS_FLASH, EK_FS_DISK, EK_FS_LINK_ONLY };
enum ek_fs_map { EK_FS_STRIPE, EK_FS_RANGES };
enum ek_fs_op { EK_FS_READ, EK_FS_WRITE, EK_FS_FLUSH, EK_FS_DISCARD };

/*
 * The parameters. flashsim_params.c has their limits, defaults and meaning.
 * kb and mb are binary (1024, 1048576 B), mbps is 10^6 B/s as in data sheets.
 */
struct ek_flash_params {
	u32 kind;
	u32 capacity_mb;
	u32 logical_block;
	u32 depth;
	u32 active;
	u32 hw_queues;
	u32 blocking;
	u32 max_kb;
	u32 link_read_mbps;
	u32 link_write_mbps;
	u32 link_duplex;
	u32 cmd_us;
	u32 cmd_write_us;
	u32 channels;
	u32 dies;
	u32 planes;
	u32 page_kb;
	u32 t_r_us;
	u32 t_prog_us;
	u32 t_erase_us;
	u32 block_pages;
	u32 channel_mbps;
	u32 chunk_kb;
	u32 map;
	u32 map_miss_us;
	u32 map_cache;
	u32 map_region_mb;
	u32 buffer_kb;
	u32 fua;
	u32 suspend_us;
	u32 slc_kb;
	u32 t_prog_slc_us;
	u32 slc_refill_kbps;
	u32 gc_after_kb;
	u32 gc_valid_pct;
	u32 spare_pct;
	u32 wear_pct;
	u32 full_pct;
	u32 retry_in;
	u32 retry_most;
	u32 flush_us;
	u32 discard_us;
	u32 discard_group_kb;
	u32 discard_group_us;
	u32 discard_exclusive;
	u32 bg_after_kb;
	u32 bg_ms;
	u32 bg_idle_ms;
	u32 bg_stop_us;
	u32 bg_most;
	u32 heat_mb;
	u32 heat_cool_mbps;
	u32 heat_pct;
	u32 jitter_pct;
	u32 jitter_tail_in;
	u32 jitter_tail_x;
	u32 rpm;
	u32 seek_min_us;
	u32 seek_max_us;
	u32 track_mbps;
	u32 regions;
	u32 memory_backed;
	u32 timeout_ms;
	u32 seed;
};

struct ek_fs_param {
	const char *name;
	u32 least, most, dfl;
	const char *words;	/* names of the values from 0 on, or NULL */
	const char *about;
	size_t offset;
};

struct ek_fs_preset {
	const char *name;
	const char *about;
	const char *pairs[24];	/* arguments for ek_flash_set() */
};

extern const struct ek_fs_param ek_fs_params[];
extern const u32 ek_fs_nr_params;
extern const struct ek_fs_preset ek_fs_presets[];
extern const u32 ek_fs_nr_presets;
extern const char * const ek_fs_part_names[];

/* the parts of a request's time */
enum ek_fs_part {
	EK_FS_QUEUE,		/* in the device, not begun; without ERASE and BACKGROUND */
	EK_FS_LINK_WAIT,	/* waiting for the command path or the link */
	EK_FS_CMD,		/* command work; also an injected hang */
	EK_FS_LINK,		/* data transfer on the link */
	EK_FS_DIE_WAIT,		/* waiting for a busy die */
	EK_FS_CELL,		/* read or program of cells */
	EK_FS_CHANNEL,		/* waiting for the channel and transfer on it; disk: medium */
	EK_FS_BUFFER_WAIT,	/* waiting for room in the write buffer; flush: until it is empty */
	EK_FS_GC,		/* waiting for garbage collection */
	EK_FS_SEEK,
	EK_FS_ROTATE,
	EK_FS_MAP,		/* read of the mapping table */
	EK_FS_RETRY,		/* further reads of the same cells */
	EK_FS_ERASE,		/* discard: its work; others: wait for an exclusive discard */
	EK_FS_BACKGROUND,	/* waiting for housekeeping */
	EK_FS_THROTTLE,		/* additional time of commands and transfers of a hot device */
	EK_FS_PARTS,
};

/* why the device begins no command for a while */
enum ek_fs_holder { EK_FS_HELD_ERASE, EK_FS_HELD_BACKGROUND, EK_FS_HOLDERS };

/* One sequence of random numbers for each purpose: using one does not shift the others. */
enum ek_fs_draw { EK_FS_DRAW_TIME, EK_FS_DRAW_RETRY, EK_FS_DRAWS };

enum ek_fs_state {
	EK_FS_IDLE,		/* not in the device */
	EK_FS_QUEUED,		/* waits for a slot */
	EK_FS_STALLED,		/* has a slot, waits for the buffer */
	EK_FS_RUNNING,		/* has a slot, will be done at a known time */
	EK_FS_FINISHED,		/* done, not reaped */
};

/* A request. The caller sets sector, bytes, op, fua. begin, done and part are valid once reaped. */
struct ek_flash_req {
	struct ek_flash_req *prev, *next;
	u64 sector;		/* of 512 bytes */
	u32 bytes;
	u8 op;			/* enum ek_fs_op */
	bool fua;
	bool hung;		/* the injected hang (ek_flash.hang) hit this request */
	u8 state;
	u8 channel;		/* of the first byte */
	u64 arrive;
	u64 begin;		/* when it left the queue; 0: it did not */
	u64 done;
	u64 stalled;		/* when it began to wait for the buffer */
	u64 held[EK_FS_HOLDERS];	/* the part of ek_flash.held before it arrived */
	u64 part[EK_FS_PARTS];
};

struct ek_fs_list {
	struct ek_flash_req *head, *tail;
};

/* Reserved times of a link or channel that are not over, in order and with gaps: [head, tail). */
struct ek_fs_cal {
	u32 head, tail;
	struct {
		u64 from, to;
	} span[2 * EK_FS_SPANS];
};

/* the parts of one flash operation, from the end of the request's command on */
struct ek_fs_chain {
	u64 link, wait, gc, channel, cell, retry;
};

struct ek_fs_die {
	u64 free;		/* end of all planned operations */
	u64 prog_from, prog_end; /* while @releasing: when the buffered program begins and ends */
	u64 read_free;		/* end of the reads for which the program is suspended */
	u64 gc_from, gc_to;	/* last garbage collection */
	u32 releasing;		/* bytes that the buffered program will free; 0: none runs */
	u32 suspends;		/* how often the buffered program was suspended */
	u64 debt;		/* bytes programmed since the last collection */
	bool last_read;		/* the last planned operation is a read */
	u32 owner;		/* serial of the request with the last planned operation */
	struct ek_fs_chain chain; /* parts of that operation */
};

struct ek_fs_chan {
	struct ek_fs_cal cal;
	u64 busy;		/* ns of transfers, statistics */
	u64 open;		/* bytes in the page that is being filled */
	u64 open_ready;		/* when the last of these bytes arrives */
	u32 head, tail;		/* list of pages to program: indices in ops + 1, 0: none */
	u64 event;		/* next begin or end of a program, unless stale */
	bool stale;
	u32 next_die;		/* where to begin the search for a free die */
	struct ek_fs_die die[EK_FS_DIES];
};

/* a page in the buffer that waits to be programmed */
struct ek_fs_page_op {
	u64 ready;
	u32 bytes;
	u32 next;		/* index + 1 */
};

struct ek_fs_totals {
	u64 gc_pauses, gc_ns;
	u64 flushes;
	u64 buffer_stalls, buffer_stall_ns;
	u64 suspends;
	u64 map_misses;
	u64 reserve_left, slc_left;
	u64 retries;		/* additional reads of a page */
	u64 discards, erase_ns;
	u64 background_ns;	/* housekeeping, whether or not a request waited for it */
	u64 throttles;		/* how often the device became hot */
	u32 max_queue;		/* most requests in the device at once */
};

struct ek_flash {
	struct ek_flash_params p;	/* with the effects of wear_pct and full_pct */
	u64 now;		/* last event */

	/* requests */
	struct ek_fs_list queue, running, finished;
	struct ek_flash_req *stalled;	/* at most one; no write begins while there is one */
	u32 inside;		/* requests in the device */
	u32 passing;		/* queued requests that may pass a stalled one */
	u32 slots;		/* commands that could begin now */
	u32 serial;		/* number of the request that began last */
	u64 hang;		/* ns for which the next command will hang */

	/* variation */
	u64 random[EK_FS_DRAWS];
	u64 jitter_low, jitter_span;	/* factor outside the tail: least, and range; in 1 / 2^20 */
	u32 tail_below;		/* random numbers below this value are in the tail */

	/* what holds up new commands */
	u64 hold_to;		/* no command begins before this time */
	enum ek_fs_holder holder;
	u64 held[EK_FS_HOLDERS];	/* sum of all holds, ns; a current one counts to its end */
	u64 wake;		/* hold_to, if a request waits for it; otherwise EK_FS_NEVER */
	u64 bg_bytes;		/* written since housekeeping last became due */
	u64 bg_work;		/* ns of housekeeping that is due */

	/* heat, in bytes transferred; heat_at: time up to which cooling is computed */
	u64 heat, heat_at;
	bool hot;
	u32 mbps[2];		/* the link's rates now, [read, write] */

	/* link */
	u64 cmd_free;		/* when the command path is free */
	struct ek_fs_cal link[2];	/* link_duplex: [read, write]; otherwise [0] for both */

	/* flash */
	u64 chunk, unit, op_bytes, range;	/* in bytes; unit: one page of each plane */
	u64 gc_gain, gc_pause;	/* bytes that a collection frees, and its duration in ns */
	u64 reserve, slc;	/* bytes left before collections begin, and in the fast cache */
	u64 buffered;		/* bytes in the buffer */
	u64 releasing;		/* buffered bytes that are being programmed */
	u64 freed_gc_from, freed_gc_to;	/* collection before the last program that freed bytes */
	u32 pending, programming;	/* pages that wait; dies that program */
	bool stale;		/* event must be computed again, as in ek_fs_chan */
	u64 event;		/* next begin or end of a program on any channel */
	u64 idle_since;
	u32 free_op;		/* first unused element of ops: index + 1 */
	u32 nr_ops;

	/* disk */
	u64 rev, track_bytes, tracks, track;
	u64 stream_pos, stream_t;	/* the medium passed stream_pos at stream_t */
	u8 stream_op;
	u64 pick;		/* when the disk chooses its next request */

	struct ek_fs_totals totals;
	u32 map_tag[4096];	/* for each line of the mapping cache: its region + 1 */
	struct ek_fs_chan chan[EK_FS_CHANNELS];
	struct ek_fs_page_op ops[];
};

const struct ek_fs_param *ek_flash_param(const char *name);

/* Parameters. Each function returns 0, or -EINVAL with one line in why that says what is wrong. */
int ek_flash_preset(struct ek_flash_params *p, const char *name, char *why, size_t size);
int ek_flash_set(struct ek_flash_params *p, const char *pairs, char *why, size_t size);
int ek_flash_set_one(struct ek_flash_params *p, const struct ek_fs_param *param, const char *value,
		     char *why, size_t size);
int ek_flash_check(const struct ek_flash_params *p, char *why, size_t size);
/* Apply wear_pct and full_pct to @p, once: ek_flash_init() does this to its copy. */
void ek_flash_age(struct ek_flash_params *p);
size_t ek_flash_show(const struct ek_flash_params *p, const struct ek_fs_param *param, char *buf,
		     size_t size);

/* A device: allocate ek_flash_bytes(), then call ek_flash_init(). */
size_t ek_flash_bytes(const struct ek_flash_params *p);
void ek_flash_init(struct ek_flash *dev, const struct ek_flash_params *p, u64 now);
void ek_flash_submit(struct ek_flash *dev, struct ek_flash_req *req, u64 now);
struct ek_flash_req *ek_flash_reap(struct ek_flash *dev, u64 now);
u64 ek_flash_next(struct ek_flash *dev);
bool ek_flash_abort(struct ek_flash *dev, struct ek_flash_req *req, u64 now);
struct ek_flash_req *ek_flash_hung(struct ek_flash *dev);
struct ek_flash_req *ek_flash_take(struct ek_flash *dev);
bool ek_flash_waits_before(const struct ek_flash_params *p, enum ek_fs_op op);
bool ek_flash_waits_after(const struct ek_flash_params *p, enum ek_fs_op op);
bool ek_flash_completes_later(const struct ek_flash_params *p);
u32 ek_flash_region(const struct ek_flash_params *p, u64 sector);

#endif /* FLASHSIM_TIMING_H */
