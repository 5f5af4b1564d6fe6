// SPDX-License-Identifier: Apache-2.0
/* Finding and making segments. */
#include "prepare.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/ioprio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <systemd/sd-id128.h>

#include "clock.h"
#include "log.h"
#include "marker.h"
#include "recover.h"
#include "segment.h"
#include "thread.h"

#define ZEROS ((size_t)1 << 20)
#define RETRY (10 * NSEC_PER_SEC)
/* writers wait at most so long for a start; systemd would wait 90 s */
#define START_TIME (20 * NSEC_PER_SEC)
/* a piece of a segment that is being made */
#define STOP_LEAST (500 * NSEC_PER_MSEC)

int prepare_open(struct prepare *p, const struct recorder_config *config, struct channel *channels,
		 unsigned int count, struct error *e)
{
	pthread_condattr_t attr;

	*p = (struct prepare){ .config = config, .channels = channels, .count = count };
	p->buffer = aligned_alloc(EKR_BLOCK, RECOVER_BUFFER);
	p->zeros = aligned_alloc(EKR_BLOCK, ZEROS);
	if (!p->buffer || !p->zeros) {
		free(p->buffer);
		free(p->zeros);
		return set_error(e, ENOMEM, "getting memory to look into segments: no memory");
	}
	memset(p->zeros, 0, ZEROS);
	pthread_mutex_init(&p->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&p->changed, &attr);
	pthread_condattr_destroy(&attr);
	return 0;
}

void prepare_close(struct prepare *p)
{
	free(p->buffer);
	free(p->zeros);
	pthread_mutex_destroy(&p->lock);
	pthread_cond_destroy(&p->changed);
}

/* the directory of all channels; nothing must fill up the disk that it should be mounted on */
static int open_base(const struct recorder_config *config, struct error *e)
{
	struct stat here, above;
	int fd = open(config->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return set_errno(e, errno, "opening %s", config->directory);
	if (!config->mountpoint)
		return fd;
	if (fstat(fd, &here) || fstatat(fd, "..", &above, 0)) {
		set_errno(e, errno, "looking at %s", config->directory);
	} else if (here.st_dev == above.st_dev && here.st_ino != above.st_ino) {
		set_error(e, ENODEV, "%s: nothing is mounted there", config->directory);
	} else {
		return fd;
	}
	close(fd);
	return -e->code;
}

static int open_directory(const struct recorder_config *config, const char *name, struct error *e)
{
	int base = open_base(config, e), fd;

	if (base < 0)
		return base;
	if (!mkdirat(base, name, 0750))
		fsync(base);
	else if (errno != EEXIST) {
		set_errno(e, errno, "making %s/%s", config->directory, name);
		close(base);
		return -e->code;
	}
	fd = openat(base, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		set_errno(e, errno, "opening %s/%s", config->directory, name);
	close(base);
	if (fd < 0)
		return -e->code;
	if (flock(fd, LOCK_EX | LOCK_NB)) {
		if (errno == EWOULDBLOCK)
			set_error(e, EBUSY, "%s/%s: another recorder has it", config->directory,
				  name);
		else
			set_errno(e, errno, "locking %s/%s", config->directory, name);
		close(fd);
		return -e->code;
	}
	return fd;
}

/* the segments of a directory while they are looked into */
struct found {
	struct recovered_segment segments[SEGMENTS_MAX];
	int fds[SEGMENTS_MAX]; /* for reading, in the order of segments */
	struct recovered r;
	bool fresh; /* there is none, not even one that was begun */
};

static ssize_t read_found(void *ctx, uint32_t index, void *to, size_t length, uint64_t offset)
{
	struct found *f = ctx;
	ssize_t n;

	for (size_t i = 0; i < f->r.count; i++) {
		if (f->segments[i].index != index)
			continue;
		do {
			n = pread(f->fds[i], to, length, (off_t)offset);
		} while (n < 0 && errno == EINTR);
		return n;
	}
	return -1;
}

static int list_segments(struct channel *c, struct found *f, struct error *e)
{
	int again = openat(c->directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = again < 0 ? NULL : fdopendir(again);
	struct dirent *entry;
	uint32_t index;

	f->fresh = true;
	if (!dir) {
		if (again >= 0)
			close(again);
		return set_errno(e, errno, "listing the segments");
	}
	while ((entry = readdir(dir))) {
		int fd;

		if (strstr(entry->d_name, ".seg"))
			f->fresh = false;
		if (!segment_index(entry->d_name, &index))
			continue;
		/* it keeps its name, whatever it is */
		if (index >= c->next_index)
			c->next_index = index + 1;
		if (f->r.count == SEGMENTS_MAX) {
			log_warning(
				"channel %s: more than %u segments; %s and others stay as they are",
				c->config.name, SEGMENTS_MAX, entry->d_name);
			break;
		}
		/* past the page cache: nobody else wants it, and it may be what a write has bypassed */
		fd = openat(c->directory, entry->d_name,
			    O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_DIRECT);
		if (fd < 0) {
			log_warning("channel %s: opening %s: %s; it is not used", c->config.name,
				    entry->d_name, strerror(errno));
			continue;
		}
		f->fds[f->r.count] = fd;
		f->segments[f->r.count++].index = index;
	}
	closedir(dir);
	return 0;
}

/* the size of what is there already is that of what will be made */
static int settle_size(struct channel *c, const struct found *f, struct error *e)
{
	uint64_t size = f->r.newest ? f->r.newest->head.size : 0;

	for (size_t i = 0; i < f->r.count && !size; i++)
		size = f->segments[i].head.size;
	if (!size || size == c->config.segment)
		return 0;
	if (size < EKR_BLOCK + c->config.writeout)
		return set_error(e, EINVAL,
				 "its segments of %" PRIu64
				 " bytes are too small for a batch of %" PRIu64
				 "; remove them or lower writeout",
				 size, c->config.writeout);
	log_warning("channel %s: its segments have %" PRIu64 " bytes, and stay so: not %" PRIu64,
		    c->config.name, size, c->config.segment);
	c->config.segment = size;
	c->config.segments = (c->config.retain + size - 1) / size + 1;
	if (c->config.segments > SEGMENTS_MAX)
		c->config.segments = SEGMENTS_MAX;
	return 0;
}

static void add_segments(struct channel *c, const struct found *f, bool reuse_newest)
{
	for (size_t i = 0; i < f->r.count; i++) {
		const struct recovered_segment *s = &f->segments[i];
		struct segment segment = {
			.index = s->index,
			.generation = s->head.generation,
			.opened_realtime_ns = s->head.realtime_ns,
		};
		struct error e;
		struct stat st;

		if (fstat(f->fds[i], &st) || !S_ISREG(st.st_mode) ||
		    (uint64_t)st.st_size != c->config.segment) {
			log_warning("channel %s: %08u.seg is not a file of %" PRIu64
				    " bytes; it is not used",
				    c->config.name, s->index, c->config.segment);
			continue;
		}
		if (s->problem)
			log_warning(
				"channel %s: the head of %08u.seg: %s; the segment will be used anew",
				c->config.name, s->index, s->problem);
		if (reuse_newest && s == f->r.newest)
			segment.generation = 0;
		if (!memcmp(s->head.boot_id, c->store.boot_id, sizeof(s->head.boot_id)))
			segment.opened_ns = s->head.monotonic_ns;
		segment.fd = segment_open(c->directory, s->index, !c->config.cached, &e);
		if (segment.fd < 0) {
			log_warning("channel %s: %s; it is not used", c->config.name, e.text);
			continue;
		}
		store_add(&c->store, &segment);
		atomic_fetch_add(&c->made, 1);
	}
}

static bool same_boot(const struct ekr_segment_head *head, const uint8_t boot_id[16])
{
	return !memcmp(head->boot_id, boot_id, sizeof(head->boot_id));
}

/* what a reader of this segment was told still holds */
static bool same_terms(const struct ekr_segment_head *head, const struct channel_config *config)
{
	return head->record_size == config->record_size && head->period_ns == config->period_ns &&
	       head->window_ns == config->window_ns && head->size == config->segment &&
	       !(head->flags & EKR_SEGMENT_CACHED) == !config->cached;
}

/* begins where the recording ended, and tells a gap if that was not in order */
static int go_on(struct channel *c, const struct found *f, struct error *e)
{
	const struct recovered *r = &f->r;
	bool in_order, reuse = r->newest && r->only_restarts;
	uint64_t generation = r->newest ? r->newest->head.generation : 0;
	struct marker m = { 0 };
	sd_id128_t boot;
	int ret = marker_take(c->directory, &m, e);

	if (ret && ret != -ENOENT)
		return ret;
	/* a recording that is not there has not been stopped either */
	in_order = f->fresh;
	if (!ret)
		in_order = m.generation == generation && m.end == r->end &&
			   m.batches == r->batches && m.next_sequence >= r->next_sequence &&
			   !r->damaged;
	c->in_order = in_order;
	c->found = m;
	if (sd_id128_get_boot(&boot))
		memset(&boot, 0, sizeof(boot));
	if (r->newest)
		memcpy(c->id, r->newest->head.channel_id, sizeof(c->id));
	else if (f->r.count && !f->segments[0].problem)
		memcpy(c->id, f->segments[0].head.channel_id, sizeof(c->id));
	else if (getrandom(c->id, sizeof(c->id), 0) != sizeof(c->id))
		return set_errno(e, errno, "getting a random number for the channel");
	intake_open(&c->intake, &c->buffer, (uint32_t)c->config.record_size,
		    in_order && !f->fresh ? m.next_sequence : r->next_sequence);
	store_set(&c->store, generation, c->intake.next_sequence, c->id, boot.bytes);
	add_segments(c, f, reuse && !in_order);
	if (in_order && r->newest && same_boot(&r->newest->head, boot.bytes) &&
	    same_terms(&r->newest->head, &c->config))
		store_continue(&c->store, r->newest->index, r->end, r->batches);
	if (!in_order) {
		/* ahead of everything that this start records */
		intake_lose(&c->intake, EKR_GAP_RESTART, 0);
		intake_tell(&c->intake);
		if (r->any)
			log_warning(
				"channel %s: it was not stopped in order; its last record is %" PRIu64
				", what was submitted later than that is missing",
				c->config.name, r->last_sequence);
		else
			log_warning("channel %s: it was not stopped in order, and holds no record",
				    c->config.name);
	}
	if (r->damaged)
		log_warning("channel %s: segment %08u.seg is damaged; 'verify' tells where",
			    c->config.name, r->newest->index);
	return 0;
}

int prepare_leave(struct channel *c, struct error *e)
{
	return c->in_order ? marker_write(c->directory, &c->found, e) : 0;
}

int prepare_channel(struct prepare *p, struct channel *c, struct error *e)
{
	struct found *f = calloc(1, sizeof(*f));
	struct medium medium = { .read = read_found, .ctx = f };
	int ret;

	if (!f)
		return set_error(e, ENOMEM, "looking into the segments: no memory");
	ret = open_directory(p->config, c->config.name, e);
	if (ret >= 0) {
		c->directory = ret;
		f->r.segments = f->segments;
		ret = list_segments(c, f, e);
	}
	if (!ret)
		ret = recover(&medium, c->config.name, &f->r, p->buffer, e);
	if (!ret)
		ret = settle_size(c, f, e);
	if (!ret)
		ret = go_on(c, f, e);
	for (size_t i = 0; i < f->r.count; i++)
		close(f->fds[i]);
	free(f);
	if (ret && c->directory >= 0) {
		close(c->directory);
		c->directory = -1;
	}
	if (ret)
		store_fail(&c->store, e);
	return ret;
}

static struct ekr_segment_head empty_head(const struct channel *c, uint32_t index)
{
	struct ekr_segment_head head = {
		.size = c->config.segment,
		.index = index,
		.record_size = (uint32_t)c->config.record_size,
		.period_ns = c->config.period_ns,
		.window_ns = c->config.window_ns,
	};

	memcpy(head.channel_id, c->id, sizeof(head.channel_id));
	memcpy(head.name, c->config.name, strlen(c->config.name));
	return head;
}

static void io_priority(int class)
{
	/* of this thread; without it others are disturbed more, no error */
	syscall(SYS_ioprio_set, IOPRIO_WHO_PROCESS, 0, IOPRIO_PRIO_VALUE(class, 0));
}

int prepare_segment(struct prepare *p, struct channel *c, struct error *e)
{
	struct ekr_segment_head head = empty_head(c, c->next_index);
	struct segment segment = { .index = head.index };
	int ret;

	if (atomic_load(&c->made) >= c->config.segments)
		return 1;
	io_priority(atomic_load(&c->made) < 2 ? IOPRIO_CLASS_NONE : IOPRIO_CLASS_IDLE);
	ret = segment_make(c->directory, &head, p->zeros, ZEROS, &p->stop, e);
	if (!ret) {
		segment.fd = segment_open(c->directory, head.index, !c->config.cached, e);
		ret = segment.fd < 0 ? segment.fd : 0;
	}
	io_priority(IOPRIO_CLASS_NONE);
	if (!ret) {
		c->next_index++;
		store_add(&c->store, &segment);
		if (atomic_fetch_add(&c->made, 1) + 1 == c->config.segments)
			store_fail(&c->store, &(struct error){ 0 });
	} else if (ret != -ECANCELED) {
		store_fail(&c->store, e);
	}
	return ret;
}

/* a head of generation 0: nothing in the segment counts any more */
static void expire(struct prepare *p, struct channel *c)
{
	struct segment gone;

	while (store_expire(&c->store, monotonic_ns(), realtime_ns(), &gone)) {
		struct ekr_segment_head head = empty_head(c, gone.index);

		memcpy(p->buffer, &head, sizeof(head));
		memset(p->buffer + sizeof(head), 0, EKR_BLOCK - sizeof(head));
		segment_seal_head(p->buffer);
		if (pwrite(gone.fd, p->buffer, EKR_BLOCK, 0) != EKR_BLOCK || fdatasync(gone.fd))
			log_warning("channel %s: forgetting segment %08u.seg: %s", c->config.name,
				    gone.index, strerror(errno));
		/* the next one to be used, whether it is forgotten on the medium or not */
		gone.generation = 0;
		store_add(&c->store, &gone);
	}
}

/* the channel that needs a segment most: the first two of all come first */
static struct channel *neediest(struct prepare *p, const bool *hopeless)
{
	struct channel *found = NULL;

	for (unsigned int i = 0; i < p->count; i++) {
		struct channel *c = &p->channels[i];

		if (hopeless[i] || !atomic_load(&c->open) ||
		    atomic_load(&c->made) >= c->config.segments)
			continue;
		if (!found || atomic_load(&c->made) < atomic_load(&found->made))
			found = c;
	}
	return found;
}

static void try_channels(struct prepare *p, char (*said)[sizeof(((struct error *)0)->text)])
{
	for (unsigned int i = 0; i < p->count && !atomic_load(&p->stop); i++) {
		struct channel *c = &p->channels[i];
		struct error e;

		if (c->broken.code || atomic_load(&c->open))
			continue;
		if (!prepare_channel(p, c, &e)) {
			atomic_store(&c->open, true);
			continue;
		}
		/* once, not each 10 s */
		if (strcmp(said[i], e.text) != 0)
			log_error("channel %s: %s; trying again each 10 s", c->config.name, e.text);
		memcpy(said[i], e.text, sizeof(e.text));
	}
}

static void make_segments(struct prepare *p, char (*said)[sizeof(((struct error *)0)->text)])
{
	bool hopeless[CHANNELS_MAX] = { false };
	struct channel *c;
	struct error e;

	while (!atomic_load(&p->stop) && (c = neediest(p, hopeless))) {
		size_t i = (size_t)(c - p->channels);
		int ret = prepare_segment(p, c, &e);

		if (ret >= 0 || ret == -ECANCELED)
			continue;
		hopeless[i] = true;
		if (strcmp(said[i], e.text) != 0)
			log_error("channel %s: %s; it has %u of %" PRIu64
				  " segments, trying again each 10 s",
				  c->config.name, e.text, atomic_load(&c->made),
				  c->config.segments);
		memcpy(said[i], e.text, sizeof(e.text));
	}
}

static void pause_until(struct prepare *p, uint64_t until)
{
	const struct timespec ts = timespec_of(until);

	pthread_mutex_lock(&p->lock);
	while (!atomic_load(&p->stop) &&
	       pthread_cond_timedwait(&p->changed, &p->lock, &ts) != ETIMEDOUT)
		;
	pthread_mutex_unlock(&p->lock);
}

static void *run(void *arg)
{
	/* what was last said of each channel */
	static char said[CHANNELS_MAX][sizeof(((struct error *)0)->text)];
	struct prepare *p = arg;

	while (!atomic_load(&p->stop)) {
		uint64_t began = monotonic_ns();

		try_channels(p, said);
		pthread_mutex_lock(&p->lock);
		p->tried = true;
		pthread_cond_broadcast(&p->changed);
		pthread_mutex_unlock(&p->lock);
		make_segments(p, said);
		for (unsigned int i = 0; i < p->count; i++)
			if (atomic_load(&p->channels[i].open))
				expire(p, &p->channels[i]);
		pause_until(p, began + RETRY);
	}
	return NULL;
}

int prepare_start(struct prepare *p, struct error *e)
{
	uint64_t by = monotonic_ns() + START_TIME;
	const struct timespec until = timespec_of(by);
	int ret = thread_start(&p->thread, "prepare", 0, run, p, e);

	if (ret)
		return ret;
	pthread_mutex_lock(&p->lock);
	while (!p->tried && pthread_cond_timedwait(&p->changed, &p->lock, &until) != ETIMEDOUT)
		;
	if (!p->tried)
		log_warning("opening the channels takes longer than %u s: does their medium hang?",
			    (unsigned int)(START_TIME / NSEC_PER_SEC));
	pthread_mutex_unlock(&p->lock);
	return 0;
}

void prepare_ask_to_stop(struct prepare *p)
{
	pthread_mutex_lock(&p->lock);
	atomic_store(&p->stop, true);
	pthread_cond_broadcast(&p->changed);
	pthread_mutex_unlock(&p->lock);
}

bool prepare_join(struct prepare *p, uint64_t by)
{
	uint64_t least = monotonic_ns() + STOP_LEAST;
	const struct timespec until = timespec_of(by > least ? by : least);

	return !pthread_clockjoin_np(p->thread, NULL, CLOCK_MONOTONIC, &until);
}
