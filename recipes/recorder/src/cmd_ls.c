// SPDX-License-Identifier: Apache-2.0
/* ek-recorder ls: lists channels and what they hold. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "reader_cli.h"
#include "text.h"

/* A line of the list. */
struct listing {
	const char *name;
	const char *state; /* empty, ok or damaged */
	size_t segments, used;
	uint64_t bytes;	  /* of the segment files */
	bool reached;	  /* each segment was used: the oldest records are overwritten in turn */
	int64_t first_ns; /* of the oldest record */
	uint64_t first;	  /* its sequence */
	bool counted;	  /* everything was read, otherwise the newest records */
	struct reader_counts counts;
};

/* Takes what the heads and the first record say. The last record needs a reading of the newest segment. */
static void look(struct listing *l, struct reader *r)
{
	const struct reader_uses *uses = reader_uses(r);
	const struct medium_use *oldest = NULL;
	struct ekr_record_head first;
	bool damaged = false;

	l->segments = uses->count;
	for (size_t i = 0; i < uses->count; i++) {
		const struct medium_use *u = &uses->use[i];

		damaged |= u->damage != NULL;
		l->bytes += u->size;
		l->used += u->used;
		if (u->used && !oldest)
			oldest = u;
	}
	l->reached = l->used && l->used == l->segments;
	l->state = damaged ? "damaged" : l->used ? "ok" : "empty";
	if (oldest) {
		l->first = oldest->head.first_sequence;
		/* a head may be written after its first records were submitted */
		l->first_ns = reader_oldest(r, &first) ? first.realtime_ns :
							 oldest->head.realtime_ns;
	}
}

static int list(const struct reader_cli *cli, const char *path, bool count, struct listing *l)
{
	const struct reader_counts *c = &l->counts;
	struct reader_event e;
	struct reader *r;
	int err;

	*l = (struct listing){ .name = reader_cli_name(path), .counted = count };
	r = reader_cli_open(cli, path);
	if (!r)
		return 2;
	look(l, r);
	while (!(err = reader_next(r, &e)) && e.kind != READER_END)
		;
	l->counts = *reader_counts(r);
	if (count && c->any) {
		l->first = c->first_sequence;
		l->first_ns = c->first_ns;
	}
	if (c->of[READER_DAMAGE])
		l->state = "damaged";
	if (err)
		reader_cli_failed(cli, path, r, err);
	reader_close(r);
	return err ? 2 : 0;
}

static void print_json(const struct listing *l)
{
	char first[READER_RFC3339], last[READER_RFC3339];

	fputs("{\"name\":", stdout);
	text_json(stdout, l->name);
	printf(",\"state\":\"%s\",\"segments\":%zu,\"used\":%zu,\"bytes\":%" PRIu64
	       ",\"retention_reached\":%s",
	       l->state, l->segments, l->used, l->bytes, l->reached ? "true" : "false");
	if (l->counts.any) {
		reader_format_time(l->first_ns, first);
		reader_format_time(l->counts.last_ns, last);
		printf(",\"first\":\"%s\",\"last\":\"%s\",\"first_sequence\":%" PRIu64
		       ",\"last_sequence\":%" PRIu64,
		       first, last, l->first, l->counts.last_sequence);
	}
	if (l->counted)
		printf(",\"records\":%" PRIu64 ",\"payload_bytes\":%" PRIu64 ",\"gaps\":%" PRIu64
		       ",\"lost\":%" PRIu64 ",\"missing\":%" PRIu64,
		       l->counts.of[READER_RECORD], l->counts.payload, l->counts.of[READER_GAP],
		       l->counts.lost, l->counts.missing);
	putchar('}');
}

static void print_row(const struct listing *l)
{
	char first[READER_RFC3339] = "-", last[READER_RFC3339] = "-", records[32] = "-",
	     gaps[32] = "-";

	if (l->counts.any) {
		reader_format_time(l->first_ns, first);
		reader_format_time(l->counts.last_ns, last);
		/* without fractions of a second */
		strcpy(first + 19, "Z");
		strcpy(last + 19, "Z");
		/* without --count, lost records are included */
		snprintf(records, sizeof(records), "%s%" PRIu64, l->counted ? "" : "<=",
			 l->counted ? l->counts.of[READER_RECORD] :
				      l->counts.last_sequence - l->first + 1);
	}
	if (l->counted)
		snprintf(gaps, sizeof(gaps), "%" PRIu64,
			 l->counts.of[READER_GAP] + l->counts.of[READER_MISSING]);
	printf("%-32s  %-7s  %-20s  %-20s  %12s  %10.1f  %5zu/%-5zu  %-4s  %s\n", l->name, l->state,
	       first, last, records, (double)l->bytes / (1 << 20), l->used, l->segments,
	       l->reached ? "yes" : "no", gaps);
}

int cmd_ls(int argc, char **argv)
{
	bool json = false, exact = false;
	struct reader_cli cli = { 0 };
	const struct cli_option options[] = {
		OPTION("json", CLI_ON, &json, "print one JSON object"),
		OPTION("count", CLI_ON, &exact,
		       "read everything, so that records and gaps are exact"),
		READER_OPTIONS(&cli),
	};
	int status, count, worst = 0, printed = 0;
	char **paths;

	cli.line = (struct cli){
		.command = "ls",
		.usage = "[CHANNEL...]",
		.about =
			"Lists channels. Reads the heads of their segments, the oldest record and the newest records.",
		.notes = READER_NOTES,
		.options = options,
		.most = -1,
	};
	status = reader_cli_parse(&cli, argc, argv);
	if (status >= 0)
		return status;
	cli.options.newest_only = !exact;
	count = reader_cli_all(&cli, &paths);
	if (count < 0)
		return 2;
	if (json)
		fputs("{\"channels\":[", stdout);
	else
		printf("%-32s  %-7s  %-20s  %-20s  %12s  %10s  %11s  %-4s  %s\n", "CHANNEL",
		       "STATE", "FIRST", "LAST", "RECORDS", "MiB", "SEGMENTS", "FULL", "GAPS");
	for (int i = 0; i < count; i++) {
		struct listing l;

		status = list(&cli, paths[i], exact, &l);
		if (status > worst)
			worst = status;
		if (!l.state)
			continue;
		if (json && printed++)
			putchar(',');
		if (json)
			print_json(&l);
		else
			print_row(&l);
	}
	if (json)
		puts("]}");
	reader_cli_free(paths, count);
	if (fflush(stdout) || ferror(stdout)) {
		cli_say(&cli.line, "writing to standard output: %s", strerror(errno));
		return 2;
	}
	return worst;
}
