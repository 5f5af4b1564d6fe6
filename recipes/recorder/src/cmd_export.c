// SPDX-License-Identifier: Apache-2.0
/* ek-recorder export: writes channels, or parts of them, as MCAP or CSV. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "about.h"
#include "csv.h"
#include "mcap.h"
#include "reader_cli.h"
#include "scope.h"

/* A channel that is exported. */
struct source {
	char *path;
	const char *name;
	struct reader *reader;
	struct reader_event event; /* the next one; its kind is READER_END at the end */
	int64_t last_ns; /* real time of the last record or gap; before the first: of the oldest record */
	uint16_t records, gaps; /* channels of the MCAP */
};

struct export
{
	enum { UNKNOWN = -1, MCAP, CSV } format;
	bool force; /* replace a file */
	enum { NONE, ZSTD } compress;
	enum csv_payload payload;
	const char *encoding; /* of the messages; NULL: as the recording says */
	const char *output;   /* "-": standard output; NULL: not given */

	struct source sources[MCAP_CHANNELS / 2];
	int count;
	struct mcap *mcap;
	uint16_t event_schema; /* of the topics NAME/gaps */
	uint16_t json_schema; /* of JSON messages without a schema of their own; 0: not added yet */
};

/* --- MCAP ------------------------------------------------------------------------ */

/* Some readers (PlotJuggler, for one) accept no JSON topic without a schema. */
static const char any_object[] = "{\"type\":\"object\"}";

/* what reader_tell_json() prints */
static const char event_object[] =
	"{\"type\":\"object\",\"properties\":{"
	"\"kind\":{\"type\":\"string\",\"description\":\"gap, missing, damage, torn or overwritten\"},"
	"\"reason\":{\"type\":\"string\"},"
	"\"lost\":{\"type\":[\"integer\",\"null\"],\"description\":\"records; null: unknown\"},"
	"\"first\":{\"type\":\"integer\"},\"last\":{\"type\":\"integer\"},"
	"\"realtime\":{\"type\":\"string\",\"format\":\"date-time\"},"
	"\"monotonic_ns\":{\"type\":\"integer\"},"
	"\"file\":{\"type\":\"string\"},\"generation\":{\"type\":\"integer\"},"
	"\"offset\":{\"type\":\"integer\"},\"extent\":{\"type\":\"integer\"}}}";

/* adds the schema that the recorder left in the channel's directory; *@id 0: there is none */
static int add_schema(struct export *x, int dir, const struct about *about, uint16_t *id)
{
	CLOSED int fd = *about->schema_name ?
				openat(dir, ABOUT_SCHEMA, O_RDONLY | O_CLOEXEC | O_NOFOLLOW) :
				-1;
	FREED unsigned char *data = fd < 0 ? NULL : malloc(ABOUT_SCHEMA_MAX);
	ssize_t n = data ? read(fd, data, ABOUT_SCHEMA_MAX) : -1;

	*id = 0;
	return n < 0 ? 0 :
		       mcap_schema(x->mcap, about->schema_name, about->schema_encoding, data,
				   (size_t)n, id);
}

static int add_channel(struct export *x, struct source *s)
{
	static const struct mcap_pair none[] = { { NULL, NULL } };
	const struct ekr_segment_head *h = reader_channel(s->reader);
	const char *name = h ? h->name : s->name;
	char id[33] = "", size[24] = "", period[24] = "", window[24] = "",
	     gaps[EKR_NAME_MAX + 8 + sizeof("/gaps")];
	const struct mcap_pair pairs[] = {
		{ "channel_id", id },	 { "record_size", size }, { "period_ns", period },
		{ "window_ns", window }, { NULL, NULL },
	};
	CLOSED int dir = open(s->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct about about = { 0 };
	const char *encoding;
	uint16_t schema = 0;
	int err;

	if (dir >= 0)
		about_read(dir, &about);
	if (h) {
		for (size_t i = 0; i < sizeof(h->channel_id); i++)
			snprintf(id + 2 * i, 3, "%02x", h->channel_id[i]);
		snprintf(size, sizeof(size), "%" PRIu32, h->record_size);
		snprintf(period, sizeof(period), "%" PRIu64, h->period_ns);
		snprintf(window, sizeof(window), "%" PRIu64, h->window_ns);
	}
	snprintf(gaps, sizeof(gaps), "%.*s/gaps", (int)EKR_NAME_MAX + 7, name);
	encoding = x->encoding ? x->encoding : about.encoding;
	err = dir >= 0 ? add_schema(x, dir, &about, &schema) : 0;
	if (!err && !schema && !strcmp(encoding, "json")) {
		if (!x->json_schema)
			err = mcap_schema(x->mcap, "object", "jsonschema", any_object,
					  strlen(any_object), &x->json_schema);
		schema = x->json_schema;
	}
	if (!err)
		err = mcap_channel(x->mcap, schema, name, encoding, h ? pairs : none, &s->records);
	if (!err)
		err = mcap_channel(x->mcap, x->event_schema, gaps, "json", none, &s->gaps);
	return err;
}

static int begin_mcap(struct export *x, FILE *to)
{
	int err = mcap_begin(&x->mcap, to, "ek-recorder", x->compress == ZSTD);

	if (!err)
		err = mcap_schema(x->mcap, "ek-recorder.event", "jsonschema", event_object,
				  strlen(event_object), &x->event_schema);
	for (int i = 0; i < x->count && !err; i++)
		err = add_channel(x, &x->sources[i]);
	return err;
}

/* @before: ns to go back. MCAP counts from 1970; a writer may date a record as it likes. */
static uint64_t mcap_time(int64_t ns, uint64_t before)
{
	int64_t time;

	return __builtin_sub_overflow(ns, before, &time) || time < 0 ? 0 : (uint64_t)time;
}

static int export_mcap(struct export *x, const struct source *s)
{
	const struct reader_event *e = &s->event;
	const uint64_t time = mcap_time(s->last_ns, 0);
	FREED char *json = NULL;
	size_t length;
	FILE *text;

	/* logged when it was submitted, published when it was acquired */
	if (e->kind == READER_RECORD)
		return mcap_message(x->mcap, s->records, (uint32_t)e->sequence, time,
				    mcap_time(e->realtime_ns, e->monotonic_ns - e->acquired_ns),
				    e->payload, e->length);
	text = open_memstream(&json, &length);
	if (!text)
		return -ENOMEM;
	reader_tell_json(text, e);
	if (fclose(text))
		return -ENOMEM;
	/* an event without a time gets that of the record before it */
	return mcap_message(x->mcap, s->gaps, (uint32_t)e->sequence, time, time, json, length);
}

/* --- both ------------------------------------------------------------------------- */

/* The next event of a channel. */
static int advance(struct source *s)
{
	int err = reader_next(s->reader, &s->event);

	if (!err && (s->event.kind == READER_RECORD || s->event.kind == READER_GAP))
		s->last_ns = s->event.realtime_ns;
	return err;
}

/* The channel whose event comes next by real time; NULL: all have ended. */
static struct source *earliest(struct export *x)
{
	struct source *found = NULL;

	for (int i = 0; i < x->count; i++) {
		struct source *s = &x->sources[i];

		if (s->event.kind != READER_END && (!found || s->last_ns < found->last_ns))
			found = s;
	}
	return found;
}

/* 0: everything was exported; 1: some records are missing or damaged; or a negative errno */
static int export_all(struct export *x, FILE *to)
{
	struct source *s;
	bool fault = false;
	int err = x->format == CSV ? csv_begin(to) : begin_mcap(x, to);

	for (int i = 0; i < x->count && !err; i++) {
		struct ekr_record_head oldest;

		s = &x->sources[i];
		if (reader_oldest(s->reader, &oldest))
			s->last_ns = oldest.realtime_ns;
		err = advance(s);
	}
	while (!err && (s = earliest(x))) {
		fault |= reader_is_fault(s->event.kind);
		if (s->event.kind != READER_RECORD)
			reader_tell(stderr, s->name, &s->event);
		err = x->format == CSV ? csv_event(to, x->payload, &s->event) : export_mcap(x, s);
		if (!err)
			err = advance(s);
	}
	if (!err && x->format == MCAP)
		err = mcap_end(x->mcap);
	if (!err && fflush(to))
		err = -errno;
	mcap_free(x->mcap);
	return err ? err : fault;
}

/* Creates a file next to the output; its name is to be freed. */
static FILE *create(const struct reader_cli *cli, const struct export *x, char **temporary)
{
	struct stat st;
	FILE *to;
	int fd;

	if (!lstat(x->output, &st)) {
		if (!x->force) {
			cli_say(&cli->line, "%s exists already; --force replaces it", x->output);
			return NULL;
		}
		if (!S_ISREG(st.st_mode)) {
			cli_say(&cli->line, "%s is not a regular file and is not replaced",
				x->output);
			return NULL;
		}
	}
	if (asprintf(temporary, "%s.XXXXXX", x->output) < 0) {
		*temporary = NULL;
		cli_say(&cli->line, "out of memory");
		return NULL;
	}
	fd = mkostemp(*temporary, O_CLOEXEC);
	to = fd < 0 ? NULL : fdopen(fd, "wb");
	if (to)
		return to;
	cli_say(&cli->line, "creating %s: %s", *temporary, strerror(errno));
	if (fd >= 0) {
		close(fd);
		unlink(*temporary);
	}
	return NULL;
}

/* Renames the file when all of it is on the medium. False: it failed, which was reported. */
static bool finish(const struct reader_cli *cli, const struct export *x, FILE *to,
		   const char *temporary)
{
	const mode_t mask = umask(0);
	int err = 0;

	umask(mask);
	/* a file system without modes (FAT, of another user) refuses this; the file is complete nevertheless */
	(void)!fchmod(fileno(to), 0666 & ~mask);
	if (fsync(fileno(to)))
		err = errno;
	if (fclose(to) && !err)
		err = errno;
	if (!err &&
	    renameat2(AT_FDCWD, temporary, AT_FDCWD, x->output, x->force ? 0 : RENAME_NOREPLACE)) {
		/* a file system without RENAME_NOREPLACE: link() does not replace either */
		if (errno != EINVAL || x->force || link(temporary, x->output))
			err = errno;
		else
			unlink(temporary);
	}
	if (err)
		cli_say(&cli->line, "writing %s: %s", x->output, strerror(err));
	return !err;
}

/* the reader that failed has the reason */
static const char *reason(const struct export *x, int err)
{
	for (int i = 0; i < x->count; i++)
		if (*reader_error(x->sources[i].reader))
			return reader_error(x->sources[i].reader);
	return strerror(-err);
}

static int write_output(const struct reader_cli *cli, struct export *x)
{
	const bool out = !strcmp(x->output, "-");
	FREED char *temporary = NULL;
	FILE *to = out ? stdout : create(cli, x, &temporary);
	int status;

	if (!to)
		return 2;
	status = export_all(x, to);
	if (status == -EINTR)
		cli_say(&cli->line, "interrupted: %s was not written", x->output);
	else if (status < 0)
		cli_say(&cli->line, "exporting to %s: %s", x->output, reason(x, status));
	if (!out && status < 0)
		fclose(to);
	else if (!out && !finish(cli, x, to, temporary))
		status = -EIO;
	if (!out && status < 0)
		unlink(temporary);
	return status < 0 ? 2 : status;
}

static int export(const struct reader_cli *cli, struct export *x)
{
	int status = 0;

	for (int i = 0; i < cli->line.count && !status; i++) {
		struct source *s = &x->sources[i];

		s->path = reader_cli_path(cli, cli->line.arguments[i]);
		s->name = s->path ? reader_cli_name(s->path) : NULL;
		s->reader = s->path ? reader_cli_open(cli, s->path) : NULL;
		x->count++;
		status = s->reader ? 0 : 2;
	}
	if (!status)
		status = write_output(cli, x);
	for (int i = 0; i < x->count; i++) {
		reader_close(x->sources[i].reader);
		free(x->sources[i].path);
	}
	return status;
}

/* The format by the extension of the output, if none was given. */
static void choose_format(struct export *x)
{
	const char *extension = strrchr(x->output, '.');

	if (x->format == UNKNOWN && extension)
		x->format = !strcmp(extension, ".csv")	? CSV :
			    !strcmp(extension, ".mcap") ? MCAP :
							  UNKNOWN;
}

int cmd_export(int argc, char **argv)
{
	static const char *const formats[] = { "mcap", "csv", NULL };
	static const char *const payloads[] = { "hex", "text", "none", NULL };
	static const char *const methods[] = { "none", "zstd", NULL };
	struct export x = { .format = UNKNOWN };
	struct reader_cli cli = { 0 };
	const struct cli_option options[] = {
		OPTION("output", CLI_TEXT, &x.output,
		       "FILE\tfile to write; it appears when complete. - is standard output",
		       .letter = 'o'),
		OPTION("format", CLI_CHOICE, &x.format,
		       "FORMAT\tmcap or csv (default: the extension of FILE)", .choices = formats),
		OPTION("force", CLI_ON, &x.force, "replace FILE if it exists"),
		OPTION("payload", CLI_CHOICE, &x.payload,
		       "FORM\tCSV only: hex (default), text or none", .choices = payloads),
		OPTION("compress", CLI_CHOICE, &x.compress,
		       "HOW\tMCAP only: none (default) or zstd", .choices = methods),
		OPTION("encoding", CLI_TEXT, &x.encoding,
		       "NAME\tMCAP only: message encoding of the payloads (default: the channel's)"),
		READER_RANGES(&cli),
		READER_OPTIONS(&cli),
	};
	int status;

	cli.line = (struct cli){
		.command = "export",
		.usage = "CHANNEL...",
		.about =
			"Writes the records of a channel to a file, or those of several channels to one MCAP, in\n"
			"order of time. Exit status 1: some are missing or damaged; the file and standard error\n"
			"report which.",
		.notes = READER_NOTES,
		.options = options,
		.least = 1,
		.most = -1,
	};
	status = reader_cli_parse(&cli, argc, argv);
	if (status >= 0)
		return status;
	if (!x.output)
		return cli_wrong(&cli.line, "expected -o FILE");
	choose_format(&x);
	if (x.format == UNKNOWN)
		return cli_wrong(
			&cli.line,
			"expected --format mcap or csv, because %s ends in neither .mcap nor .csv",
			x.output);
	if (x.format == CSV && cli.line.count > 1) {
		cli_say(&cli.line, "a CSV file has one channel; export several channels as MCAP");
		return 2;
	}
	if (cli.line.count > MCAP_CHANNELS / 2)
		return cli_wrong(&cli.line, "at most %d channels fit into one file",
				 MCAP_CHANNELS / 2);
	/* so that nothing half written is left behind */
	reader_cli_catch(&cli);
	/* a closed standard error does not end the export; a closed standard output does */
	if (strcmp(x.output, "-") != 0)
		signal(SIGPIPE, SIG_IGN);
	return export(&cli, &x);
}
