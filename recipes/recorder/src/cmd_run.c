// SPDX-License-Identifier: Apache-2.0
/*
 * ek-recorder run: the recorder. This thread starts the others, writes statistics and feeds the watchdog
 * every second, reloads the configuration, and shuts down cleanly.
 */
#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include <systemd/sd-daemon.h>

#include "cli.h"
#include "clock.h"
#include "recorder.h"
#include "stats.h"
#include "thread.h"

/* a loop without a turn for this time hangs: it turns every second */
#define LOOP_HANGS (5 * NSEC_PER_SEC)
/* the start is complete when all channels are open, or after this time; systemd would wait 90 s */
#define START_TIME (20 * NSEC_PER_SEC)
#define START_POLL (10 * NSEC_PER_MSEC)

static void set_limits(void)
{
	const struct sched_param plain = { 0 };
	struct rlimit files;

	/*
	 * Threads of this class do not preempt others when they wake up. So a writer whose message wakes one
	 * is not interrupted in the middle of its call. All threads without a priority inherit the class.
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

/* Sets all of a place except its use, which the ingest thread may read at any time. NULL: zeros. */
static void set_place(struct channel *to, const struct channel *from)
{
	static const struct channel none;
	const size_t begin = offsetof(struct channel, declared);

	memcpy((char *)to + begin, (const char *)(from ? from : &none) + begin,
	       sizeof(*to) - begin);
}

static int start_channel(struct recorder *r, unsigned int i, struct error *e)
{
	struct channel *c = &r->channels[i];
	int ret = channel_open(c, e);

	if (ret || c->broken.code)
		return ret;
	ret = storage_add(&r->storage, i, &c->store, e);
	if (!ret) {
		ret = prepare_keep(&r->prepare, i, e);
		/* it has nothing to write yet, so this does not wait */
		if (ret)
			storage_remove(&r->storage, i);
	}
	if (ret)
		channel_close(c);
	return ret;
}

/*
 * Starts a channel whose place was unused: memory, threads, connections. If that fails, the channel has the reason
 * in `broken`, and the next reload tries again.
 */
static int add_channel(struct recorder *r, unsigned int i, struct error *e)
{
	struct channel *c = &r->channels[i];
	int ret = start_channel(r, i, e);

	if (ret) {
		c->broken = *e;
		log_error("channel %s: %s; the channel is not recorded", c->file, e->text);
	}
	/* connections to it are accepted from now on */
	atomic_store(&c->use, CHANNEL_USED);
	/* its prepare thread may have found records that the ingest thread has to pass on */
	eventfd_write(r->ingest.done_fd, 1);
	return ret;
}

static int start(struct recorder *r, const struct channel *declared, unsigned int count,
		 struct error *e)
{
	int priority = (int)r->config.priority;
	int ret = r->listener = listen_open(&r->config, &r->own_socket, e);

	if (ret < 0)
		return ret;
	ret = ingest_open(&r->ingest, r->channels, CHANNELS_MAX, r->listener, e);
	if (!ret)
		ret = prepare_open(&r->prepare, &r->config, r->channels, CHANNELS_MAX,
				   r->ingest.done_fd, e);
	if (!ret)
		ret = storage_start(&r->storage, CHANNELS_MAX, r->ingest.done_fd, priority, e);
	r->ingest.prepare = &r->prepare;
	r->prepare.storage = &r->storage;
	for (unsigned int i = 0; i < count && !ret; i++) {
		set_place(&r->channels[i], &declared[i]);
		ret = add_channel(r, i, e);
		/* the other channels may have enough memory */
		if (ret == -ENOMEM)
			ret = 0;
	}
	/* storage is a little less urgent than ingest */
	return ret ? ret : ingest_start(&r->ingest, &r->storage, priority ? priority + 1 : 0, e);
}

/*
 * The watchdog covers the ingest thread. It does not cover the threads that write: they wait for the medium of
 * their channel. A restart would not help that medium, and it would cost other channels their records.
 */
static bool healthy(const struct recorder *r)
{
	uint64_t ingest = atomic_load(&r->ingest.alive_ns);
	/* read after the other, so that it is not earlier */
	uint64_t now = monotonic_ns();

	return now - ingest < LOOP_HANGS;
}

static void tell_status(struct recorder *r)
{
	unsigned int recording = 0, count = 0;
	char problem[200] = "";

	if (r->outdated.code)
		snprintf(problem, sizeof(problem), "; %.180s", r->outdated.text);
	for (unsigned int i = 0; i < CHANNELS_MAX; i++) {
		struct error reason;
		const char *state;

		if (atomic_load(&r->channels[i].use) == CHANNEL_UNUSED)
			continue;
		state = stats_state(&r->channels[i], &reason);
		count++;
		recording += !strcmp(state, "recording");
		if (reason.code && !*problem)
			snprintf(problem, sizeof(problem), "; %.40s: %.120s", r->channels[i].file,
				 reason.text);
	}
	sd_notifyf(0, "STATUS=%u of %u channels are recording%s", recording, count, problem);
}

static void each_second(struct recorder *r)
{
	static int logged;
	struct error e = { 0 };
	uint64_t now = monotonic_ns();

	for (unsigned int i = 0; i < CHANNELS_MAX; i++)
		if (atomic_load(&r->channels[i].use) != CHANNEL_UNUSED &&
		    !r->channels[i].broken.code)
			store_watch(&r->channels[i].store, now);
	if (*r->config.statistics &&
	    stats_write(r->config.statistics, r->channels, CHANNELS_MAX, r->outdated.text, &e) &&
	    logged != e.code)
		log_warning("%s; the statistics are not updated", e.text);
	logged = e.code;
	tell_status(r);
	if (healthy(r))
		sd_notify(0, "WATCHDOG=1");
}

/* --- a changed configuration ----------------------------------------------------------- */

static struct channel *find(struct channel *channels, unsigned int count, const char *file)
{
	for (unsigned int i = 0; i < count; i++)
		if (atomic_load(&channels[i].use) != CHANNEL_UNUSED &&
		    !strcmp(channels[i].file, file))
			return &channels[i];
	return NULL;
}

static unsigned int free_place(const struct recorder *r)
{
	unsigned int i = 0;

	while (i < CHANNELS_MAX && atomic_load(&r->channels[i].use) != CHANNEL_UNUSED)
		i++;
	return i;
}

/* A file that has an error takes nothing away: @why becomes what `status` says of it. */
static void keep_configuration(struct error *outdated, const struct error *why)
{
	set_error(outdated, why->code, "%.190s; the earlier configuration stays in force",
		  why->text);
}

/* Adds, changes and removes channels. One that is as before is not touched. */
static void reload(struct recorder *r)
{
	static struct channel declared[CHANNELS_MAX];
	struct recorder_config config;
	unsigned int added = 0, removed = 0;
	struct error e;
	int count;

	sd_notifyf(0, "RELOADING=1\nMONOTONIC_USEC=%" PRIu64, monotonic_ns() / 1000);
	r->outdated = (struct error){ 0 };
	count = load_config(r->dir, &config, declared, &e);
	if (count < 0) {
		keep_configuration(&r->outdated, &e);
		log_error("%s", r->outdated.text);
		each_second(r);
		sd_notify(0, "READY=1");
		return;
	}
	if (memcmp(&config, &r->config, sizeof(config)) != 0) {
		set_error(&r->outdated, EBUSY,
			  "%.150s/recorder.conf has changed; restart the recorder to apply that",
			  r->dir);
		log_warning("%s", r->outdated.text);
	}
	for (int k = 0; k < count; k++)
		atomic_store(&declared[k].use, CHANNEL_USED);
	for (unsigned int i = 0; i < CHANNELS_MAX; i++) {
		struct channel *c = &r->channels[i], *n;

		if (atomic_load(&c->use) != CHANNEL_USED)
			continue;
		n = find(declared, (unsigned int)count, c->file);
		c->outdated = (struct error){ 0 };
		/* a file that became invalid ends no recording */
		if (n && n->broken.code && !c->broken.code) {
			keep_configuration(&c->outdated, &n->broken);
			continue;
		}
		if (n && !n->broken.code && !c->broken.code &&
		    !memcmp(&n->declared, &c->declared, sizeof(c->declared)))
			continue;
		if (!shutdown_channel(r, c, each_second))
			continue;
		set_place(c, NULL);
		atomic_store(&c->use, CHANNEL_UNUSED);
		removed++;
	}
	for (int k = 0; k < count; k++) {
		unsigned int i = free_place(r);

		if (find(r->channels, CHANNELS_MAX, declared[k].file))
			continue;
		if (i == CHANNELS_MAX) {
			log_error(
				"channel %s: not recorded, because there are more than %u channels",
				declared[k].file, CHANNELS_MAX);
			continue;
		}
		set_place(&r->channels[i], &declared[k]);
		added += !add_channel(r, i, &e);
	}
	each_second(r);
	log_info("configuration reloaded: %u channels removed or changed, %u added or changed",
		 removed, added);
	sd_notify(0, "READY=1");
}

/* the start is complete: each channel has been tried, or its medium hangs */
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
		switch (sigtimedwait(signals, NULL, &wait)) {
		case SIGHUP:
			reload(r);
			break;
		case SIGTERM:
		case SIGINT:
			return;
		}
	}
}

static int run(const char *dir)
{
	static struct channel declared[CHANNELS_MAX];
	static struct recorder r;
	sigset_t signals;
	struct error e;
	int ret;

	sigemptyset(&signals);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGHUP);
	sigprocmask(SIG_BLOCK, &signals, NULL);
	signal(SIGPIPE, SIG_IGN);
	r.dir = dir;
	ret = load_config(dir, &r.config, declared, &e);
	if (ret < 0) {
		log_error("%s", e.text);
		listen_refuse(e.text);
		return 2;
	}
	if (!ret)
		log_warning("%s/channels.d has no channel; nothing is recorded", dir);
	set_limits();
	if (start(&r, declared, (unsigned int)ret, &e)) {
		log_error("%s", e.text);
		if (r.own_socket)
			unlink(r.config.socket);
		return 1;
	}
	wait_for_signal(&r, &signals);
	shutdown_recorder(&r);
	return 0;
}

int cmd_run(int argc, char **argv)
{
	const char *dir = CONFIG_DIR;
	const struct cli_option options[] = { OPTION_CONFIG(&dir), { 0 } };
	struct cli cli = {
		.command = "run",
		.usage = "",
		.about =
			"Records all channels that the configuration declares, until SIGTERM or SIGINT. It then\n"
			"writes what was submitted, for up to 5 s, and exits. After SIGHUP it reads the configuration\n"
			"again, and adds, changes and removes channels.\n"
			"Exit status 1: it could not start; 2: wrong usage or invalid configuration.",
		.options = options,
	};
	int status = cli_parse(&cli, argc, argv);

	return status < 0 ? run(dir) : status;
}
