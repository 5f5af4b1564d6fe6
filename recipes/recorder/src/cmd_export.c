// SPDX-License-Identifier: Apache-2.0
/* ek-recorder export: a channel, or a part of it, as MCAP or CSV. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "commands.h"
#include "csv.h"
#include "mcap.h"
#include "reader_cli.h"

enum { FORMAT = READER_OWN, FORCE, PAYLOAD, COMPRESS, ENCODING };

struct export
{
	bool csv;
	bool format; /* it was given */
	bool force;  /* replace a file */
	bool zstd;
	enum csv_payload payload;
	const char *encoding; /* of the messages */
	const char *output;   /* "-": standard output */

	struct mcap *mcap;
	uint16_t records, gaps; /* channels of the MCAP */
	int64_t last_ns;	/* real time of the last record or gap */
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

static int begin_mcap(struct export *x, FILE *to, const char *name, const struct reader *r)
{
	static const struct mcap_pair none[] = { { NULL, NULL } };
	const struct ekr_segment_head *h = reader_channel(r);
	char id[33] = "", size[24] = "", period[24] = "", window[24] = "",
	     gaps[EKR_NAME_MAX + 8 + sizeof("/gaps")];
	const struct mcap_pair pairs[] = {
		{ "channel_id", id },	 { "record_size", size }, { "period_ns", period },
		{ "window_ns", window }, { NULL, NULL },
	};
	int err = mcap_begin(&x->mcap, to, "ek-recorder", x->zstd);

	if (h) {
		for (size_t i = 0; i < sizeof(h->channel_id); i++)
			snprintf(id + 2 * i, 3, "%02x", h->channel_id[i]);
		snprintf(size, sizeof(size), "%" PRIu32, h->record_size);
		snprintf(period, sizeof(period), "%" PRIu64, h->period_ns);
		snprintf(window, sizeof(window), "%" PRIu64, h->window_ns);
		name = h->name;
	}
	snprintf(gaps, sizeof(gaps), "%.*s/gaps", (int)EKR_NAME_MAX + 7, name);
	if (!err)
		err = mcap_channel(x->mcap, name, x->encoding, h ? pairs : none, &x->records);
	if (!err)
		err = mcap_channel(x->mcap, gaps, "json", none, &x->gaps);
	return err;
}

/* MCAP counts from 1970 */
static uint64_t mcap_time(int64_t ns)
{
	return ns < 0 ? 0 : (uint64_t)ns;
}

static int export_mcap(struct export *x, const struct reader_event *e)
{
	char *json = NULL;
	size_t length;
	FILE *text;
	int err;

	if (e->kind == READER_RECORD)
		return mcap_message(x->mcap, x->records, (uint32_t)e->sequence,
				    mcap_time(e->realtime_ns), e->payload, e->length);
	text = open_memstream(&json, &length);
	if (!text)
		return -ENOMEM;
	reader_tell_json(text, e);
	if (fclose(text)) {
		free(json);
		return -ENOMEM;
	}
	/* what has no time of its own stands where it was found */
	err = mcap_message(x->mcap, x->gaps, (uint32_t)e->sequence, mcap_time(x->last_ns), json,
			   length);
	free(json);
	return err;
}

/* --- both ------------------------------------------------------------------------- */

/* 0 all is there, 1 not all, or a negative errno */
static int export_all(struct export *x, FILE *to, const char *name, struct reader *r)
{
	struct reader_event e;
	bool fault = false;
	int err = x->csv ? csv_begin(to) : begin_mcap(x, to, name, r);

	while (!err && !(err = reader_next(r, &e)) && e.kind != READER_END) {
		fault |= reader_is_fault(e.kind);
		if (e.kind == READER_RECORD || e.kind == READER_GAP)
			x->last_ns = e.realtime_ns;
		if (e.kind != READER_RECORD)
			reader_tell(stderr, name, &e);
		err = x->csv ? csv_event(to, x->payload, &e) : export_mcap(x, &e);
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

static int export(const struct reader_cli *cli, struct export *x, const char *path)
{
	const bool out = !strcmp(x->output, "-");
	struct reader *r = reader_cli_open(cli, path);
	char *temporary = NULL;
	FILE *to = NULL;
	int err = -EINVAL;

	if (r)
		to = out ? stdout : create(cli, x, &temporary);
	if (to) {
		err = export_all(x, to, reader_cli_name(path), r);
		if (err == -EINTR)
			reader_cli_say(cli, "interrupted: %s was not written", x->output);
		else if (err < 0)
			reader_cli_say(cli, "exporting %s to %s: %s", path, x->output,
				       *reader_error(r) ? reader_error(r) : strerror(-err));
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
	reader_close(r);
	return err < 0 ? 2 : err;
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
	struct export x = { .encoding = "" };
	struct reader_cli cli = {
		.command = "export",
		.usage = "CHANNEL",
		.about =
			"Writes the records of a channel to a file. Exit status 1: some are missing or damaged;\n"
			"the file and standard error report which.",
		.help = "  -o, --output FILE   file to write; it appears when complete. - is standard output\n"
			"  --format FORMAT     mcap or csv (default: the extension of FILE)\n"
			"  --force             replace FILE if it exists\n"
			"  --payload FORM      CSV only: hex (default), text or none\n"
			"  --compress HOW      MCAP only: none (default) or zstd\n"
			"  --encoding NAME     MCAP only: message encoding of the payloads (default: empty)\n",
		.own = own,
		.set = set,
		.to = &x,
		.ranges = true,
		.most = 1,
	};
	int status = reader_cli_parse(&cli, argc, argv);
	const char *ending;
	char *path;

	if (status >= 0)
		return status;
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
	/* so that nothing half written is left behind */
	reader_cli_catch(&cli);
	/* nor when nobody reads what is told of gaps; on standard output it still ends the export */
	if (strcmp(x.output, "-") != 0)
		signal(SIGPIPE, SIG_IGN);
	path = reader_cli_path(&cli, cli.channels[0]);
	status = path ? export(&cli, &x, path) : 2;
	free(path);
	return status;
}
