// SPDX-License-Identifier: Apache-2.0
/* The configuration: tables of keys, and defaults that depend on several keys. */
#include "config.h"

#include <ctype.h>
#include <errno.h>
#include <ini.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../common/src/units.h"
#include "batch.h"
#include "clock.h"
#include "value.h"
#include "wire.h"

#define MIB	  (UINT64_C(1) << 20)
#define GAP_BYTES (sizeof(struct ekr_record_head) + sizeof(struct ekr_gap))
/* bytes of a path in a message, so that the reason after it fits as well */
#define SHOWN 120

enum kind {
	NUMBER = VALUE_NUMBER,
	BYTES = VALUE_BYTES,
	DURATION = VALUE_DURATION,
	YES_NO,
	GROUP_ALL, /* access for the members of the group, or for all users */
	PATH,
	GROUP,
	NAME,
	BUFFER,
};

struct key {
	const char *name;
	enum kind kind;
	void *to;
	uint64_t least, most; /* of numbers */
	bool set;
};
#define KEY(name_, kind_, to_) { .name = (name_), .kind = (kind_), .to = (to_) }
#define LIMITED(name_, kind_, to_, least_, most_) \
	{ .name = (name_), .kind = (kind_), .to = (to_), .least = (least_), .most = (most_) }

struct parse {
	const char *path; /* as messages show it */
	struct key *keys;
	struct error *error; /* the first error */
};

static const char *put_text(const struct key *k, const char *value, char why[VALUE_WHY])
{
	const size_t room = k->kind == PATH  ? CONFIG_PATH :
			    k->kind == GROUP ? CONFIG_GROUP :
					       ABOUT_VALUE;

	if (strlen(value) >= room) {
		snprintf(why, VALUE_WHY, "must not be longer than %zu characters", room - 1);
		return why;
	}
	if (k->kind == PATH && *value && *value != '/')
		return "must be an absolute path";
	snprintf(k->to, room, "%s", value);
	return NULL;
}

static const char *put_choice(const struct key *k, const char *value)
{
	const bool yes_no = k->kind == YES_NO;
	const bool on = !strcmp(value, yes_no ? "yes" : "all");

	if (!on && strcmp(value, yes_no ? "no" : "group") != 0)
		return yes_no ? "must be yes or no" : "must be all or group";
	*(bool *)k->to = on;
	return NULL;
}

/* the size of the buffer may be a time; it becomes bytes when the rate is known */
struct amount {
	uint64_t bytes;
	uint64_t ns; /* not 0: instead of bytes */
};

static const char *put_amount(const struct key *k, const char *value)
{
	struct amount *to = k->to;

	*to = (struct amount){ 0 };
	if (!parse_bytes(value, &to->bytes) && !parse_duration(value, &to->ns))
		return "must be a size such as 8MiB or a time such as 4s";
	return to->bytes || to->ns ? NULL :
				     "must not be 0; remove the key for the default (4s, or 4MiB)";
}

/* NULL, or what is wrong with the value */
static const char *put(const struct key *k, const char *value, char why[VALUE_WHY])
{
	switch (k->kind) {
	case PATH:
	case NAME:
	case GROUP:
		return put_text(k, value, why);
	case YES_NO:
	case GROUP_ALL:
		return put_choice(k, value);
	case BUFFER:
		return put_amount(k, value);
	default:
		return value_parse(value, (enum value_kind)k->kind, k->least, k->most, k->to, why);
	}
}

/* inih's handler; returns 1 if the value is valid */
static int on_key(void *user, const char *section, const char *name, const char *value)
{
	struct parse *p = user;
	struct key *k = p->keys;
	char text[VALUE_WHY];
	const char *why;

	while (k->name && strcmp(k->name, name) != 0)
		k++;
	if (*section)
		why = "sections are not supported; remove the line in brackets";
	else if (!k->name)
		why = "unknown key";
	else if (k->set)
		why = "the key is given twice; remove one";
	else
		why = put(k, value, text);
	k->set = true;
	if (why && !p->error->code)
		set_error(p->error, EINVAL, "%s: %s = %.80s: %s", p->path, name, value, why);
	return !why;
}

/* the file that inih reads */
struct lines {
	FILE *file;
	int count;
	int too_long; /* number of a line that is too long; 0: none */
	int error;    /* errno of reading */
};

/*
 * inih's reader. inih would append a line that begins with whitespace to the value before it, and its
 * buffer is short. So this removes whitespace at the start of lines, and the text of comments.
 */
static char *next_line(char *line, int room, void *from)
{
	struct lines *l = from;
	int length = 0, c;
	bool comment;

	l->count++;
	do {
		c = getc(l->file);
	} while (c != '\n' && isspace(c));
	comment = c == '#' || c == ';';
	for (; c != EOF; c = getc(l->file)) {
		if (comment && c != '\n')
			continue;
		if (length == room - 1) {
			l->too_long = l->count;
			return NULL;
		}
		line[length++] = (char)c;
		if (c == '\n')
			break;
	}
	if (ferror(l->file))
		l->error = errno;
	line[length] = '\0';
	return length ? line : NULL;
}

/* of a long path, its end, which has the name of the file */
static const char *show(const char *path, char shown[SHOWN + 1])
{
	const size_t length = strlen(path);

	if (length <= SHOWN)
		return path;
	snprintf(shown, SHOWN + 1, "...%s", path + length - (SHOWN - 3));
	return shown;
}

static int parse_file(const char *path, const char *shown, struct key *keys, struct error *e)
{
	struct parse p = { .path = shown, .keys = keys, .error = e };
	struct lines l = { .file = fopen(path, "re") };
	int line;

	e->code = 0;
	if (!l.file)
		return set_errno(e, errno, "reading %s", shown);
	line = ini_parse_stream(next_line, &l, on_key, &p);
	fclose(l.file);
	if (l.error && !e->code)
		set_errno(e, l.error, "reading %s", shown);
	if (line && !e->code)
		set_error(e, EINVAL, "%s: line %d must be KEY = VALUE", shown, line);
	if (l.too_long && !e->code)
		set_error(e, EINVAL, "%s: line %d is too long", shown, l.too_long);
	return e->code ? -e->code : 0;
}

int config_file(char path[PATH_MAX], const char *dir, const char *name, struct error *e)
{
	if (snprintf(path, PATH_MAX, "%s/%s", dir, name) < PATH_MAX)
		return 0;
	return set_errno(e, ENAMETOOLONG, "reading %.100s...", dir);
}

int config_recorder(const char *path, struct recorder_config *c, struct error *e)
{
	struct key keys[] = {
		KEY("directory", PATH, c->directory),
		KEY("mountpoint", YES_NO, &c->mountpoint),
		KEY("socket", PATH, c->socket),
		KEY("group", GROUP, c->group),
		LIMITED("priority", NUMBER, &c->priority, 0, 98),
		KEY("statistics", PATH, c->statistics),
		{ 0 },
	};
	char long_path[SHOWN + 1];
	const char *shown = show(path, long_path);
	int ret;

	*c = (struct recorder_config){
		.directory = "/recorder",
		.socket = EKR_SOCKET,
		.group = "ek-record",
		.statistics = "/run/ek-recorder/stats.json",
		.mountpoint = true,
	};
	ret = parse_file(path, shown, keys, e);
	if (!ret && (!*c->directory || !*c->socket))
		return set_error(e, EINVAL, "%s: %s: must not be empty", shown,
				 *c->directory ? "socket" : "directory");
	return ret;
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
	if (!about_name_ok(c->name))
		return set_error(
			e, EINVAL,
			"%s: must be named NAME.conf, NAME being 1 to %u characters a-z, 0-9 or -",
			path, EKR_NAME_MAX);
	return 0;
}

static uint64_t clamp(uint64_t n, uint64_t least, uint64_t most)
{
	return n < least ? least : n > most ? most : n;
}

/* bytes that arrive in @ns at the declared period, at most @most; 0 without a period */
static uint64_t bytes_in(const struct channel_config *c, uint64_t ns, uint64_t most)
{
	unsigned __int128 bytes;

	if (!c->period_ns)
		return 0;
	bytes = (unsigned __int128)record_bytes((uint32_t)c->record_size) * ns / c->period_ns;
	return bytes < most ? (uint64_t)bytes : most;
}

/* defaults and limits that depend on several keys; messages name the key to change */
static int complete(const char *path, struct channel_config *c, const struct amount *buffer,
		    struct error *e)
{
	uint64_t one = record_bytes((uint32_t)c->record_size) + GAP_BYTES;
	char size[32];

	if (!c->record_size)
		return set_error(e, EINVAL, "%s: record_size is missing", path);
	if (!c->retain)
		return set_error(e, EINVAL, "%s: retain is missing", path);
	if (!*c->schema != !*c->about.schema_name || !*c->schema != !*c->about.schema_encoding)
		return set_error(
			e, EINVAL,
			"%s: schema, schema_name and schema_encoding belong together; set all of them or none",
			path);
	if (!c->writeout) {
		/* a batch that does not fit leaves the end of its segment unused, so many must fit */
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
				 "%s: segment: must be at least %s, to hold its head and a batch",
				 path, value_print(size, VALUE_BYTES, EKR_BLOCK + c->writeout));
	c->segments = (c->retain + c->segment - 1) / c->segment + 1;
	if (c->segments > SEGMENTS_MAX)
		return set_error(
			e, EINVAL,
			"%s: segment: too small, because retain would need more than %u segments",
			path, SEGMENTS_MAX - 1);
	if (buffer->ns && !c->period_ns)
		return set_error(e, EINVAL,
				 "%s: buffer: a time needs a period; set period, or give bytes",
				 path);
	if (buffer->ns)
		c->buffer = bytes_in(c, buffer->ns, UINT64_C(1) << 32);
	else if (buffer->bytes)
		c->buffer = buffer->bytes;
	else
		c->buffer = c->period_ns ? bytes_in(c, 4 * NSEC_PER_SEC, 64 * MIB) : 4 * MIB;
	if (c->buffer > 1024 * MIB)
		return set_error(e, EINVAL, "%s: buffer: must be at most 1 GiB", path);
	/* three chunks: one is written, one is full, one is filled */
	if (c->buffer < 3 * c->writeout)
		c->buffer = 3 * c->writeout;
	return 0;
}

int config_channel(const char *path, struct channel_config *c, struct error *e)
{
	struct amount buffer = { 0 };
	struct key keys[] = {
		LIMITED("record_size", BYTES, &c->record_size, 1, EKR_RECORD_MAX),
		LIMITED("period", DURATION, &c->period_ns, 1000, 86400 * NSEC_PER_SEC),
		LIMITED("window", DURATION, &c->window_ns, 10 * NSEC_PER_MSEC, 3600 * NSEC_PER_SEC),
		LIMITED("retain", BYTES, &c->retain, EKR_BLOCK, UINT64_C(1) << 46),
		LIMITED("retain_time", DURATION, &c->retain_ns, NSEC_PER_SEC, INT64_MAX),
		LIMITED("segment", BYTES, &c->segment, 2 * EKR_BLOCK, UINT64_C(1) << 30),
		LIMITED("writeout", BYTES, &c->writeout, EKR_BLOCK, EKR_BATCH_MAX),
		KEY("buffer", BUFFER, &buffer),
		KEY("ring", YES_NO, &c->ring),
		LIMITED("keep", BYTES, &c->keep, 0, UINT64_C(1) << 46),
		KEY("encoding", NAME, c->about.encoding),
		KEY("schema", PATH, c->schema),
		KEY("schema_name", NAME, c->about.schema_name),
		KEY("schema_encoding", NAME, c->about.schema_encoding),
		LIMITED("writers", NUMBER, &c->writers, 1, CONFIG_WRITERS),
		KEY("write_group", GROUP, c->write_group),
		KEY("write_mode", GROUP_ALL, &c->write_all),
		KEY("read_group", GROUP, c->read_group),
		KEY("read_mode", GROUP_ALL, &c->read_all),
		{ 0 },
	};
	char long_path[SHOWN + 1];
	const char *shown = show(path, long_path);
	int ret;

	memset(c, 0, sizeof(*c));
	c->window_ns = NSEC_PER_SEC;
	c->ring = true;
	c->writers = 1;
	memcpy(c->write_group, CONFIG_UNSET, sizeof(CONFIG_UNSET));
	memcpy(c->read_group, CONFIG_UNSET, sizeof(CONFIG_UNSET));
	ret = take_name(shown, c, e);
	if (!ret)
		ret = parse_file(path, shown, keys, e);
	return ret ? ret : complete(shown, c, &buffer, e);
}
