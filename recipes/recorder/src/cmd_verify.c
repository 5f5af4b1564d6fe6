// SPDX-License-Identifier: Apache-2.0
/* ek-recorder verify: reads all segments of channels and reports every fault. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "reader_cli.h"
#include "text.h"

/* overwritten records are no fault */
static bool clean(const struct reader_counts *c)
{
	return !c->of[READER_GAP] && !c->of[READER_MISSING] && !c->of[READER_DAMAGE] &&
	       !c->of[READER_TORN];
}

static void summary(const char *name, const struct reader *r)
{
	const struct reader_counts *c = reader_counts(r);

	printf("%s: %" PRIu64 " records, %" PRIu64 " bytes", name, c->of[READER_RECORD],
	       c->payload);
	if (c->any)
		printf(", %" PRIu64 "..%" PRIu64, c->first_sequence, c->last_sequence);
	if (clean(c))
		puts(": clean");
	else
		printf(": %" PRIu64 " gaps (%" PRIu64 " lost), %" PRIu64 " missing, %" PRIu64
		       " damaged places, %" PRIu64 " torn\n",
		       c->of[READER_GAP], c->lost, c->missing, c->of[READER_DAMAGE],
		       c->of[READER_TORN]);
}

static void summary_json(const char *name, const struct reader *r)
{
	const struct reader_counts *c = reader_counts(r);
	char when[READER_RFC3339];

	fputs("],\"name\":", stdout);
	text_json(stdout, name);
	printf(",\"clean\":%s,\"segments\":%zu,\"records\":%" PRIu64 ",\"bytes\":%" PRIu64,
	       clean(c) ? "true" : "false", reader_uses(r)->count, c->of[READER_RECORD],
	       c->payload);
	if (c->any) {
		printf(",\"first_sequence\":%" PRIu64 ",\"last_sequence\":%" PRIu64,
		       c->first_sequence, c->last_sequence);
		reader_format_time(c->first_ns, when);
		printf(",\"first\":\"%s\"", when);
		reader_format_time(c->last_ns, when);
		printf(",\"last\":\"%s\"", when);
	}
	printf(",\"gaps\":%" PRIu64 ",\"lost\":%" PRIu64 ",\"missing\":%" PRIu64
	       ",\"damage\":%" PRIu64 ",\"torn\":%" PRIu64 ",\"overwritten\":%" PRIu64
	       ",\"superseded\":%" PRIu64 "}",
	       c->of[READER_GAP], c->lost, c->missing, c->of[READER_DAMAGE], c->of[READER_TORN],
	       c->of[READER_OVERWRITTEN], c->not_given);
}

/* 0: clean; 1: not clean; 2: it could not be read */
static int verify(const struct reader_cli *cli, const char *path, bool json)
{
	struct reader *r = reader_cli_open(cli, path);
	const char *name = reader_cli_name(path), *comma = "";
	struct reader_event e;
	int err, status;

	if (json)
		fputs("{\"events\":[", stdout);
	if (!r) {
		if (json) {
			fputs("],\"name\":", stdout);
			text_json(stdout, name);
			fputs(",\"clean\":false,\"error\":\"the recording could not be read\"}",
			      stdout);
		}
		return 2;
	}
	while (!(err = reader_next(r, &e)) && e.kind != READER_END) {
		if (e.kind == READER_RECORD)
			continue;
		if (json) {
			fputs(comma, stdout);
			reader_tell_json(stdout, &e);
			comma = ",";
		} else {
			reader_tell(stdout, name, &e);
		}
	}
	if (err)
		reader_cli_failed(cli, path, r, err);
	if (json)
		summary_json(name, r);
	else
		summary(name, r);
	status = err ? 2 : !clean(reader_counts(r));
	reader_close(r);
	return status;
}

int cmd_verify(int argc, char **argv)
{
	bool json = false;
	struct reader_cli cli = { 0 };
	const struct cli_option options[] = {
		OPTION("json", CLI_ON, &json, "print one JSON object with all events"),
		READER_OPTIONS(&cli),
	};
	int status, count, worst = 0;
	char **paths;

	cli.line = (struct cli){
		.command = "verify",
		.usage = "[CHANNEL...]",
		.about =
			"Reads everything in these channels, or in all channels. Exit status 1: there are gaps,\n"
			"missing records or damage.",
		.notes = READER_NOTES,
		.options = options,
		.most = -1,
	};
	status = reader_cli_parse(&cli, argc, argv);
	if (status >= 0)
		return status;
	count = reader_cli_all(&cli, &paths);
	if (count < 0)
		return 2;
	/* perhaps the medium is not mounted */
	if (!count) {
		cli_say(&cli.line, "there is no channel in %s; is the medium mounted?",
			cli.directory);
		reader_cli_free(paths, count);
		return 2;
	}
	if (json)
		fputs("{\"channels\":[", stdout);
	for (int i = 0; i < count; i++) {
		if (json && i)
			fputc(',', stdout);
		status = verify(&cli, paths[i], json);
		if (status > worst)
			worst = status;
	}
	if (json)
		printf("],\"clean\":%s}\n", worst ? "false" : "true");
	reader_cli_free(paths, count);
	if (fflush(stdout) || ferror(stdout)) {
		cli_say(&cli.line, "writing to standard output: %s", strerror(errno));
		return 2;
	}
	return worst;
}
