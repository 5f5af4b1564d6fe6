// SPDX-License-Identifier: Apache-2.0
/* ek-recorder export: a channel, or a part of it, as MCAP or CSV. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "about.h"
#include "commands.h"
#include "csv.h"
#include "mcap.h"
#include "reader_cli.h"

enum { FORMAT = READER_OWN, FORCE, PAYLOAD, COMPRESS, ENCODING };

/* A channel that is exported. */
struct source {
	char *path;
	const char *name;
	struct reader *reader;
	struct reader_event event; /* the next one; its kind is READER_END at the end */
	int64_t last_ns;	   /* real time of the last record or gap */
	uint16_t records, gaps;	   /* channels of the MCAP */
};

struct export
{
	bool csv;
	bool format; /* it was given */
	bool force;  /* replace a file */
	bool zstd;
	enum csv_payload payload;
	const char *encoding; /* of the messages; NULL: as the recording says */
	const char *output;   /* "-": standard output */

	struct source *sources;
	int count;
	struct mcap *mcap;
};

static const char *set(void *to, int option, const char *value)
{
	struct export *x = to;

	switch (option) {
	case 'o':
		x->output = value;
		return *value ? NULL : "must not be empty";
	case FORMAT:
		x->csv = !strcmp(value, "csv");
		x->format = true;
		return x->csv || !strcmp(value, "mcap") ? NULL : "is neither mcap nor csv";
	case FORCE:
		x->force = true;
		return NULL;
	case PAYLOAD:
		x->payload = !strcmp(value, "text") ? CSV_TEXT :
			     !strcmp(value, "none") ? CSV_NONE :
						      CSV_HEX;
		return x->payload != CSV_HEX || !strcmp(value, "hex") ? NULL :
									"is not hex, text or none";
	case COMPRESS:
		x->zstd = !strcmp(value, "zstd");
		return x->zstd || !strcmp(value, "none") ? NULL : "is neither none nor zstd";
	case ENCODING:
		x->encoding = value;
		return NULL;
	default:
		return "is not accepted: this command has no such option";
	}
}

/* --- MCAP ------------------------------------------------------------------------ */

/* the schema that the recorder left in the channel's directory; *@id 0: there is none */
static int add_schema(struct export *x, int dir, const struct about *about, uint16_t *id)
{
	int fd = *about->schema_name ?
			 openat(dir, ABOUT_SCHEMA, O_RDONLY | O_CLOEXEC | O_NOFOLLOW) :
			 -1;
	unsigned char *data = fd < 0 ? NULL : malloc(ABOUT_SCHEMA_MAX);
	ssize_t n = data ? read(fd, data, ABOUT_SCHEMA_MAX) : -1;
	int err = 0;

	*id = 0;
	if (fd >= 0)
		close(fd);
	if (n >= 0)
		err = mcap_schema(x->mcap, about->schema_name, about->schema_encoding, data,
				  (size_t)n, id);
	free(data);
	return err;
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
	int dir = open(s->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), err;
	struct about about = { 0 };
	uint16_t schema = 0;

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
	err = dir >= 0 ? add_schema(x, dir, &about, &schema) : 0;
	if (!err)
		err = mcap_channel(x->mcap, schema, name,
				   x->encoding ? x->encoding : about.encoding, h ? pairs : none,
				   &s->records);
	if (!err)
		err = mcap_channel(x->mcap, 0, gaps, "json", none, &s->gaps);
	if (dir >= 0)
		close(dir);
	return err;
}

static int begin_mcap(struct export *x, FILE *to)
{
	int err = mcap_begin(&x->mcap, to, "ek-recorder", x->zstd);

	for (int i = 0; i < x->count && !err; i++)
		err = add_channel(x, &x->sources[i]);
	return err;
}

/* MCAP counts from 1970 */
static uint64_t mcap_time(int64_t ns)
{
	return ns < 0 ? 0 : (uint64_t)ns;
}

static int export_mcap(struct export *x, const struct source *s)
{
	const struct reader_event *e = &s->event;
	const uint64_t time = mcap_time(s->last_ns);
	char *json = NULL;
	size_t length;
	FILE *text;
	int err;

	/* logged when it was submitted, published when it was acquired */
	if (e->kind == READER_RECORD)
		return mcap_message(
			x->mcap, s->records, (uint32_t)e->sequence, time,
			mcap_time(e->realtime_ns - (int64_t)(e->monotonic_ns - e->acquired_ns)),
			e->payload, e->length);
	text = open_memstream(&json, &length);
	if (!text)
		return -ENOMEM;
	reader_tell_json(text, e);
	if (fclose(text)) {
		free(json);
		return -ENOMEM;
	}
	/* what has no time of its own stands where it was found */
	err = mcap_message(x->mcap, s->gaps, (uint32_t)e->sequence, time, time, json, length);
	free(json);
	return err;
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

/* 0 all is there, 1 not all, or a negative errno */
static int export_all(struct export *x, FILE *to)
{
	struct source *s;
	bool fault = false;
	int err = x->csv ? csv_begin(to) : begin_mcap(x, to);

	for (int i = 0; i < x->count && !err; i++)
		err = advance(&x->sources[i]);
	while (!err && (s = earliest(x))) {
		fault |= reader_is_fault(s->event.kind);
		if (s->event.kind != READER_RECORD)
			reader_tell(stderr, s->name, &s->event);
		err = x->csv ? csv_event(to, x->payload, &s->event) : export_mcap(x, s);
		if (!err)
			err = advance(s);
	}
	if (!err && !x->csv)
		err = mcap_end(x->mcap);
	if (!err && fflush(to))
		err = -errno;
	mcap_free(x->mcap);
	return err ? err : fault;
}

/* A file beside the output; its name is to be freed. */
static FILE *create(const struct reader_cli *cli, const struct export *x, char **temporary)
{
	struct stat st;
	FILE *to;
	int fd;

	if (!lstat(x->output, &st)) {
		if (!x->force) {
			reader_cli_say(cli, "%s exists already; --force replaces it", x->output);
			return NULL;
		}
		if (!S_ISREG(st.st_mode)) {
			reader_cli_say(cli, "%s is not a regular file and is not replaced",
				       x->output);
			return NULL;
		}
	}
	if (asprintf(temporary, "%s.XXXXXX", x->output) < 0) {
		*temporary = NULL;
		reader_cli_say(cli, "out of memory");
		return NULL;
	}
	fd = mkostemp(*temporary, O_CLOEXEC);
	to = fd < 0 ? NULL : fdopen(fd, "wb");
	if (to)
		return to;
	reader_cli_say(cli, "creating %s: %s", *temporary, strerror(errno));
	if (fd >= 0) {
		close(fd);
		unlink(*temporary);
	}
	return NULL;
}

/* Under its own name only when all of it is on the medium. */
static int finish(const struct reader_cli *cli, const struct export *x, FILE *to,
		  const char *temporary)
{
	const mode_t mask = umask(0);
	int err = 0;

	umask(mask);
	/* one without modes (FAT, of another user) refuses: all of it is there all the same */
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
		reader_cli_say(cli, "writing %s: %s", x->output, strerror(err));
	return err ? -err : 0;
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
	char *temporary = NULL;
	FILE *to = out ? stdout : create(cli, x, &temporary);
	int err = -EINVAL;

	if (to) {
		err = export_all(x, to);
		if (err == -EINTR)
			reader_cli_say(cli, "interrupted: %s was not written", x->output);
		else if (err < 0)
			reader_cli_say(cli, "exporting to %s: %s", x->output, reason(x, err));
		if (!out && err >= 0) {
			int done = finish(cli, x, to, temporary);

			err = done ? done : err;
		} else if (!out) {
			fclose(to);
		}
		if (!out && err < 0)
			unlink(temporary);
	}
	free(temporary);
	return err < 0 ? 2 : err;
}

static int export(const struct reader_cli *cli, struct export *x)
{
	int status = 0;

	x->sources = calloc((size_t)cli->count, sizeof(*x->sources));
	if (!x->sources) {
		reader_cli_say(cli, "out of memory");
		return 2;
	}
	for (int i = 0; i < cli->count && !status; i++) {
		struct source *s = &x->sources[i];

		s->path = reader_cli_path(cli, cli->channels[i]);
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
	free(x->sources);
	return status;
}

int cmd_export(int argc, char **argv)
{
	static const struct option own[] = {
		{ "output", required_argument, NULL, 'o' },
		{ "format", required_argument, NULL, FORMAT },
		{ "force", no_argument, NULL, FORCE },
		{ "payload", required_argument, NULL, PAYLOAD },
		{ "compress", required_argument, NULL, COMPRESS },
		{ "encoding", required_argument, NULL, ENCODING },
		{ 0 },
	};
	struct export x = { 0 };
	struct reader_cli cli = {
		.command = "export",
		.usage = "CHANNEL...",
		.about =
			"Writes the records of a channel to a file, or those of several channels to one MCAP, in\n"
			"order of time. Exit status 1: some are missing or damaged; the file and standard error\n"
			"report which.",
		.help = "  -o, --output FILE   file to write; it appears when complete. - is standard output\n"
			"  --format FORMAT     mcap or csv (default: the extension of FILE)\n"
			"  --force             replace FILE if it exists\n"
			"  --payload FORM      CSV only: hex (default), text or none\n"
			"  --compress HOW      MCAP only: none (default) or zstd\n"
			"  --encoding NAME     MCAP only: message encoding of the payloads (default: the channel's)\n",
		.own = own,
		.set = set,
		.to = &x,
		.ranges = true,
		.most = -1,
	};
	int status = reader_cli_parse(&cli, argc, argv);
	const char *ending;

	if (status >= 0)
		return status;
	if (!cli.count) {
		reader_cli_say(&cli, "expected %s (see --help)", cli.usage);
		return 2;
	}
	if (!x.output) {
		reader_cli_say(&cli, "expected -o FILE (see --help)");
		return 2;
	}
	ending = strrchr(x.output, '.');
	if (!x.format && ending)
		x.csv = !strcmp(ending, ".csv");
	if (!x.format && !x.csv && !(ending && !strcmp(ending, ".mcap"))) {
		reader_cli_say(
			&cli,
			"expected --format mcap or csv, because %s ends in neither .mcap nor .csv",
			x.output);
		return 2;
	}
	if (x.csv && cli.count > 1) {
		reader_cli_say(&cli, "a CSV file has one channel; export several channels as MCAP");
		return 2;
	}
	if (cli.count > MCAP_CHANNELS / 2) {
		reader_cli_say(&cli, "at most %d channels fit into one file", MCAP_CHANNELS / 2);
		return 2;
	}
	/* so that nothing half written is left behind */
	reader_cli_catch(&cli);
	/* nor when nobody reads what is told of gaps; on standard output it still ends the export */
	if (strcmp(x.output, "-") != 0)
		signal(SIGPIPE, SIG_IGN);
	return export(&cli, &x);
}
