/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * How long a flash device, a disk or a bare link takes: a discrete-event model
 * with reservation arithmetic. No locks, no clock and no kernel state, so that
 * the same code runs in user space, where it is property-tested.
 *
 * Time is u64 nanoseconds. The caller hands in requests with the time at which
 * they arrive and asks for those that are done; times must not run backwards.
 * The model never looks at the caller's clock, so a caller that is late (a
 * timer, a busy CPU) does not make the device slower.
 *
 * The life of a request, and the parts that its time is made of:
 *
 *   arrive -> QUEUE -> [slot] -> LINK_WAIT (command path) -> CMD -> MAP ->
 *   read:  DIE_WAIT, GC -> CELL -> CHANNEL -> LINK_WAIT -> LINK -> done
 *   write: BUFFER_WAIT, GC -> LINK_WAIT -> LINK -> done, programmed later
 *   write through: LINK_WAIT -> LINK -> DIE_WAIT, GC -> CHANNEL -> CELL -> done
 *   disk:  SEEK -> ROTATE -> CHANNEL (medium) -> LINK -> done
 *
 * A request of several flash operations is as late as its latest one; the
 * parts are those of that critical path, so that they sum up to the total.
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
/* reservations that a link or a channel can hold apart; the earliest gap is given up when full */
#define EK_FS_SPANS	32

enum ek_fs_kind { EK_FS_FLASH, EK_FS_DISK, EK_FS_LINK_ONLY };
enum ek_fs_map { EK_FS_STRIPE, EK_FS_RANGES };
enum ek_fs_op { EK_FS_READ, EK_FS_WRITE, EK_FS_FLUSH, EK_FS_DISCARD };

/*
 * The parameters; flashsim_params.c has their limits, defaults and meaning.
 * kb and mb are binary (1024, 1048576 B), mbps is 10^6 B/s as datasheets have it.
 */
struct ek_flash_params {
	u32 kind;
	u32 capacity_mb;
	u32 logical_block;
	u32 depth;
	u32 active;
	u32 hw_queues;
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
	u32 flush_us;
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
	const char *pairs[16];	/* each as for ek_flash_set() */
};

extern const struct ek_fs_param ek_fs_params[];
extern const u32 ek_fs_nr_params;
extern const struct ek_fs_preset ek_fs_presets[];
extern const u32 ek_fs_nr_presets;

/* where the time of a request goes */
enum ek_fs_part {
	EK_FS_QUEUE,		/* in the device, not begun */
	EK_FS_LINK_WAIT,	/* for the command path or the link */
	EK_FS_CMD,		/* command work; also a hang that was asked for */
	EK_FS_LINK,		/* data on the link */
	EK_FS_DIE_WAIT,		/* for a die that others use */
	EK_FS_CELL,		/* read or program of cells */
	EK_FS_CHANNEL,		/* waiting for and moving on the channel; disk: medium */
	EK_FS_BUFFER_WAIT,	/* for room in the write buffer; flush: until it is empty */
	EK_FS_GC,		/* garbage collection in the way */
	EK_FS_SEEK,
	EK_FS_ROTATE,
	EK_FS_MAP,		/* mapping table read */
	EK_FS_PARTS,
};

enum ek_fs_state {
	EK_FS_IDLE,		/* not in the device */
	EK_FS_QUEUED,		/* waits for a slot */
	EK_FS_STALLED,		/* has a slot, waits for the buffer */
	EK_FS_RUNNING,		/* done at a known time */
	EK_FS_FINISHED,		/* to be reaped */
};

/* A request. The caller sets op to fua before it submits; done and part are valid when reaped. */
struct ek_flash_req {
	struct ek_flash_req *prev, *next;
	u64 sector;		/* of 512 bytes */
	u32 bytes;
	u8 op;			/* enum ek_fs_op */
	bool fua;
	bool hung;		/* it met ek_flash.hang */
	u8 state;
	u8 channel;		/* of the first byte */
	u64 arrive;
	u64 done;
	u64 stalled;		/* since when it waits for the buffer */
	u64 part[EK_FS_PARTS];
};

struct ek_fs_list {
	struct ek_flash_req *head, *tail;
};

/* busy times of a link or channel that are not yet over, in order, not touching: [head, tail) */
struct ek_fs_cal {
	u32 head, tail;
	struct {
		u64 from, to;
	} span[2 * EK_FS_SPANS];
};

/* the way of one flash operation, from the end of the request's command on */
struct ek_fs_chain {
	u64 link, wait, gc, channel, cell;
};

struct ek_fs_die {
	u64 free;		/* end of all that is planned */
	u64 prog_from, prog_end; /* of the buffered program under way, if releasing */
	u64 read_free;		/* end of the reads that it is suspended for */
	u64 gc_from, gc_to;	/* last garbage collection */
	u32 releasing;		/* bytes of the buffer that end with that program */
	u32 suspends;		/* of that program */
	u64 debt;		/* bytes programmed since the last collection */
	bool last_read;		/* the last thing planned is a read */
	u32 owner;		/* request whose operation is the last one planned */
	struct ek_fs_chain chain; /* of that operation */
};

struct ek_fs_chan {
	struct ek_fs_cal cal;
	u64 busy;		/* ns of transfers, statistics */
	u64 open;		/* bytes in the page that is being filled */
	u64 open_ready;		/* when the last of them arrives */
	u32 head, tail;		/* pages to program, indices of ops + 1 */
	u64 event;		/* next begin or end of a program, unless stale */
	bool stale;
	u32 next_die;
	struct ek_fs_die die[EK_FS_DIES];
};

/* a page in the buffer that is to be programmed */
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
	u32 max_queue;		/* most requests in the device at once */
};

struct ek_flash {
	struct ek_flash_params p;
	u64 now;		/* last event */

	/* requests */
	struct ek_fs_list queue, running, finished;
	struct ek_flash_req *stalled;	/* at most one; no write begins while there is one */
	u32 inside;		/* requests in the device */
	u32 passing;		/* queued ones that may pass a stalled write */
	u32 slots;		/* commands that could begin now */
	u32 serial;		/* of the request that was begun last */
	u64 hang;		/* ns that the next command is to hang */

	/* link */
	u64 cmd_free;
	struct ek_fs_cal link[2];	/* one each way if duplex, else the first */

	/* flash */
	u64 chunk, unit, op_bytes, range;	/* bytes; unit: all planes' pages */
	u64 gc_gain, gc_pause;	/* bytes that a collection frees and ns that it takes */
	u64 reserve, slc;	/* bytes left */
	u64 buffered;		/* bytes in the buffer */
	u64 releasing;		/* of these, bytes that are being programmed */
	u64 freed_gc_from, freed_gc_to;	/* collection before the program that freed some last */
	u32 pending, programming;	/* pages; dies */
	bool stale;		/* event must be found anew, as that of a channel */
	u64 event;		/* next begin or end of a program */
	u64 idle_since;
	u32 free_op;		/* index + 1 */
	u32 nr_ops;

	/* disk */
	u64 rev, track_bytes, tracks, track;
	u64 stream_pos, stream_t;	/* the medium passed stream_pos at stream_t */
	u8 stream_op;
	u64 pick;		/* when the next request is chosen */

	struct ek_fs_totals totals;
	u32 map_tag[4096];	/* mapping region + 1 that each line of the cache holds */
	struct ek_fs_chan chan[EK_FS_CHANNELS];
	struct ek_fs_page_op ops[];
};

const struct ek_fs_param *ek_flash_param(const char *name);

/* parameters; each returns 0 or -EINVAL with one line in why that names what and why */
int ek_flash_preset(struct ek_flash_params *p, const char *name, char *why, size_t size);
int ek_flash_set(struct ek_flash_params *p, const char *pairs, char *why, size_t size);
int ek_flash_set_one(struct ek_flash_params *p, const struct ek_fs_param *param, const char *value,
		     char *why, size_t size);
int ek_flash_check(const struct ek_flash_params *p, char *why, size_t size);
size_t ek_flash_show(const struct ek_flash_params *p, const struct ek_fs_param *param, char *buf,
		     size_t size);

/* a device: allocate ek_flash_bytes(), then init */
size_t ek_flash_bytes(const struct ek_flash_params *p);
void ek_flash_init(struct ek_flash *dev, const struct ek_flash_params *p, u64 now);
void ek_flash_submit(struct ek_flash *dev, struct ek_flash_req *req, u64 now);
struct ek_flash_req *ek_flash_reap(struct ek_flash *dev, u64 now);
u64 ek_flash_next(struct ek_flash *dev);
bool ek_flash_abort(struct ek_flash *dev, struct ek_flash_req *req, u64 now);
struct ek_flash_req *ek_flash_take(struct ek_flash *dev);
u32 ek_flash_region(const struct ek_flash_params *p, u64 sector);

#endif /* FLASHSIM_TIMING_H */
