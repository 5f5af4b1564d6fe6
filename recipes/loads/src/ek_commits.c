// SPDX-License-Identifier: Apache-2.0
/*
 * ek-commits: an application that keeps its state in SQLite. It inserts rows, each in
 * a transaction of its own, and measures how long each commit takes.
 */
#include <errno.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "../../common/src/hist.h"
#include "options.h"
#include "util.h"

/* number of different rows of random data */
#define NOISES	16
#define MAX_ROW (UINT64_C(1) << 20)

static const char *const journals[] = { "delete", "truncate", "persist", "wal", NULL };
static const char *const syncs[] = { "full", "normal", NULL };

struct options {
	const char *path;
	uint64_t row;	      /* bytes of a row's data */
	uint64_t every;	      /* ns between planned commits, 0: no pause */
	uint64_t duration;    /* ns, 0: until stopped */
	unsigned int journal; /* index in journals */
	unsigned int sync;    /* index in syncs */
	bool json;
};

struct app {
	const struct options *o;
	sqlite3 *db;
	sqlite3_stmt *insert;
	unsigned char *noise; /* NOISES rows */
	struct hist commits;  /* ns, from the planned moment */
};

static void parse_options(int argc, char **argv, struct options *o)
{
	const struct opt opts[] = {
		{ "row", OPT_BYTES, &o->row, .min = 1, .max = MAX_ROW, .arg = "BYTES",
		  .help = "data of a row (default 1000)" },
		{ "every", OPT_TIME, &o->every, .max = 3600 * NSEC_PER_SEC, .arg = "TIME",
		  .help = "time between planned commits (default: no pause). A commit counts from its planned moment" },
		{ "journal", OPT_CHOICE, &o->journal, .choices = journals, .arg = "MODE",
		  .help = "SQLite's journal: delete (default), truncate, persist, wal" },
		{ "sync", OPT_CHOICE, &o->sync, .choices = syncs, .arg = "MODE",
		  .help = "SQLite's setting synchronous: full (default), normal" },
		{ "duration", OPT_TIME, &o->duration, .min = 1, .arg = "TIME",
		  .help = "end after this time (default: at SIGTERM)" },
		{ "json", OPT_FLAG, &o->json, .help = "print the summary as JSON" },
		{ 0 },
	};
	const struct opt_program program = {
		.usage = "[OPTION...] FILE",
		.about = "Creates the database FILE and commits one row at a time.",
		.positional = "one database that does not exist yet",
		.positionals = 1,
		.opts = opts,
	};

	*o = (struct options){ .row = 1000 };
	o->path = argv[opt_parse(argc, argv, &program)];
}

static _Noreturn void die_sqlite(const struct app *a, const char *doing)
{
	die("cannot %s %s: %s", doing, a->o->path, sqlite3_errmsg(a->db));
}

static void execute(const struct app *a, const char *sql, const char *doing)
{
	if (sqlite3_exec(a->db, sql, NULL, NULL, NULL) != SQLITE_OK)
		die_sqlite(a, doing);
}

static void open_database(struct app *a)
{
	const struct options *o = a->o;
	char sql[128];

	if (!access(o->path, F_OK))
		die("%s exists already. Give the name of a new file", o->path);
	if (sqlite3_open(o->path, &a->db) != SQLITE_OK)
		die_sqlite(a, "create");
	snprintf(sql, sizeof(sql), "PRAGMA journal_mode=%s; PRAGMA synchronous=%s;",
		 journals[o->journal], syncs[o->sync]);
	execute(a, sql, "configure");
	execute(a, "CREATE TABLE state (id INTEGER PRIMARY KEY, at INTEGER, data BLOB)",
		"create a table in");
	if (sqlite3_prepare_v2(a->db, "INSERT INTO state (at, data) VALUES (?, ?)", -1, &a->insert,
			       NULL) != SQLITE_OK)
		die_sqlite(a, "prepare an insertion into");
	a->noise = alloc_buffer(NOISES * o->row);
	fill_noise(a->noise, NOISES * o->row, 1);
}

/* Commits one row. The time of the commit counts from @planned (ns). */
static void commit(struct app *a, uint64_t planned)
{
	const unsigned char *data = a->noise + a->commits.count % NOISES * a->o->row;

	sqlite3_bind_int64(a->insert, 1, (sqlite3_int64)planned);
	sqlite3_bind_blob(a->insert, 2, data, (int)a->o->row, SQLITE_STATIC);
	if (sqlite3_step(a->insert) != SQLITE_DONE || sqlite3_reset(a->insert) != SQLITE_OK)
		die_sqlite(a, "commit to");
	hist_add(&a->commits, now_ns() - planned);
}

static void summary(const struct app *a, uint64_t ns)
{
	const struct hist *h = &a->commits;
	double s = (double)ns / 1e9, rate = ns ? (double)h->count / s : 0;

	if (a->o->json) {
		printf("{\"commits\":%llu,\"bytes\":%llu,\"seconds\":%.3f,\"per_second\":%.2f,",
		       (unsigned long long)h->count, (unsigned long long)(h->count * a->o->row), s,
		       rate);
		hist_json(stdout, "commit", h);
		puts("}");
	} else {
		printf("%.1f s: %llu commits, %.1f a second; mean %.2f, max %.2f ms\n", s,
		       (unsigned long long)h->count, rate, (double)hist_mean(h) / 1e6,
		       (double)h->max / 1e6);
	}
	if (fflush(stdout))
		die("cannot write the summary: %s", strerror(errno));
}

int main(int argc, char **argv)
{
	static struct app a;
	struct options o;
	uint64_t start, stop, due;

	parse_options(argc, argv, &o);
	a.o = &o;
	open_database(&a);
	catch_signals(NULL);

	start = due = now_ns();
	stop = o.duration ? start + o.duration : UINT64_MAX;
	while (!stopping && now_ns() < stop) {
		commit(&a, o.every ? due : now_ns());
		due += o.every;
		if (o.every)
			sleep_until(due < stop ? due : stop);
	}
	summary(&a, now_ns() - start);
	sqlite3_finalize(a.insert);
	if (sqlite3_close(a.db) != SQLITE_OK)
		die_sqlite(&a, "close");
	return 0;
}
