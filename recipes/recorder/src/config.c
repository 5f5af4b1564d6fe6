// SPDX-License-Identifier: Apache-2.0
/* The configuration: tables of keys, and what follows from their values. */
#include "config.h"

#include <errno.h>
#include <ini.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../common/units.h"
#include "batch.h"
#include "clock.h"
#include "wire.h"

#define MIB	  (UINT64_C(1) << 20)
#define GAP_BYTES (sizeof(struct ekr_record_head) + sizeof(struct ekr_gap))

enum kind { BYTES, DURATION, NUMBER, YES_NO, PATH, WORD, CHOICE, BUFFER };

struct key {
	const char *name;
	enum kind kind;
	void *to;
	uint64_t least, most;	/* of numbers */
	const char *choices[2]; /* of a CHOICE: false, true */
	bool set;
};

struct parse {
	const char *path;
	struct key *keys;
	struct error *error; /* the first one stays */
};

static int bad(struct parse *p, const char *key, const char *value, const char *why)
{
	if (!p->error->code)
		set_error(p->error, EINVAL, "%s: %s = %.80s: %s", p->path, key, value, why);
	return 0;
}

static int put_text(struct parse *p, const struct key *k, const char *value, size_t room)
{
	char why[64];

	if (strlen(value) >= room) {
		snprintf(why, sizeof(why), "longer than %zu characters", room - 1);
		return bad(p, k->name, value, why);
	}
	if (k->kind == PATH && *value && *value != '/')
		return bad(p, k->name, value, "not an absolute path");
	snprintf(k->to, room, "%s", value);
	return 1;
}

static int put_choice(struct parse *p, const struct key *k, const char *value)
{
	char why[64];

	for (int i = 0; i < 2; i++) {
		if (!strcmp(value, k->choices[i])) {
			*(bool *)k->to = i;
			return 1;
		}
	}
	snprintf(why, sizeof(why), "neither %s nor %s", k->choices[1], k->choices[0]);
	return bad(p, k->name, value, why);
}

/* a buffer may also be a time; that becomes bytes when the rate is known */
struct amount {
	uint64_t bytes;
	uint64_t ns; /* not 0: instead of bytes */
};

static int put_number(struct parse *p, const struct key *k, const char *value)
{
	uint64_t n = 0;
	char why[96];

	switch (k->kind) {
	case BYTES:
		if (!parse_bytes(value, &n))
			return bad(p, k->name, value, "not a size such as 16384, 64KiB or 2MiB");
		break;
	case DURATION:
		if (!parse_duration(value, &n))
			return bad(p, k->name, value,
				   "not a time with a unit, such as 5ms, 2s or 7d");
		break;
	case BUFFER:
		*(struct amount *)k->to = (struct amount){ 0 };
		if (parse_bytes(value, &((struct amount *)k->to)->bytes) ||
		    parse_duration(value, &((struct amount *)k->to)->ns))
			return 1;
		return bad(p, k->name, value, "neither a size such as 8MiB nor a time such as 4s");
	default:
		if (!parse_number(value, &n))
			return bad(p, k->name, value, "not a whole number");
	}
	if (n < k->least || n > k->most) {
		const char *unit = k->kind == DURATION ? " ns" : k->kind == BYTES ? " bytes" : "";

		snprintf(why, sizeof(why), "not from %llu to %llu%s", (unsigned long long)k->least,
			 (unsigned long long)k->most, unit);
		return bad(p, k->name, value, why);
	}
	*(uint64_t *)k->to = n;
	return 1;
}

/* inih's handler: 1 is fine */
static int on_key(void *user, const char *section, const char *name, const char *value)
{
	struct parse *p = user;
	struct key *k = p->keys;

	if (*section)
		return bad(p, name, value, "there are no sections");
	while (k->name && strcmp(k->name, name) != 0)
		k++;
	if (!k->name)
		return bad(p, name, value, "no such key");
	if (k->set)
		return bad(p, name, value, "the key is there twice");
	k->set = true;
	switch (k->kind) {
	case PATH:
		return put_text(p, k, value, CONFIG_PATH);
	case WORD:
		return put_text(p, k, value, 32);
	case YES_NO:
	case CHOICE:
		return put_choice(p, k, value);
	default:
		return put_number(p, k, value);
	}
}

static int parse_file(const char *path, struct key *keys, struct error *e)
{
	struct parse p = { .path = path, .keys = keys, .error = e };
	FILE *f = fopen(path, "re");
	int line;

	e->code = 0;
	if (!f)
		return set_errno(e, errno, "reading %s", path);
	line = ini_parse_file(f, on_key, &p);
	if (ferror(f) && !e->code)
		set_errno(e, EIO, "reading %s", path);
	fclose(f);
	if (line && !e->code)
		set_error(e, EINVAL,
			  "%s: line %d is not KEY = VALUE, or longer than 198 characters", path,
			  line);
	return e->code ? -e->code : 0;
}

int config_recorder(const char *path, struct recorder_config *c, struct error *e)
{
	struct key keys[] = {
		{ .name = "directory", .kind = PATH, .to = c->directory },
		{ .name = "mountpoint",
		  .kind = YES_NO,
		  .to = &c->mountpoint,
		  .choices = { "no", "yes" } },
		{ .name = "socket", .kind = PATH, .to = c->socket },
		{ .name = "group", .kind = WORD, .to = c->group },
		{ .name = "priority", .kind = NUMBER, .to = &c->priority, .most = 98 },
		{ .name = "statistics", .kind = PATH, .to = c->statistics },
		{ 0 },
	};
	int ret;

	*c = (struct recorder_config){
		.directory = "/recorder",
		.socket = EKR_SOCKET,
		.group = "ek-record",
		.statistics = "/run/ek-recorder/stats.json",
		.mountpoint = true,
	};
	ret = parse_file(path, keys, e);
	if (!ret && !*c->directory)
		return set_error(e, EINVAL, "%s: directory: must not be empty", path);
	if (!ret && !*c->socket)
		return set_error(e, EINVAL, "%s: socket: must not be empty", path);
	return ret;
}

bool config_name_ok(const char *name)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789-";
	size_t length = strspn(name, letters);

	return length && length <= EKR_NAME_MAX && !name[length] && *name != '-';
}

static int take_name(const char *path, struct channel_config *c, struct error *e)
{
	const char *name = strrchr(path, '/');
	size_t length;

	name = name ? name + 1 : path;
	length = strlen(name);
	if (length > 5 && !strcmp(name + length - 5, ".conf") && length - 5 <= EKR_NAME_MAX) {
		memcpy(c->name, name, length - 5);
		c->name[length - 5] = '\0';
	}
	if (!config_name_ok(c->name))
		return set_error(e, EINVAL,
				 "%s: not NAME.conf with a NAME of 1 to %u of a-z, 0-9 and -", path,
				 EKR_NAME_MAX);
	return 0;
}

static uint64_t clamp(uint64_t n, uint64_t least, uint64_t most)
{
	return n < least ? least : n > most ? most : n;
}

/* bytes in @ns at the declared pace, at most @most; 0 if none was declared */
static uint64_t bytes_in(const struct channel_config *c, uint64_t ns, uint64_t most)
{
	unsigned __int128 bytes;

	if (!c->period_ns)
		return 0;
	bytes = (unsigned __int128)record_bytes((uint32_t)c->record_size) * ns / c->period_ns;
	return bytes < most ? (uint64_t)bytes : most;
}

/* what depends on several keys; messages name the key that is to be changed */
static int complete(const char *path, struct channel_config *c, const struct amount *buffer,
		    struct error *e)
{
	uint64_t one = record_bytes((uint32_t)c->record_size) + GAP_BYTES;

	if (!c->record_size)
		return set_error(e, EINVAL, "%s: record_size is missing", path);
	if (!c->retain)
		return set_error(e, EINVAL, "%s: retain is missing", path);
	if (!c->writeout) {
		/* a batch that does not fit leaves the end of its segment unused: many fit */
		uint64_t room = c->segment ? c->segment / 4 : c->retain / 16;
		uint64_t most = clamp(room, MIB / 16, 2 * MIB);

		c->writeout =
			clamp(c->period_ns ? bytes_in(c, c->window_ns, most) : MIB, MIB / 16, most);
	}
	c->writeout = whole_blocks(c->writeout > one ? c->writeout : one);
	if (!c->segment)
		c->segment = clamp(c->retain / 16, 2 * c->writeout + EKR_BLOCK, 16 * MIB);
	c->segment = whole_blocks(c->segment);
	if (c->segment < EKR_BLOCK + c->writeout)
		return set_error(e, EINVAL,
				 "%s: segment: must hold its head and a batch, %llu bytes", path,
				 (unsigned long long)(EKR_BLOCK + c->writeout));
	if (c->cached && c->segment > CACHED_SEGMENT_MAX)
		return set_error(
			e, EINVAL,
			"%s: segment: with backend = cached at most %llu bytes, for a start "
			"reads all of one",
			path, (unsigned long long)CACHED_SEGMENT_MAX);
	c->segments = (c->retain + c->segment - 1) / c->segment + 1;
	if (c->segments > SEGMENTS_MAX)
		return set_error(
			e, EINVAL,
			"%s: segment: retain would be more than %u segments; larger ones are needed",
			path, SEGMENTS_MAX - 1);
	if (buffer->ns && !c->period_ns)
		return set_error(e, EINVAL, "%s: buffer: a time needs a period; give bytes", path);
	if (buffer->ns)
		c->buffer = bytes_in(c, buffer->ns, UINT64_C(1) << 32);
	else if (buffer->bytes)
		c->buffer = buffer->bytes;
	else
		c->buffer = c->period_ns ? bytes_in(c, 4 * NSEC_PER_SEC, 64 * MIB) : 4 * MIB;
	if (c->buffer > 1024 * MIB)
		return set_error(e, EINVAL, "%s: buffer: more than 1 GiB", path);
	/* one is written, one is full, one is filled */
	if (c->buffer < 3 * c->writeout)
		c->buffer = 3 * c->writeout;
	return 0;
}

int config_channel(const char *path, struct channel_config *c, struct error *e)
{
	struct amount buffer = { 0 };
	bool fixed = false;
	/* clang-format off: a table */
	struct key keys[] = {
		{ .name = "record_size",
		  .kind = BYTES,
		  .to = &c->record_size,
		  .least = 1,
		  .most = EKR_RECORD_MAX },
		{ .name = "period",
		  .kind = DURATION,
		  .to = &c->period_ns,
		  .least = 1000,
		  .most = 86400 * NSEC_PER_SEC },
		{ .name = "window",
		  .kind = DURATION,
		  .to = &c->window_ns,
		  .least = 10 * NSEC_PER_MSEC,
		  .most = 3600 * NSEC_PER_SEC },
		{ .name = "retain",
		  .kind = BYTES,
		  .to = &c->retain,
		  .least = EKR_BLOCK,
		  .most = UINT64_C(1) << 46 },
		{ .name = "retain_time",
		  .kind = DURATION,
		  .to = &c->retain_ns,
		  .least = NSEC_PER_SEC,
		  .most = INT64_MAX },
		{ .name = "segment",
		  .kind = BYTES,
		  .to = &c->segment,
		  .least = 2 * EKR_BLOCK,
		  .most = UINT64_C(1) << 30 },
		{ .name = "writeout",
		  .kind = BYTES,
		  .to = &c->writeout,
		  .least = EKR_BLOCK,
		  .most = EKR_BATCH_MAX },
		{ .name = "buffer", .kind = BUFFER, .to = &buffer },
		{ .name = "backend",
		  .kind = CHOICE,
		  .to = &c->cached,
		  .choices = { "direct", "cached" } },
		{ .name = "ring", .kind = YES_NO, .to = &c->ring, .choices = { "no", "yes" } },
		{ .name = "fifo", .kind = PATH, .to = c->fifo },
		{ .name = "framing", .kind = CHOICE, .to = &fixed, .choices = { "lines", "fixed" } },
		{ 0 },
	};
	/* clang-format on */
	int ret;

	*c = (struct channel_config){ .window_ns = NSEC_PER_SEC, .ring = true };
	ret = take_name(path, c, e);
	if (!ret)
		ret = parse_file(path, keys, e);
	c->fifo_lines = !fixed;
	return ret ? ret : complete(path, c, &buffer, e);
}
