// SPDX-License-Identifier: GPL-2.0-only
/* The devices of ek-sim: see device.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "device.h"
#include "flashsim_timing.h"

/* sim_device_fill() writes at most this much: a measurement uses up no larger reserve. */
#define SIM_FILL_MOST_KB	(2U << 20)

/* Servers behind a link: see device.h. */
struct station {
	u32 depth, servers, max_kb;
	/* ns by direction: per command; per KiB in a server; per KiB on the link */
	u64 cmd[2], kb[2], link[2];
	u64 link_free;		/* when the link is free, ns */
	u64 *busy;		/* heap: when each server is free, ns */
	struct sim_cmd **run;	/* heap of the commands in the station, by @done */
	u32 nr, room;		/* number of commands in @run; its size */
};

struct sim_device {
	struct ek_flash *flash;
	struct station st;
};

/* The number after "@key=" in @spec, or @dfl. */
static u32 station_number(const char *spec, const char *key, u32 dfl)
{
	char name[40];
	const char *at;

	snprintf(name, sizeof(name), "%s=", key);
	at = strstr(spec, name);
	while (at && at != spec && at[-1] != ',')
		at = strstr(at + 1, name);
	return at ? (u32)strtoul(at + strlen(name), NULL, 10) : dfl;
}

static int station_init(struct station *s, const char *spec, char *why, size_t size)
{
	static const char * const dir[] = { "r", "w" };
	char name[40];
	int i;

	s->depth = station_number(spec, "depth", 32);
	s->servers = station_number(spec, "servers", 1);
	s->max_kb = station_number(spec, "max_kb", 512);
	for (i = 0; i < 2; i++) {
		snprintf(name, sizeof(name), "cmd_%s_ns", dir[i]);
		s->cmd[i] = station_number(spec, name, 100000);
		snprintf(name, sizeof(name), "kb_%s_ns", dir[i]);
		s->kb[i] = station_number(spec, name, 0);
		snprintf(name, sizeof(name), "link_%s_ns", dir[i]);
		s->link[i] = station_number(spec, name, 0);
	}
	if (!s->depth || s->depth > 65536 || !s->servers || s->servers > 4096 || !s->max_kb) {
		snprintf(why, size, "station: depth 1-65536, servers 1-4096, max_kb from 1");
		return -1;
	}
	s->busy = calloc(s->servers, sizeof(*s->busy));
	return 0;
}

struct sim_device *sim_device_new(const char *spec, char *why, size_t size)
{
	struct sim_device *d = calloc(1, sizeof(*d));
	const char *colon = strchr(spec, ':'), *rest = colon ? colon + 1 : "";
	struct ek_flash_params p;
	char name[64];

	_Static_assert(sizeof(struct ek_flash_req) <= sizeof(((struct sim_cmd *)0)->model), "model");
	snprintf(name, sizeof(name), "%.*s", colon ? (int)(colon - spec) : (int)strlen(spec), spec);
	if (!strcmp(name, "station")) {
		if (!station_init(&d->st, rest, why, size))
			return d;
	} else if (!ek_flash_preset(&p, name, why, size) && !ek_flash_set(&p, rest, why, size) &&
		   !ek_flash_check(&p, why, size)) {
		d->flash = malloc(ek_flash_bytes(&p));
		ek_flash_init(d->flash, &p, 0);
		return d;
	}
	free(d);
	return NULL;
}

void sim_device_free(struct sim_device *d)
{
	free(d->flash);
	free(d->st.busy);
	free(d->st.run);
	free(d);
}

uint32_t sim_device_depth(const struct sim_device *d)
{
	return d->flash ? d->flash->p.depth : d->st.depth;
}

uint32_t sim_device_max_bytes(const struct sim_device *d)
{
	return (d->flash ? d->flash->p.max_kb : d->st.max_kb) << 10;
}

uint64_t sim_device_bytes(const struct sim_device *d)
{
	return d->flash ? (u64)d->flash->p.capacity_mb << 20 : 64ULL << 30;
}

/* When the server that is free first has done @work ns of work for a command of @now. */
static u64 station_server(struct station *s, u64 now, u64 work)
{
	u64 t = max(now, s->busy[0]) + work;

	return t;
}

/* This server is busy until @until: replace the root of the heap. */
static void station_server_set(struct station *s, u64 until)
{
	u32 i = 0, c;

	for (;;) {
		c = 2 * i + 1;
		if (c >= s->servers)
			break;
		if (c + 1 < s->servers && s->busy[c + 1] < s->busy[c])
			c++;
		if (s->busy[c] >= until)
			break;
		s->busy[i] = s->busy[c];
		i = c;
	}
	s->busy[i] = until;
}

static void station_push(struct station *s, struct sim_cmd *cmd)
{
	u32 i = s->nr++, p;

	if (s->nr > s->room) {
		s->room = 2 * s->nr;
		s->run = realloc(s->run, s->room * sizeof(struct sim_cmd *));
	}
	for (; i; i = p) {
		p = (i - 1) / 2;
		if (s->run[p]->done <= cmd->done)
			break;
		s->run[i] = s->run[p];
	}
	s->run[i] = cmd;
}

static struct sim_cmd *station_pop(struct station *s)
{
	struct sim_cmd *first = s->run[0], *last = s->run[--s->nr];
	u32 i = 0, c;

	for (;;) {
		c = 2 * i + 1;
		if (c >= s->nr)
			break;
		if (c + 1 < s->nr && s->run[c + 1]->done < s->run[c]->done)
			c++;
		if (s->run[c]->done >= last->done)
			break;
		s->run[i] = s->run[c];
		i = c;
	}
	if (s->nr)
		s->run[i] = last;
	return first;
}

void sim_device_submit(struct sim_device *d, struct sim_cmd *cmd, uint64_t now)
{
	struct ek_flash_req *f = (void *)cmd->model;
	struct station *s = &d->st;
	int w = cmd->op != SIM_READ;
	u64 kb = (cmd->bytes + 1023) / 1024;

	if (d->flash) {
		memset(f, 0, sizeof(*f));
		f->sector = cmd->sector;
		f->bytes = cmd->bytes;
		f->op = cmd->op == SIM_READ ? EK_FS_READ : cmd->op == SIM_WRITE ? EK_FS_WRITE :
			cmd->op == SIM_FLUSH ? EK_FS_FLUSH : EK_FS_DISCARD;
		ek_flash_submit(d->flash, f, now);
		return;
	}
	if (cmd->op >= SIM_FLUSH)
		kb = 0;
	cmd->done = station_server(s, now, s->cmd[w] + kb * s->kb[w]);
	if (s->link[w] && kb) {
		cmd->done = max(cmd->done, s->link_free) + kb * s->link[w];
		s->link_free = cmd->done;
	}
	station_server_set(s, cmd->done);
	station_push(s, cmd);
}

struct sim_cmd *sim_device_reap(struct sim_device *d, uint64_t now)
{
	struct ek_flash_req *f;
	struct sim_cmd *cmd;

	if (!d->flash)
		return d->st.nr && d->st.run[0]->done <= now ? station_pop(&d->st) : NULL;
	f = ek_flash_reap(d->flash, now);
	if (!f)
		return NULL;
	cmd = (void *)((char *)f - offsetof(struct sim_cmd, model));
	cmd->done = f->done;
	return cmd;
}

uint64_t sim_device_next(struct sim_device *d)
{
	if (d->flash)
		return ek_flash_next(d->flash);
	return d->st.nr ? d->st.run[0]->done : SIM_NEVER;
}

uint64_t sim_device_fill(struct sim_device *d)
{
	uint64_t left, now = 0, at = 0;
	struct sim_cmd cmds[32] = {}, *cmd;
	int i;

	if (!d->flash)
		return 0;
	left = d->flash->p.slc_kb ?: min(d->flash->p.gc_after_kb, SIM_FILL_MOST_KB);
	/* presets with a reserve of a few KiB stand for a device whose reserve is used up */
	if (left < 1024)
		return 0;
	left <<= 10;
	for (i = 0; left || d->flash->inside;) {
		while (left && i < 32 && i < (int)d->flash->p.depth) {
			cmds[i] = (struct sim_cmd){ .sector = at >> 9, .bytes = sim_device_max_bytes(d),
						    .op = SIM_WRITE };
			at += cmds[i].bytes;
			left -= min(left, (uint64_t)cmds[i].bytes);
			sim_device_submit(d, &cmds[i++], now);
		}
		now = max(now, sim_device_next(d));
		while ((cmd = sim_device_reap(d, now))) {
			if (!left)
				continue;
			*cmd = (struct sim_cmd){ .sector = at >> 9, .bytes = sim_device_max_bytes(d),
						 .op = SIM_WRITE };
			at += cmd->bytes;
			left -= min(left, (uint64_t)cmd->bytes);
			sim_device_submit(d, cmd, now);
		}
	}
	return now;
}
