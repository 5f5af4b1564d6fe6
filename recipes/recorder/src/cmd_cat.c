// SPDX-License-Identifier: Apache-2.0
/*
 * ek-recorder cat and follow: the records of a channel to standard output.
 *
 *	payload		as it is, back to back
 *	lines		each with a line feed
 *	hex		SEQUENCE TIME HEX, a line each
 *	framed		struct frame, then the payload: loses nothing
 *
 * Everything else goes to standard error as a line. A framed stream contains it, with a sentence as
 * the payload.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "reader_cli.h"
#include "scope.h"
#include "text.h"

enum form { PAYLOAD, LINES, HEX, FRAMED };

/* Before each payload, little-endian. */
struct frame {
	uint32_t length;       /* of the payload, bytes */
	uint32_t kind;	       /* enum reader_kind */
	uint64_t sequence;     /* of a gap or missing records: the last */
	uint64_t first;	       /* of a gap or missing records: the first; otherwise as sequence */
	uint64_t monotonic_ns; /* of a record or gap, otherwise 0 */
	int64_t realtime_ns;
};

/* The options of both commands; @form: an enum form. */
#define FORMS(form)                                                                            \
	OPTION("lines", CLI_SET, form, "print a line feed after each record", .least = LINES), \
		OPTION("hex", CLI_SET, form,                                                   \
		       "print a line for each record: sequence, time, payload in hex",         \
		       .least = HEX),                                                          \
		OPTION("framed", CLI_SET, form,                                                \
		       "print each record after a head with its length, sequence and times",   \
		       .least = FRAMED)

static void print_frame(const char *channel, const struct reader_event *e)
{
	struct frame f = {
		.length = e->length,
		.kind = e->kind,
		.sequence = e->sequence,
		.first = e->kind == READER_RECORD ? e->sequence : e->first,
		.monotonic_ns = e->monotonic_ns,
		.realtime_ns = e->realtime_ns,
	};
	const void *payload = e->payload;
	char words[512];

	if (e->kind != READER_RECORD) {
		reader_sentence(words, sizeof(words), channel, e);
		f.length = (uint32_t)strlen(words);
		payload = words;
	}
	fwrite(&f, sizeof(f), 1, stdout);
	fwrite(payload, 1, f.length, stdout);
}

/* 0 or a negative errno */
static int print(enum form form, const char *channel, const struct reader_event *e)
{
	char when[READER_RFC3339];

	errno = 0;
	if (e->kind != READER_RECORD && form != FRAMED)
		reader_tell(stderr, channel, e);
	if (form == FRAMED) {
		print_frame(channel, e);
	} else if (e->kind == READER_RECORD) {
		if (form == HEX) {
			reader_format_time(e->realtime_ns, when);
			printf("%" PRIu64 " %s ", e->sequence, when);
			text_hex(stdout, e->payload, e->length);
		} else {
			fwrite(e->payload, 1, e->length, stdout);
		}
		if (form != PAYLOAD)
			putchar('\n');
	}
	return ferror(stdout) ? -(errno ? errno : EIO) : 0;
}

/*
 * Prints everything, and when following waits for more. @every_ms: longest time between two looks at the end.
 * Returns the exit status.
 */
static int copy(const struct reader_cli *cli, enum form form, int every_ms)
{
	FREED char *path = reader_cli_path(cli, cli->line.arguments[0]);
	struct reader *r = path ? reader_cli_open(cli, path) : NULL;
	struct reader_event e;
	bool fault = false;
	int err;

	if (!r)
		return 2;
	while (!(err = reader_next(r, &e))) {
		if (e.kind != READER_END) {
			fault |= reader_is_fault(e.kind);
			err = print(form, reader_cli_name(path), &e);
			if (err)
				break;
			continue;
		}
		if (fflush(stdout)) {
			err = -errno;
			break;
		}
		if (!cli->options.follow || reader_over(r) ||
		    reader_wait(r, every_ms, STDOUT_FILENO) < 0)
			break;
	}
	/* a signal ends following */
	if (err == -EINTR)
		err = fflush(stdout) ? -errno : 0;
	if (err)
		reader_cli_failed(cli, path, r, err);
	reader_close(r);
	return err ? 2 : fault;
}

int cmd_cat(int argc, char **argv)
{
	enum form form = PAYLOAD;
	struct reader_cli cli = { 0 };
	const struct cli_option options[] = { FORMS(&form), READER_RANGES(&cli),
					      READER_OPTIONS(&cli) };
	int status;

	cli.line = (struct cli){
		.command = "cat",
		.usage = "CHANNEL",
		.about =
			"Prints the records of a channel. Exit status 1: some are missing or damaged, which\n"
			"standard error reports. A gap that the recorder recorded does not count.",
		.notes = READER_NOTES,
		.options = options,
		.least = 1,
		.most = 1,
	};
	status = reader_cli_parse(&cli, argc, argv);
	return status < 0 ? copy(&cli, form, 0) : status;
}

int cmd_follow(int argc, char **argv)
{
	enum form form = PAYLOAD;
	uint64_t every_ns = NSEC_PER_SEC;
	struct reader_cli cli = { 0 };
	const struct cli_option options[] = {
		FORMS(&form),
		OPTION("every", CLI_DURATION, &every_ns,
		       "TIME\tlongest time between two checks for new records (default 1s); a write\n"
		       "causes a check at once",
		       .least = NSEC_PER_MSEC, .most = NSEC_PER_SEC),
		READER_RANGES(&cli),
		READER_OPTIONS(&cli),
	};
	int status;

	cli.line = (struct cli){
		.command = "follow",
		.usage = "CHANNEL",
		.about =
			"Prints the records of a channel as they are written, from now on or from --from.\n"
			"Exits when --to has passed, on a signal, or when its output is closed.\n"
			"Exit status as for cat.",
		.notes = READER_NOTES,
		.options = options,
		.least = 1,
		.most = 1,
	};
	status = reader_cli_parse(&cli, argc, argv);
	if (status >= 0)
		return status;
	reader_cli_catch(&cli);
	cli.options.follow = true;
	cli.options.from_end = !cli.options.range.from.set && !cli.sequences;
	return copy(&cli, form, (int)(every_ns / NSEC_PER_MSEC));
}
