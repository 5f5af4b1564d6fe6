// SPDX-License-Identifier: Apache-2.0
/* ek-recorder ls: which channels there are and what they hold. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "reader_cli.h"

enum { JSON = READER_OWN, COUNT };

struct ls {
	bool json;
	bool count; /* read all of it, so that records and gaps are exact */
};

/* What is known of a channel. */
struct listing {
	const char *name;
	const char *state; /* empty, ok or damaged */
	size_t segments, used;
	uint64_t bytes; /* of the files */
	bool reached;	/* each segment was used: the oldest records are given up in turn */
	bool any;	/* there is a record; then: */
	int64_t first_ns, last_ns;
	uint64_t first, last; /* sequences */
	bool counted;	      /* then: */
	struct reader_counts counts;
};

static const char *set(void *to, int option, const char *value)
{
	struct ls *ls = to;

	(void)value;
	if (option == JSON)
		ls->json = true;
	else if (option == COUNT)
		ls->count = true;
	else
		return "is not accepted: this command has no such option";
	return NULL;
}

/* What the heads and the first record say; the last one is found by reading the newest segment. */
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
		/* a head may be younger than its records */
		l->first_ns = reader_oldest(r, &first) ? first.realtime_ns :
							 oldest->head.realtime_ns;
	}
}

static int list(const struct reader_cli *cli, const char *path, bool count, struct listing *l)
{
	const struct reader_counts *c;
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
	c = reader_counts(r);
	l->counts = *c;
	l->any = c->any;
	l->last = c->last_sequence;
	l->last_ns = c->last_ns;
	if (count && c->any) {
		l->first = c->first_sequence;
		l->first_ns = c->first_ns;
	}
	if (c->of[READER_DAMAGE])
		l->state = "damaged";
	if (err)
		reader_cli_say(cli, "%s: %s", path,
			       *reader_error(r) ? reader_error(r) : strerror(-err));
	reader_close(r);
	return err ? 2 : 0;
}

static void print_json(const struct listing *l)
{
	char first[READER_RFC3339], last[READER_RFC3339];

	fputs("{\"name\":", stdout);
	reader_json_string(stdout, l->name);
	printf(",\"state\":\"%s\",\"segments\":%zu,\"used\":%zu,\"bytes\":%" PRIu64
	       ",\"retention_reached\":%s",
	       l->state, l->segments, l->used, l->bytes, l->reached ? "true" : "false");
	if (l->any) {
		reader_format_time(l->first_ns, first);
		reader_format_time(l->last_ns, last);
		printf(",\"first\":\"%s\",\"last\":\"%s\",\"first_sequence\":%" PRIu64
		       ",\"last_sequence\":%" PRIu64,
		       first, last, l->first, l->last);
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

	if (l->any) {
		reader_format_time(l->first_ns, first);
		reader_format_time(l->last_ns, last);
		/* to the second: a list is for people */
		strcpy(first + 19, "Z");
		strcpy(last + 19, "Z");
		/* without --count, the lost ones are among them */
		snprintf(records, sizeof(records), "%s%" PRIu64, l->counted ? "" : "<=",
			 l->counted ? l->counts.of[READER_RECORD] : l->last - l->first + 1);
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
	static const struct option own[] = {
		{ "json", no_argument, NULL, JSON },
		{ "count", no_argument, NULL, COUNT },
		{ 0 },
	};
	struct ls ls = { 0 };
	struct reader_cli cli = {
		.command = "ls",
		.usage = "[CHANNEL...]",
		.about =
			"Lists channels. Reads the heads of their segments, the oldest record and the newest records.",
		.help = "  --json              print one JSON object\n"
			"  --count             read everything, so that records and gaps are exact\n",
		.own = own,
		.set = set,
		.to = &ls,
		.most = -1,
	};
	int status = reader_cli_parse(&cli, argc, argv), count, worst = 0, printed = 0;
	char **paths;

	if (status >= 0)
		return status;
	cli.options.newest_only = !ls.count;
	count = reader_cli_all(&cli, &paths);
	if (count < 0)
		return 2;
	if (ls.json)
		fputs("{\"channels\":[", stdout);
	else
		printf("%-32s  %-7s  %-20s  %-20s  %12s  %10s  %11s  %-4s  %s\n", "CHANNEL",
		       "STATE", "FIRST", "LAST", "RECORDS", "MiB", "SEGMENTS", "FULL", "GAPS");
	for (int i = 0; i < count; i++) {
		struct listing l;

		status = list(&cli, paths[i], ls.count, &l);
		if (status > worst)
			worst = status;
		if (!l.state)
			continue;
		if (ls.json && printed++)
			putchar(',');
		if (ls.json)
			print_json(&l);
		else
			print_row(&l);
	}
	if (ls.json)
		puts("]}");
	reader_cli_free(paths, count);
	if (fflush(stdout) || ferror(stdout)) {
		reader_cli_say(&cli, "writing to standard output: %s", strerror(errno));
		return 2;
	}
	return worst;
}
