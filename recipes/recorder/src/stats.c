// SPDX-License-Identifier: Apache-2.0
/* The statistics of all channels. */
#include "stats.h"

#include <errno.h>
#include <inttypes.h>
#include <sys/stat.h>
#include <unistd.h>

#include "clock.h"
#include "text.h"

#define VERSION 1

unsigned int stats_bucket(uint64_t us)
{
	unsigned int e, bucket;

	if (us < 8)
		return (unsigned int)us;
	e = 63 - (unsigned int)__builtin_clzll(us);
	bucket = (e - 2) * 8 + (unsigned int)(us >> (e - 3) & 7);
	return bucket < STATS_BUCKETS ? bucket : STATS_BUCKETS - 1;
}

/* INDEX:COUNT pairs of the buckets of stats_bucket() that are not empty. Each sums buckets of @h. */
static void print_hist(FILE *to, const char *name, const struct hist *h)
{
	uint64_t sums[STATS_BUCKETS] = { 0 };
	const char *between = "";

	for (unsigned int i = 0; i < HIST_BUCKETS; i++)
		sums[stats_bucket(hist_upper(i))] += h->buckets[i];
	fprintf(to, ",\"%s_us\":\"", name);
	for (unsigned int i = 0; i < STATS_BUCKETS; i++) {
		if (!sums[i])
			continue;
		fprintf(to, "%s%u:%" PRIu64, between, i, sums[i]);
		between = ",";
	}
	fprintf(to, "%s\",\"%s_p99_us\":%" PRIu64 ",\"%s_max_us\":%" PRIu64, h->count ? "" : "-",
		name, hist_percentile(h, 9900), name, h->max);
}

const char *stats_state(struct channel *c, struct error *reason)
{
	static const char *const names[] = { "failed", "preparing", "recording", "failed" };
	enum store_state state = STORE_CLOSED;

	*reason = c->broken;
	if (!c->broken.code)
		state = store_state(&c->store, reason);
	if (!reason->code)
		*reason = c->outdated;
	if (!reason->code)
		reason->text[0] = '\0';
	return names[state];
}

static uint64_t load(_Atomic uint64_t *counter)
{
	return atomic_load_explicit(counter, memory_order_relaxed);
}

static void print_counts(FILE *to, struct channel *c)
{
	static struct store_counts counts; /* static because it is large; one thread prints */
	uint64_t generation, segments, segment, now;

	pthread_mutex_lock(&c->store.lock);
	counts = c->store.counts;
	generation = c->store.generation;
	segments = c->config.segments;
	segment = c->config.segment;
	pthread_mutex_unlock(&c->store.lock);
	/* after the counts were read, so that no time in them is later */
	now = monotonic_ns();
	fprintf(to, ",\"records\":%" PRIu64 ",\"bytes\":%" PRIu64 ",\"durable\":%" PRIu64,
		load(&c->intake.records), load(&c->intake.bytes), counts.durable);
	fprintf(to,
		",\"lost\":{\"overrun\":%" PRIu64 ",\"absent\":%" PRIu64 ",\"failed\":%" PRIu64
		",\"writer\":%" PRIu64 ",\"restart\":%" PRIu64 "}",
		load(&c->intake.overrun), load(&c->intake.absent), counts.failed,
		load(&c->intake.broken), load(&c->intake.restarts));
	fprintf(to,
		",\"late\":%" PRIu64 ",\"errors\":%" PRIu64 ",\"batches\":%" PRIu64
		",\"medium_bytes\":%" PRIu64,
		counts.late, counts.errors, counts.batches, counts.bytes);
	fprintf(to, ",\"backlog\":%zu,\"buffer\":%zu", buffer_backlog(&c->buffer),
		c->buffer.count * c->buffer.chunk_size);
	fprintf(to,
		",\"segments\":%" PRIu32 ",\"segments_wanted\":%" PRIu64
		",\"segment_bytes\":%" PRIu64 ",\"generation\":%" PRIu64,
		atomic_load(&c->made), segments, segment, generation);
	if (counts.synced_ns)
		fprintf(to, ",\"synced_ms_ago\":%" PRIu64,
			(now - counts.synced_ns) / NSEC_PER_MSEC);
	else
		fputs(",\"synced_ms_ago\":null", to);
	print_hist(to, "write", &counts.write);
	print_hist(to, "record", &counts.record);
}

static void print_channel(FILE *to, struct channel *c)
{
	struct error reason;
	const char *state = stats_state(c, &reason);

	fprintf(to, "{\"state\":\"%s\",\"reason\":", state);
	text_json(to, reason.text);
	fprintf(to, ",\"writer\":%d", (int)atomic_load(&c->writer));
	if (!c->broken.code) {
		fprintf(to,
			",\"record_size\":%" PRIu64 ",\"period_ns\":%" PRIu64
			",\"window_ns\":%" PRIu64,
			c->config.record_size, c->config.period_ns, c->config.window_ns);
		print_counts(to, c);
	}
	fputc('}', to);
}

void stats_print(FILE *to, struct channel *channels, unsigned int count, const char *outdated)
{
	const char *between = "\n";

	fprintf(to, "{\"version\":%d,\"pid\":%d,\"monotonic_ns\":%" PRIu64 ",\"configuration\":",
		VERSION, (int)getpid(), monotonic_ns());
	text_json(to, outdated);
	fputs(",\"channels\":{", to);
	for (unsigned int i = 0; i < count; i++) {
		if (atomic_load(&channels[i].use) == CHANNEL_UNUSED)
			continue;
		fputs(between, to);
		between = ",\n";
		text_json(to, channels[i].file);
		fputc(':', to);
		print_channel(to, &channels[i]);
	}
	fputs("\n}}\n", to);
}

int stats_write(const char *path, struct channel *channels, unsigned int count,
		const char *outdated, struct error *e)
{
	char temporary[CONFIG_PATH + 8];
	FILE *f;
	int code;

	snprintf(temporary, sizeof(temporary), "%s.new", path);
	f = fopen(temporary, "we");
	if (!f)
		return set_errno(e, errno, "writing %s", temporary);
	fchmod(fileno(f), 0644);
	stats_print(f, channels, count, outdated);
	code = ferror(f) ? EIO : 0;
	/* not flushed: after a power cut the file would be out of date */
	if (fclose(f))
		code = errno;
	if (!code && rename(temporary, path))
		code = errno;
	if (!code)
		return 0;
	unlink(temporary);
	return set_errno(e, code, "writing %s", path);
}
