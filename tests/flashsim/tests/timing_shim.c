// SPDX-License-Identifier: GPL-2.0-only
/* The timing model as a library for test_timing.py: it runs open or closed loops of requests. */
#include <stdlib.h>

#include "../src/flashsim_timing.h"

struct shim_io {
	u64 arrive, begin, done;
	u64 sector;
	u32 bytes;
	u32 op;
	u32 fua;
	u32 channel;
	u32 order;		/* position in the order of completion */
	u64 part[EK_FS_PARTS];
};

static int shim_params(struct ek_flash_params *p, const char *preset, const char *set, char *why,
		       size_t size)
{
	int error = ek_flash_preset(p, preset, why, size);

	if (!error)
		error = ek_flash_set(p, set, why, size);
	return error ? error : ek_flash_check(p, why, size);
}

int shim_check(const char *preset, const char *set, char *why, u32 size);
int shim_check(const char *preset, const char *set, char *why, u32 size)
{
	struct ek_flash_params p;

	return shim_params(&p, preset, set, why, size);
}

/* Print the value of a parameter; returns its length, or -1. */
int shim_show(const char *preset, const char *set, const char *name, char *buf, u32 size);
int shim_show(const char *preset, const char *set, const char *name, char *buf, u32 size)
{
	struct ek_flash_params p;
	u32 i;

	if (shim_params(&p, preset, set, buf, size))
		return -1;
	for (i = 0; i < ek_fs_nr_params; i++)
		if (!strcmp(ek_fs_params[i].name, name))
			return (int)ek_flash_show(&p, &ek_fs_params[i], buf, size);
	return -1;
}

const char *shim_preset_name(u32 i);
const char *shim_preset_name(u32 i)
{
	return i < ek_fs_nr_presets ? ek_fs_presets[i].name : NULL;
}

const char *shim_param_name(u32 i);
const char *shim_param_name(u32 i)
{
	return i < ek_fs_nr_params ? ek_fs_params[i].name : NULL;
}

const char *shim_part_name(u32 i);
const char *shim_part_name(u32 i)
{
	return i < EK_FS_PARTS ? ek_fs_part_names[i] : NULL;
}

/* Print the value of a parameter in effect, see ek_flash_age(); returns its length, or -1. */
int shim_show_aged(const char *preset, const char *set, const char *name, char *buf, u32 size);
int shim_show_aged(const char *preset, const char *set, const char *name, char *buf, u32 size)
{
	const struct ek_fs_param *param = ek_flash_param(name);
	struct ek_flash_params p;

	if (!param || shim_params(&p, preset, set, buf, size))
		return -1;
	ek_flash_age(&p);
	return (int)ek_flash_show(&p, param, buf, size);
}

/* 1: the host waits before it sends @op; 2: until it is done; 3: both */
int shim_waits(const char *preset, const char *set, u32 op);
int shim_waits(const char *preset, const char *set, u32 op)
{
	struct ek_flash_params p;
	char why[1024];

	if (shim_params(&p, preset, set, why, sizeof(why)))
		return -1;
	return ek_flash_waits_before(&p, op) + 2 * ek_flash_waits_after(&p, op);
}

static void shim_submit(struct ek_flash *dev, struct ek_flash_req *req, struct shim_io *io, u64 now)
{
	req->sector = io->sector;
	req->bytes = io->bytes;
	req->op = (u8)io->op;
	req->fua = io->fua;
	io->arrive = now;
	ek_flash_submit(dev, req, now);
}

/*
 * Run @n requests: first those of a closed loop, then @planned of an open loop.
 *
 * Closed loop: a request is submitted as soon as fewer than @qd are in the device,
 * @think ns after the completion that made room. Open loop: each request is
 * submitted at its arrive time; these must not decrease. If there is a closed loop,
 * the run ends with it, and the rest of the open loop is not done.
 *
 * @late: the delay in ns with which the host reaps.
 * Returns the number of completed requests, or -1 with the reason in @why.
 */
int shim_run(const char *preset, const char *set, struct shim_io *io, u32 n, u32 planned, u32 qd,
	     u64 think, u64 late, struct ek_fs_totals *totals, char *why, u32 size);
int shim_run(const char *preset, const char *set, struct shim_io *io, u32 n, u32 planned, u32 qd,
	     u64 think, u64 late, struct ek_fs_totals *totals, char *why, u32 size)
{
	struct ek_flash_req *reqs = calloc(n ? n : 1, sizeof(*reqs)), *req;
	u32 closed = n - planned, sent = 0, opened = closed, inside = 0, left = closed ? closed : n;
	struct ek_flash_params p;
	struct ek_flash *dev;
	u64 now = 0, ready = 0;
	u32 done = 0, i;

	if (shim_params(&p, preset, set, why, size)) {
		free(reqs);
		return -1;
	}
	dev = malloc(ek_flash_bytes(&p));
	ek_flash_init(dev, &p, 0);
	while (left) {
		bool room = sent < closed && inside < qd;
		u64 next = ek_flash_next(dev), at = room ? max(now, ready) : EK_FS_NEVER;

		if (opened < n && io[opened].arrive < at && io[opened].arrive <= next) {
			now = io[opened].arrive;
			shim_submit(dev, &reqs[opened], &io[opened], now);
			opened++;
			continue;
		}
		if (room && at <= next) {
			now = at;
			shim_submit(dev, &reqs[sent], &io[sent], now);
			sent++;
			inside++;
			continue;
		}
		if (next == EK_FS_NEVER) {
			scnprintf(why, size, "stuck after %u of %u", done, n);
			break;
		}
		if (opened < n)
			at = min(at, io[opened].arrive);
		now = max(now, next + late);
		if (at != EK_FS_NEVER)
			now = min(now, max(next, at));
		while ((req = ek_flash_reap(dev, now))) {
			/* reaping at the time of ek_flash_next() finds each request on time */
			if (!late && req->done != now) {
				scnprintf(why, size, "done at %llu, but ek_flash_next() was %llu",
					  (unsigned long long)req->done, (unsigned long long)now);
				left = 0;
				done = 0;
				break;
			}
			i = (u32)(req - reqs);
			io[i].begin = req->begin;
			io[i].done = req->done;
			io[i].channel = req->channel;
			io[i].order = done++;
			memcpy(io[i].part, req->part, sizeof(io[i].part));
			if (i < closed) {
				inside--;
				ready = now + think;
			}
			left -= i < closed || !closed;
		}
	}
	*totals = dev->totals;
	totals->reserve_left = dev->reserve;
	totals->slc_left = dev->slc;
	free(dev);
	free(reqs);
	return left ? -1 : (int)done;
}
