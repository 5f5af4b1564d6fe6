// SPDX-License-Identifier: Apache-2.0
/*
 * ek-recorder run: the recorder. This thread starts the others, writes statistics
 * and feeds the watchdog each second, and ends everything in order.
 */
#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <systemd/sd-daemon.h>

#include "channel.h"
#include "cli.h"
#include "clock.h"
#include "commands.h"
#include "ingest.h"
#include "listen.h"
#include "load.h"
#include "log.h"
#include "memory.h"
#include "prepare.h"
#include "stats.h"
#include "storage.h"

/* a loop that has not turned for this long hangs: they turn each second */
#define LOOP_HANGS (5 * NSEC_PER_SEC)
/* it has started when its channels are open, or after this; systemd would wait 90 s */
#define START_TIME (20 * NSEC_PER_SEC)
#define START_POLL (10 * NSEC_PER_MSEC)

struct recorder {
	struct recorder_config config;
	struct channel channels[CHANNELS_MAX];
	struct store *stores[CHANNELS_MAX];
	unsigned int count;
	struct prepare prepare;
	struct storage storage;
	struct ingest ingest;
	int listener;
	bool own_socket;
};

static void set_limits(void)
{
	const struct sched_param plain = { 0 };
	struct rlimit files;

	/*
	 * Threads of this class do not take the CPU from others as they are woken: a
	 * writer whose message wakes one is not held up in the middle of it. All
	 * threads inherit it but those that have a priority.
	 */
	if (sched_setscheduler(0, SCHED_BATCH, &plain))
		log_warning("setting SCHED_BATCH: %s; writers that use the socket may wait longer",
			    strerror(errno));
	/* each segment is an open file */
	if (!getrlimit(RLIMIT_NOFILE, &files)) {
		files.rlim_cur = files.rlim_max;
		setrlimit(RLIMIT_NOFILE, &files);
	}
	memory_lock();
}

static int open_channels(struct recorder *r, struct error *e)
{
	for (unsigned int i = 0; i < r->count; i++) {
		struct channel *c = &r->channels[i];
		int ret = channel_open(c, e);

		if (ret == -ENOMEM && !c->broken.code) {
			/* the others may have what they need */
			c->broken = *e;
			log_error("channel %s: %s; the channel is not recorded", c->config.name,
				  e->text);
		} else if (ret) {
			return ret;
		}
	}
	return 0;
}

/* channels that work come first, so that storage sees only these */
static unsigned int list_stores(struct recorder *r)
{
	unsigned int n = 0;

	for (unsigned int i = 0; i < r->count; i++)
		if (!r->channels[i].broken.code)
			r->stores[n++] = &r->channels[i].store;
	return n;
}

static int start(struct recorder *r, struct error *e)
{
	int priority = (int)r->config.priority;
	int ret = open_channels(r, e);

	if (ret)
		return ret;
	ret = r->listener = listen_open(&r->config, &r->own_socket, e);
	if (ret < 0)
		return ret;
	ret = prepare_open(&r->prepare, &r->config, r->channels, r->count, e);
	if (!ret)
		ret = ingest_open(&r->ingest, r->channels, r->count, r->listener, e);
	if (!ret)
		ret = storage_start(&r->storage, r->stores, list_stores(r), r->ingest.done_fd,
				    priority, e);
	/* storage is to come after what ingest may need: a little less urgent */
	if (!ret)
		ret = ingest_start(&r->ingest, &r->storage, priority ? priority + 1 : 0, e);
	return ret ? ret : prepare_start(&r->prepare, r->ingest.done_fd, e);
}

/*
 * Its own loops, and not the medium of a channel: a restart mends no medium, and
 * would cost the others their records.
 */
static bool healthy(const struct recorder *r)
{
	uint64_t ingest = atomic_load(&r->ingest.alive_ns);
	uint64_t storage = atomic_load(&r->storage.alive_ns);
	/* not before: these may be of this moment */
	uint64_t now = monotonic_ns();

	return now - ingest < LOOP_HANGS && now - storage < LOOP_HANGS;
}

static void tell_status(struct recorder *r)
{
	unsigned int recording = 0;
	char amiss[200] = "";

	for (unsigned int i = 0; i < r->count; i++) {
		struct error reason;
		const char *state = stats_state(&r->channels[i], &reason);

		recording += !strcmp(state, "recording");
		if (reason.code && !*amiss)
			snprintf(amiss, sizeof(amiss), "; %.40s: %.120s", r->channels[i].file,
				 reason.text);
	}
	sd_notifyf(0, "STATUS=%u of %u channels are recording%s", recording, r->count, amiss);
}

static void each_second(struct recorder *r)
{
	static int said;
	struct error e = { 0 };
	uint64_t now = monotonic_ns();

	for (unsigned int i = 0; i < r->count; i++)
		if (!r->channels[i].broken.code)
			store_watch(&r->channels[i].store, now);
	if (*r->config.statistics && stats_write(r->config.statistics, r->channels, r->count, &e) &&
	    said != e.code)
		log_warning("%s; the statistics are not updated", e.text);
	said = e.code;
	tell_status(r);
	if (healthy(r))
		sd_notify(0, "WATCHDOG=1");
}

static void stop(struct recorder *r)
{
	const uint64_t began = monotonic_ns();
	bool ended;

	sd_notify(0, "STOPPING=1");
	prepare_ask_to_stop(&r->prepare);
	ingest_stop(&r->ingest, began);
	ended = storage_stop(&r->storage, began);
	ingest_part(&r->ingest);
	ended = prepare_end(&r->prepare) && ended;
	if (*r->config.statistics)
		stats_write(r->config.statistics, r->channels, r->count, &(struct error){ 0 });
	if (r->own_socket)
		unlink(r->config.socket);
	close(r->listener);
	/* the end of the process closes what these threads still have */
	if (!ended)
		return;
	ingest_close(&r->ingest);
	prepare_close(&r->prepare);
	for (unsigned int i = 0; i < r->count; i++)
		channel_close(&r->channels[i]);
}

/* it has started: each channel has been tried, or its medium hangs */
static bool has_started(const struct recorder *r, uint64_t now, uint64_t by)
{
	if (prepare_tried(&r->prepare))
		return true;
	if (now < by)
		return false;
	log_warning("some channels are not open after %u s; their medium may not respond",
		    (unsigned int)(START_TIME / NSEC_PER_SEC));
	return true;
}

static void wait_for_signal(struct recorder *r, const sigset_t *signals)
{
	uint64_t next = 0, by = monotonic_ns() + START_TIME;
	bool started = false;

	for (;;) {
		uint64_t now = monotonic_ns();
		struct timespec wait;

		if (!started) {
			started = has_started(r, now, by);
			if (started)
				sd_notify(0, "READY=1");
		}
		if (started && now >= next) {
			each_second(r);
			next = now + NSEC_PER_SEC;
			continue;
		}
		wait = timespec_of(started ? next - now : START_POLL);
		if (sigtimedwait(signals, NULL, &wait) > 0)
			return;
	}
}

static int run(const char *dir)
{
	static struct recorder r;
	sigset_t signals;
	struct error e;
	int ret;

	sigemptyset(&signals);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGINT);
	sigprocmask(SIG_BLOCK, &signals, NULL);
	signal(SIGPIPE, SIG_IGN);
	ret = load_config(dir, &r.config, r.channels, &e);
	if (ret < 0) {
		log_error("%s", e.text);
		listen_refuse(e.text);
		return 2;
	}
	r.count = (unsigned int)ret;
	if (!r.count)
		log_warning("%s/channels.d has no channel; nothing is recorded", dir);
	set_limits();
	if (start(&r, &e)) {
		log_error("%s", e.text);
		if (r.own_socket)
			unlink(r.config.socket);
		return 1;
	}
	wait_for_signal(&r, &signals);
	stop(&r);
	return 0;
}

static const char help[] =
	"Usage: ek-recorder run [--config DIR]\n\n"
	"Records all channels that DIR (default " CONFIG_DIR
	") declares, until SIGTERM or SIGINT.\n"
	"It then writes what was submitted, for up to 5 s, and exits.\n"
	"Exit status 1: it could not start; 2: wrong usage or invalid configuration.\n";

int cmd_run(int argc, char **argv)
{
	const char *dir = CONFIG_DIR;
	int status = cli_config(argc, argv, help, &dir, NULL);

	return status < 0 ? run(dir) : status;
}
