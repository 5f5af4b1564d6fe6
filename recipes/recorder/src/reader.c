// SPDX-License-Identifier: Apache-2.0
/* Read a channel's recording: uses of segments in order, records in order. */
#include "reader.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "batch.h"
#include "clock.h"
#include "error.h"
#include "segment.h"

/*
 * Polls at the end between two looks at all heads of a channel that is full. In
 * between, only that of the next segment in turn is read, unless the directory
 * has changed.
 */
#define POLLS_PER_LIST 600
/*
 * Between two looks at all heads while there are segments that were never used:
 * the recorder may take any of them. Of many, fewer per second.
 */
#define LIST_NS	       NSEC_PER_SEC
#define HEADS_PER_LIST 64
/* ms between two looks where there is no notification */
#define READER_POLL_MS 100
/* looks at the end of the newest segment, which may be in the middle of being written: a second */
#define LOOKS 11
/* records and ends of batches at the beginning of a use that are looked at, for the first that is no gap */
#define OPENING 8
/* what was submitted so long before, and the window, is on the medium unless that makes a long pause */
#define LATE_NS ((__int128)(10 * NSEC_PER_SEC))
/* clocks that differ by less between two heads were not set in between, but slewed */
#define SLEW_NS ((int64_t)(2 * NSEC_PER_SEC))

struct reader {
	struct reader_options options;
	char *path; /* of the channel's directory */
	int dir;    /* it */
	int notify; /* inotify: something was written there; -1: none */
	struct reader_pace pace;
	struct reader_file file;  /* the segment that is read */
	struct reader_file heads; /* for a look at heads beside it */
	struct reader_uses uses;
	size_t next;		 /* in uses: the one to read after this */
	size_t begin;		 /* with newest_only: the one that reading began with */
	struct reader_use use;	 /* that is read, if `open` */
	uint64_t seen;		 /* generation of the last that was read or passed over */
	bool open;		 /* there is a use that is read */
	bool told_head;		 /* the damage of the next use's head was given */
	bool waiting;		 /* at the end of the newest, when following */
	bool silent;		 /* passing over what was there before */
	unsigned int polls;	 /* at the end, since all heads were read */
	uint64_t listed_ns;	 /* when they were; CLOCK_MONOTONIC */
	struct timespec changed; /* the directory, before that */
	uint8_t boot[16];	 /* the newest: whose monotonic clock a range means */

	uint64_t offset;       /* of the next record */
	uint64_t batch;	       /* that the record before it is of */
	bool in_batch;	       /* `batch` is known */
	uint64_t use_last;     /* sequence of the last record of this use */
	bool use_any;	       /* there was one */
	uint64_t before_first; /* first_sequence of the use before */
	bool repeats;	       /* what this use begins with was given already */

	uint64_t last;	     /* sequence of the last record, of all uses */
	bool any;	     /* there was one; then: */
	bool before, after;  /* it is older than the range; younger */
	bool past;	     /* what was seen last is at the end of the range, or behind it */
	const char *because; /* why sequences may be missing before the next record */

	struct reader_event held; /* comes after the one that was given */
	bool holding;
	struct reader_counts counts;
	struct error error;
};

static const char *const kind_names[READER_KINDS] = {
	"end", "record", "gap", "missing", "damage", "torn", "overwritten",
};

const char *reader_kind_name(enum reader_kind kind)
{
	return kind < READER_KINDS ? kind_names[kind] : "unknown";
}

const char *reader_gap_name(uint32_t reason)
{
	static const char *const names[] = { EKR_GAP_NAMES };
	const size_t count = sizeof(names) / sizeof(*names);

	return reason < count && names[reason] ? names[reason] : "unknown";
}

static bool stopping(const struct reader *r)
{
	return r->options.stop && *r->options.stop;
}

/* --- which uses and records are meant ---------------------------------------- */

static bool same_boot(const struct reader_use *a, const struct reader_use *b)
{
	return !a->rescued && !b->rescued &&
	       !memcmp(a->head.boot_id, b->head.boot_id, sizeof(a->head.boot_id));
}

/* realtime minus monotonic: what setting the clock changes */
static __int128 clock_offset(const struct reader_use *u)
{
	return (__int128)u->head.realtime_ns - (__int128)u->head.monotonic_ns;
}

/* from the beginning of @a to that of @b the real-time clock was not set */
static bool steady(const struct reader_use *a, const struct reader_use *b)
{
	__int128 jump = clock_offset(b) - clock_offset(a);

	return same_boot(a, b) && jump < SLEW_NS && -jump < SLEW_NS;
}

/* nor was it set from the use's first record to its head, which may have come long after that */
static bool steady_since(const struct ekr_record_head *first, const struct reader_use *u)
{
	__int128 jump =
		(__int128)first->realtime_ns - (__int128)first->monotonic_ns - clock_offset(u);

	return jump < SLEW_NS && -jump < SLEW_NS;
}

static bool of_newest_boot(const struct reader *r, const struct reader_use *u)
{
	return u->rescued || !memcmp(u->head.boot_id, r->boot, sizeof(r->boot));
}

/* a record as it is in the buffer: its payload follows its head */
static const struct ekr_record_head *in_place(const unsigned char *payload)
{
	return (const struct ekr_record_head *)payload - 1;
}

static const struct reader_use *next_use(const struct reader *r, size_t i)
{
	const struct reader_use *u = i + 1 < r->uses.count ? &r->uses.use[i + 1] : NULL;

	return u && u->used && !u->rescued ? u : NULL;
}

/*
 * The first record of a use that is no gap: a gap is dated when it was told, and
 * what follows it may have been submitted before. @first: the first sequence that
 * the use accounts for. False: it is not found at once.
 */
static bool first_record(struct reader *r, const struct reader_use *u, struct ekr_record_head *h,
			 uint64_t *first)
{
	const unsigned char *payload;
	uint64_t at = EKR_BLOCK;
	bool found = false, any = false;
	int err;

	r->heads.ahead = EKR_BLOCK;
	if (reader_file_open(&r->heads, r->dir, u->file))
		return false;
	for (int i = 0; i < OPENING && !found; i++) {
		enum reader_verdict v = reader_look(&r->heads, &u->head, at, h, &payload, &err);

		if (v == READER_VALID) {
			found = !(h->flags & EKR_RECORD_GAP);
			if (!any)
				*first = record_first(in_place(payload));
			any = true;
			at += (sizeof(*h) + h->length + 7) / 8 * 8;
		} else if (v == READER_ZEROS && at % EKR_BLOCK) {
			/* the next batch */
			at = (at / EKR_BLOCK + 1) * EKR_BLOCK;
		} else {
			break;
		}
	}
	reader_file_close(&r->heads);
	return found;
}

/* All records of a use were submitted before the next use began. */
static bool all_before(struct reader *r, const struct reader_use *u, const struct reader_use *next)
{
	const struct reader_time *from = &r->options.range.from;
	struct ekr_record_head h;
	uint64_t first;

	if (!next || !from->set)
		return false;
	if (from->monotonic)
		return same_boot(u, next) && (__int128)next->head.monotonic_ns < from->ns;
	return steady(u, next) && (__int128)next->head.realtime_ns + SLEW_NS < from->ns &&
	       first_record(r, u, &h, &first) && steady_since(&h, u);
}

/*
 * The head does not tell: after a pause of the medium the records of several uses
 * may be older than the heads of all of them. But the recorder dates records in
 * the order of their numbers, so that no later one is older than the first.
 */
static bool all_after(struct reader *r, const struct reader_use *u, const struct reader_use *next)
{
	const struct reader_time *to = &r->options.range.to;
	const struct ekr_segment_head *head = &u->head;
	struct ekr_record_head h;
	uint64_t first;

	/* of those that most likely are not, the first record need not be read */
	if (!to->set || u->rescued ||
	    (to->monotonic ? (__int128)head->monotonic_ns : head->realtime_ns) <= to->ns)
		return false;
	if (!to->monotonic && !(next && steady(u, next)))
		return false;
	if (!first_record(r, u, &h, &first))
		return false;
	if (to->monotonic) {
		if ((__int128)h.monotonic_ns <= to->ns)
			return false;
	} else {
		if (!steady_since(&h, u) || (__int128)h.realtime_ns - SLEW_NS <= to->ns)
			return false;
	}
	/* what is left out before it may be in the range: that is told with it */
	return !r->any || r->after || first <= r->last || first - r->last == 1;
}

/* no record of it is in the range: it need not be read */
static bool outside(struct reader *r, size_t i)
{
	const struct reader_use *u = &r->uses.use[i], *next = next_use(r, i);
	const struct reader_range *range = &r->options.range;

	if (next && next->head.first_sequence <= range->first &&
	    next->head.first_sequence > u->head.first_sequence)
		return true;
	if (((range->from.set && range->from.monotonic) ||
	     (range->to.set && range->to.monotonic)) &&
	    !of_newest_boot(r, u))
		return true;
	return all_before(r, u, next);
}

/* it lies behind the range: it need not be read */
static bool behind(struct reader *r, size_t i)
{
	const struct reader_use *u = &r->uses.use[i];
	const struct reader_range *range = &r->options.range;

	/* what is left out before it may be in the range: its first record tells */
	if (!u->rescued && u->head.first_sequence > range->last)
		return !r->any || r->last >= range->last;
	return all_after(r, u, next_use(r, i));
}

static bool in_time(const struct reader_time *t, const struct ekr_record_head *h, bool from)
{
	__int128 ns = t->monotonic ? (__int128)h->monotonic_ns : (__int128)h->realtime_ns;

	return !t->set || (from ? ns >= t->ns : ns <= t->ns);
}

/* older than the range, by its time */
static bool too_old(const struct reader *r, const struct ekr_record_head *h)
{
	const struct reader_time *from = &r->options.range.from;

	return !in_time(from, h, true) ||
	       (from->set && from->monotonic && !of_newest_boot(r, &r->use));
}

/* @first: the first sequence that a gap speaks of, else that of the record */
static bool inside(const struct reader *r, const struct ekr_record_head *h, uint64_t first)
{
	const struct reader_range *range = &r->options.range;

	return h->sequence >= range->first && first <= range->last && !too_old(r, h) &&
	       in_time(&range->to, h, false);
}

/* --- events ------------------------------------------------------------------- */

static void begin_event(const struct reader *r, struct reader_event *e, enum reader_kind kind)
{
	memset(e, 0, sizeof(*e));
	e->kind = kind;
	memcpy(e->file, r->use.file, sizeof(e->file));
	e->generation = r->use.head.generation;
	e->offset = r->offset;
}

static int give(struct reader *r, const struct reader_event *e)
{
	struct reader_counts *c = &r->counts;

	if (r->silent)
		return 0;
	c->of[e->kind]++;
	switch (e->kind) {
	case READER_RECORD:
		c->payload += e->length;
		if (!c->any) {
			c->first_sequence = e->sequence;
			c->first_ns = e->realtime_ns;
		}
		c->any = true;
		c->last_sequence = e->sequence;
		c->last_ns = e->realtime_ns;
		break;
	case READER_GAP:
		c->lost += e->gap.count_lost;
		break;
	case READER_MISSING:
		c->missing += e->sequence - e->first + 1;
		break;
	default:
		break;
	}
	return 1;
}

static void __attribute__((format(printf, 2, 3))) set_reason(struct reader_event *e,
							     const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(e->reason, sizeof(e->reason), fmt, ap);
	va_end(ap);
}

/* --- uses ----------------------------------------------------------------------- */

static void find_boot(struct reader *r)
{
	const struct ekr_segment_head *h = reader_channel(r);

	if (h)
		memcpy(r->boot, h->boot_id, sizeof(r->boot));
}

static void leave(struct reader *r)
{
	r->before_first = r->use.head.first_sequence;
	reader_file_close(&r->file);
	r->open = false;
	r->waiting = false;
}

/* what was there is gone: the next records are not those that come after it */
static int gone(struct reader *r, struct reader_event *e, const char *why)
{
	begin_event(r, e, READER_OVERWRITTEN);
	set_reason(e, "%s", why);
	/* what is not there was not lost, but older than what is kept */
	r->any = false;
	leave(r);
	return give(r, e);
}

static int overwritten(struct reader *r, struct reader_event *e)
{
	return gone(r, e, "reused or deleted while it was read");
}

/* The head of the open use is no longer the one that it was read with; or it cannot be told. */
static bool recycled(struct reader *r)
{
	struct reader_use now;

	if (r->use.rescued)
		return false;
	if (reader_file_open(&r->heads, r->dir, r->use.file) ||
	    reader_head_read(&r->heads, r->use.file, r->uses.id, &now))
		return false;
	return !now.rescued && now.head.generation != r->use.head.generation;
}

/* Begin with the next use. 1: there is an event, 0: go on, negative errno. */
static int enter(struct reader *r, struct reader_event *e)
{
	const struct reader_use *u = &r->uses.use[r->next];
	bool passed;
	int err;

	if (u->damage && !r->told_head) {
		begin_event(r, e, READER_DAMAGE);
		memcpy(e->file, u->file, sizeof(e->file));
		e->generation = u->head.generation;
		e->offset = 0;
		set_reason(e, "%s%s", u->damage,
			   u->rescued ? "; its records are read without it" : "");
		r->told_head = true;
		if (!u->used)
			r->because = "damage";
		return give(r, e);
	}
	r->told_head = false;
	if (!u->used) {
		r->next++;
		return 0;
	}
	passed = outside(r, r->next);
	if (!passed)
		passed = r->past = behind(r, r->next);
	r->seen = u->head.generation;
	if (passed) {
		r->next++;
		r->any = false;
		return 0;
	}
	r->use = *u;
	r->next++;
	r->offset = EKR_BLOCK;
	r->in_batch = r->use_any = r->repeats = false;
	err = reader_file_open(&r->file, r->dir, r->use.file);
	/* the channel retains less since its recorder was started */
	if (err == -ENOENT)
		return overwritten(r, e);
	if (err) {
		begin_event(r, e, READER_DAMAGE);
		set_reason(e, "cannot be opened: %s", strerror(-err));
		r->because = "damage";
		return give(r, e);
	}
	r->open = true;
	if (recycled(r))
		return overwritten(r, e);
	return 0;
}

/* Segments may still be made: the directory has others than when the heads were read. */
static bool directory_changed(const struct reader *r)
{
	struct stat st;

	return fstat(r->dir, &st) || st.st_mtim.tv_sec != r->changed.tv_sec ||
	       st.st_mtim.tv_nsec != r->changed.tv_nsec;
}

/* Time for another look at all heads because any unused segment may have been taken. */
static bool list_due(const struct reader *r)
{
	const uint64_t lists = 1 + r->uses.count / HEADS_PER_LIST;
	bool unused = false;

	for (size_t i = 0; i < r->uses.count && !unused; i++)
		unused = !r->uses.use[i].used && !r->uses.use[i].damage;
	return unused && monotonic_ns() - r->listed_ns >= lists * LIST_NS;
}

/* All heads, and what the directory was like before they were read. */
static int list(struct reader *r, struct reader_uses *uses, uint64_t seen)
{
	struct stat st;
	int err;

	if (fstat(r->dir, &st))
		return -errno;
	err = reader_uses_read(uses, r->dir, &r->heads, seen);
	if (!err)
		r->changed = st.st_mtim;
	r->listed_ns = monotonic_ns();
	return err;
}

/* All heads once more. 1: there are newer uses than the last one that was read or passed over. */
static int list_again(struct reader *r)
{
	struct reader_uses uses = { 0 };
	int err = list(r, &uses, r->seen);

	r->polls = 0;
	if (err) {
		reader_uses_free(&uses);
		return set_errno(&r->error, -err, "reading the heads of the segments");
	}
	reader_uses_free(&r->uses);
	r->uses = uses;
	r->next = uses.count;
	while (r->next && uses.use[r->next - 1].used &&
	       uses.use[r->next - 1].head.generation > r->seen)
		r->next--;
	r->told_head = false;
	find_boot(r);
	return r->next < uses.count;
}

/* where inotify does not work (some network file systems), following only polls */
static void watch(struct reader *r)
{
	if (!r->options.follow)
		return;
	if (r->notify >= 0)
		close(r->notify);
	r->notify = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
	if (r->notify >= 0)
		inotify_add_watch(r->notify, r->path,
				  IN_MODIFY | IN_CREATE | IN_MOVED_TO | IN_DELETE_SELF |
					  IN_MOVE_SELF);
}

/*
 * At the end of what there is: its path may lead to another directory by now, as the
 * recorder makes one anew that was removed. 1: there is an event, 0: go on, negative
 * errno.
 */
static int begin_anew(struct reader *r, struct reader_event *e)
{
	struct stat was, is;
	int dir, err, told;

	/* the one that is open keeps its number */
	if (fstat(r->dir, &was) || stat(r->path, &is) ||
	    (is.st_dev == was.st_dev && is.st_ino == was.st_ino))
		return 0;
	dir = open(r->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0)
		return 0;
	close(r->dir);
	r->dir = dir;
	watch(r);
	told = gone(r, e, "the channel's directory was replaced");
	r->seen = r->before_first = 0;
	err = list_again(r);
	return err < 0 ? err : told;
}

/*
 * Whether a newer use has begun. The recorder takes segments in turn, so that
 * of the oldest use or the first unused one is the next: one block tells.
 */
static int newer_use(struct reader *r)
{
	const struct reader_use *turn = NULL;
	struct reader_use now;

	if (r->next < r->uses.count)
		return 1;
	for (size_t i = 0; i < r->uses.count && !turn; i++)
		if (!r->uses.use[i].damage && !strchr(r->uses.use[i].file, '/'))
			turn = &r->uses.use[i];
	r->heads.ahead = EKR_BLOCK;
	if (++r->polls < POLLS_PER_LIST && turn && !directory_changed(r) && !list_due(r)) {
		if (reader_file_open(&r->heads, r->dir, turn->file) ||
		    reader_head_read(&r->heads, turn->file, r->uses.id, &now))
			return 0;
		if (now.damage || now.head.generation <= r->seen)
			return 0;
	}
	return list_again(r);
}

/* --- damage ---------------------------------------------------------------------- */

static enum reader_verdict look_at(struct reader *r, uint64_t offset, struct ekr_record_head *h,
				   const unsigned char **payload, int *err)
{
	enum reader_verdict v = reader_look(&r->file, &r->use.head, offset, h, payload, err);

	/* not for a bad block that lies behind this record */
	if (v == READER_IO && *err != -ENODATA && r->file.ahead > EKR_BLOCK) {
		r->file.ahead = EKR_BLOCK;
		reader_file_drop(&r->file);
		v = reader_look(&r->file, &r->use.head, offset, h, payload, err);
	}
	if (v != READER_IO)
		r->file.ahead = READER_AHEAD;
	return v;
}

static void explain(struct reader_event *e, enum reader_verdict v, const struct ekr_record_head *h,
		    const struct reader_use *u, int err)
{
	switch (v) {
	case READER_ZEROS:
		set_reason(e, "zeros where a record should be");
		return;
	case READER_NO_RECORD:
		set_reason(e, "bad magic %08" PRIx32, h->magic);
		return;
	case READER_STALE:
	case READER_NEWER:
		set_reason(e, "generation %" PRIu64 " in a segment of generation %" PRIu64,
			   h->generation, u->head.generation);
		return;
	case READER_BAD_LENGTH:
		set_reason(e, "length %" PRIu32 " exceeds the %s", h->length,
			   h->length > u->head.record_size ? "largest record of the channel" :
							     "end of the segment");
		return;
	case READER_IO:
		set_reason(e, "cannot be read: %s", strerror(-err));
		return;
	case READER_BAD_CRC:
	case READER_VALID:
		set_reason(e, "bad CRC");
		return;
	}
}

static bool is_restart(const struct ekr_record_head *h)
{
	const struct ekr_gap *gap = record_gap(h);

	return gap && gap->reason == EKR_GAP_RESTART;
}

/* What stands after the use that is read: nothing, or that the recorder was stopped. */
static bool stopped_after(struct reader *r)
{
	struct ekr_record_head h;
	const unsigned char *payload;
	const struct reader_use *u;
	int err;

	if (r->next >= r->uses.count)
		return true;
	u = &r->uses.use[r->next];
	if (!same_boot(u, &r->use))
		return true;
	r->heads.ahead = EKR_BLOCK;
	if (reader_file_open(&r->heads, r->dir, u->file))
		return false;
	return reader_look(&r->heads, &u->head, EKR_BLOCK, &h, &payload, &err) == READER_VALID &&
	       is_restart(in_place(payload));
}

/*
 * Records from this sequence on are void: the next use has others of these
 * numbers, or the same ones again.
 */
static uint64_t void_from(const struct reader *r)
{
	const struct reader_use *next = NULL;

	for (size_t i = r->next; i < r->uses.count && !next; i++)
		if (r->uses.use[i].used)
			next = &r->uses.use[i];
	return next && next->head.first_sequence >= r->use.head.first_sequence ?
		       next->head.first_sequence :
		       UINT64_MAX;
}

/* Where the next record of this use holds, from the block after @from on; 0: nowhere. */
static uint64_t find_record(struct reader *r, uint64_t from, uint64_t *written)
{
	struct ekr_record_head h;
	const unsigned char *payload;
	int err;

	*written = 0;
	for (uint64_t at = (from / EKR_BLOCK + 1) * EKR_BLOCK;
	     at < r->use.head.size && !stopping(r); at += EKR_BLOCK) {
		enum reader_verdict v = look_at(r, at, &h, &payload, &err);

		if ((v == READER_ZEROS || v == READER_STALE) && !*written)
			*written = at;
		if (v == READER_VALID && (!r->in_batch || h.batch >= r->batch) &&
		    (!r->use_any || h.sequence > r->use_last) && h.sequence < void_from(r))
			return at;
	}
	return 0;
}

/*
 * A record that stands at the offset by now: it was being written, or was when its
 * block was read. So many looks, the first of them at once if @now.
 */
static bool there_by_now(struct reader *r, int looks, bool now)
{
	struct ekr_record_head h;
	const unsigned char *payload;
	int err;

	for (; looks && !stopping(r) && (now || reader_file_again(&r->file)); looks--) {
		now = false;
		reader_file_drop(&r->file);
		if (look_at(r, r->offset, &h, &payload, &err) == READER_VALID)
			return true;
	}
	return false;
}

#define READER_STOP 2

/* Following, and there is no more in the newest use: is there a newer one by now? */
static int wait_for_more(struct reader *r)
{
	int newer = newer_use(r);

	if (newer < 0)
		return newer;
	r->waiting = !newer;
	if (!newer)
		return READER_STOP;
	/* there may be what was written between our look and the new use */
	reader_file_drop(&r->file);
	return 0;
}

/*
 * There is no record at the offset. Is it the end of the use, of what is there
 * so far, or damage? 1: there is an event, 0: look again, READER_STOP: the end
 * for now, or a negative errno.
 */
static int no_record(struct reader *r, enum reader_verdict v, const struct ekr_record_head *h,
		     int err, struct reader_event *e)
{
	const bool at_block = r->offset % EKR_BLOCK == 0;
	const bool quiet = at_block &&
			   (v == READER_ZEROS || v == READER_NO_RECORD || v == READER_STALE);
	const bool newest = r->next >= r->uses.count;
	uint64_t found, written;
	int newer;

	/* not even room for a head */
	if (v == READER_IO && err == -ENODATA) {
		if (!r->options.follow || r->next < r->uses.count || (newer = newer_use(r)) > 0) {
			leave(r);
			return 0;
		}
		r->waiting = true;
		return newer < 0 ? newer : READER_STOP;
	}
	if (r->options.follow && newest)
		return wait_for_more(r);
	r->waiting = false;
	/* spares reading the rest of it; the newest is not taken before there is a newer one */
	if (recycled(r))
		return overwritten(r, e);
	if (!quiet && v != READER_IO && newest && there_by_now(r, LOOKS - 1, false))
		return 0;
	begin_event(r, e, READER_DAMAGE);
	explain(e, v, h, &r->use, err);
	found = find_record(r, r->offset, &written);
	if (stopping(r))
		return -EINTR;
	/* what was found came while the rest was read, and what is ahead of it did, too */
	if (found && newest && there_by_now(r, quiet ? LOOKS : 1, true))
		return 0;
	if (stopping(r))
		return -EINTR;
	if (found) {
		e->extent = found - r->offset;
		r->offset = found;
		r->because = "damage";
		return give(r, e);
	}
	if (recycled(r))
		return overwritten(r, e);
	if (quiet) {
		leave(r);
		return 0;
	}
	if (stopped_after(r))
		e->kind = READER_TORN;
	e->extent = written ? written - r->offset : r->use.head.size - r->offset;
	r->because = "damage";
	leave(r);
	return give(r, e);
}

/* --- records ----------------------------------------------------------------------- */

/* a record that holds, but is not what should be there */
static int doubtful(struct reader *r, uint64_t length, struct reader_event *e)
{
	e->extent = length;
	r->offset += length;
	r->because = "damage";
	return give(r, e);
}

/*
 * Within a use no number is left out. So a jump where a batch begins is the only
 * sign of a batch before it whose end did not reach the medium: what was there,
 * zeros or blocks of an earlier use, looks like the end of a batch.
 */
static bool cut_short(const struct reader *r, const struct ekr_record_head *h,
		      const unsigned char *payload)
{
	return r->use_any && r->in_batch && h->batch != r->batch &&
	       record_first(in_place(payload)) > r->use_last + 1;
}

/*
 * Sequences between the last record and @h, which accounts for those from @first on,
 * that are not there and that nothing tells of: @from..@to of them are in the range.
 * Their times are between those of the two, so that all may be in it, or none is.
 */
static bool missing_before(const struct reader *r, const struct ekr_record_head *h, uint64_t first,
			   uint64_t *from, uint64_t *to)
{
	const struct reader_range *range = &r->options.range;

	if (!r->any || first <= r->last || (r->before && too_old(r, h)) ||
	    (r->after && !in_time(&range->to, h, false)))
		return false;
	*from = r->last + 1 > range->first ? r->last + 1 : range->first;
	*to = first - 1 < range->last ? first - 1 : range->last;
	return *from <= *to;
}

/* a record that holds; 1: there is an event, 0: go on */
static int record(struct reader *r, const struct ekr_record_head *h, const unsigned char *payload,
		  struct reader_event *e)
{
	const uint64_t whole = (sizeof(*h) + h->length + 7) / 8 * 8;
	const bool at_block = r->offset % EKR_BLOCK == 0, is_gap = h->flags & EKR_RECORD_GAP;
	struct ekr_gap gap = { 0 };
	uint64_t first, from, to;
	bool in_range, missing;

	begin_event(r, e, READER_DAMAGE);
	if (r->in_batch && h->batch != r->batch && (!at_block || h->batch < r->batch)) {
		set_reason(e, "batch %" PRIu64 " in the middle of batch %" PRIu64, h->batch,
			   r->batch);
		return doubtful(r, whole, e);
	}
	if (cut_short(r, h, payload) && !r->because)
		r->because = "the batch before it is incomplete";
	r->batch = h->batch;
	r->in_batch = true;
	if (h->flags & ~(uint32_t)EKR_RECORD_GAP) {
		set_reason(e, "unknown flags %" PRIx32, h->flags);
		return doubtful(r, whole, e);
	}
	if (is_gap ? h->length != sizeof(gap) : h->length > r->use.head.record_size) {
		set_reason(e, "a %s with an invalid length of %" PRIu32 " bytes",
			   is_gap ? "gap" : "record", h->length);
		return doubtful(r, whole, e);
	}
	if (is_gap)
		memcpy(&gap, payload, sizeof(gap));
	first = record_first(in_place(payload));
	if (r->use_any && h->sequence <= r->use_last) {
		set_reason(e, "sequence %" PRIu64 " after %" PRIu64, h->sequence, r->use_last);
		return doubtful(r, whole, e);
	}
	/* numbers that began anew were told with the head */
	if (!r->use_any && r->any && h->sequence <= r->last) {
		r->repeats = r->use.head.first_sequence >= r->before_first;
		r->any = r->repeats;
	}
	r->use_any = true;
	r->use_last = h->sequence;
	r->repeats = r->repeats && h->sequence <= r->last;
	if (r->repeats || h->sequence >= void_from(r)) {
		r->counts.not_given++;
		r->offset += whole;
		return 0;
	}

	begin_event(r, e, is_gap ? READER_GAP : READER_RECORD);
	e->sequence = h->sequence;
	e->first = first;
	e->monotonic_ns = h->monotonic_ns;
	e->realtime_ns = h->realtime_ns;
	e->acquired_ns = h->acquired_ns;
	e->payload = payload;
	e->length = h->length;
	e->gap = gap;
	r->offset += whole;
	in_range = inside(r, h, first);
	/* a gap that is full may cover them */
	missing = gap.count_lost != UINT32_MAX && missing_before(r, h, first, &from, &to);
	if (missing) {
		r->held = *e;
		r->holding = in_range && !r->silent;
		begin_event(r, e, READER_MISSING);
		e->first = from;
		e->sequence = to;
		if (r->because)
			set_reason(e, "%s", r->because);
	}
	r->because = NULL;
	r->any = true;
	r->last = h->sequence;
	r->before = too_old(r, h);
	r->after = !in_time(&r->options.range.to, h, false);
	r->past = r->after || h->sequence >= r->options.range.last;
	/* within a use sequences grow */
	if (first > r->options.range.last)
		leave(r);
	return missing || in_range ? give(r, e) : 0;
}

/* after the last record of a batch: zeros up to the end of the block */
static bool batch_ends(struct reader *r)
{
	const size_t rest = EKR_BLOCK - (size_t)(r->offset % EKR_BLOCK);
	const unsigned char *bytes;

	if (reader_file_bytes(&r->file, r->offset, rest, &bytes))
		return false;
	return !*bytes && !memcmp(bytes, bytes + 1, rest - 1);
}

/*
 * The newest use may hold no record yet, as after a crash. Reading begins anew
 * one earlier, and what was read is read again: what is void there depends on
 * what comes after it.
 */
static bool begin_earlier(struct reader *r)
{
	size_t i = r->begin;

	if (!r->options.newest_only || r->counts.any)
		return false;
	do {
		if (!i)
			return false;
	} while (!r->uses.use[--i].used);
	r->begin = r->next = i;
	r->any = r->told_head = false;
	r->because = NULL;
	r->counts = (struct reader_counts){ 0 };
	return true;
}

/* --- the interface -------------------------------------------------------------------- */

int reader_next(struct reader *r, struct reader_event *e)
{
	struct ekr_record_head h;
	const unsigned char *payload;
	enum reader_verdict v;
	int err;

	if (r->holding) {
		*e = r->held;
		r->holding = false;
		/* as silent as what came before it */
		if (give(r, e))
			return 0;
	}
	if (r->waiting) {
		/* a block is enough to see whether there is more */
		reader_file_drop(&r->file);
		r->file.ahead = EKR_BLOCK;
	}
	for (;;) {
		if (stopping(r))
			return -EINTR;
		if (!r->open) {
			if (r->next >= r->uses.count) {
				err = r->options.follow ? newer_use(r) : begin_earlier(r);
				if (err <= 0)
					goto end;
			}
			err = enter(r, e);
			if (err)
				return err < 0 ? err : 0;
			continue;
		}
		v = look_at(r, r->offset, &h, &payload, &err);
		if (v == READER_VALID) {
			r->waiting = false;
			err = record(r, &h, payload, e);
		} else if (v == READER_ZEROS && r->offset % EKR_BLOCK && batch_ends(r)) {
			r->offset = (r->offset / EKR_BLOCK + 1) * EKR_BLOCK;
			err = 0;
		} else {
			err = no_record(r, v, &h, err, e);
		}
		if (err == READER_STOP) {
			err = 0;
			goto end;
		}
		if (err)
			return err < 0 ? err : 0;
	}
end:
	if (err >= 0 && r->options.follow)
		err = begin_anew(r, e);
	if (err)
		return err < 0 ? err : 0;
	r->silent = false;
	memset(e, 0, sizeof(*e));
	e->kind = READER_END;
	return 0;
}

int reader_open(struct reader **reader, const char *directory, const struct reader_options *options)
{
	struct reader *r = calloc(1, sizeof(*r));
	int err;

	*reader = r;
	if (!r)
		return -ENOMEM;
	r->options = *options;
	r->file.fd = r->heads.fd = -1;
	r->pace.rate = options->rate;
	r->pace.again_ns = options->again_ns;
	r->dir = r->notify = -1;
	r->path = strdup(directory);
	if (!r->path)
		return set_errno(&r->error, ENOMEM, "allocating memory to read %s", directory);
	r->dir = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (r->dir < 0)
		return set_errno(&r->error, errno, "opening the recording %s", directory);
	/* before the heads are read: what is written since then is not missed */
	watch(r);
	err = reader_file_init(&r->file, &r->pace);
	if (!err)
		err = reader_file_init(&r->heads, &r->pace);
	if (err)
		return set_errno(&r->error, -err, "allocating memory to read %s", directory);
	err = list(r, &r->uses, 0);
	if (err)
		return set_errno(&r->error, -err, "reading the heads of the segments of %s",
				 directory);
	for (size_t i = 0; i < r->uses.count; i++)
		if (r->uses.use[i].damage && !strcmp(r->uses.use[i].damage, SEGMENT_OLD))
			return set_error(&r->error, EPROTONOSUPPORT, "%s/%s: %s", directory,
					 r->uses.use[i].file, SEGMENT_OLD);
	find_boot(r);
	if ((options->from_end || options->newest_only) && r->uses.count &&
	    r->uses.use[r->uses.count - 1].used)
		r->next = r->uses.count - 1;
	r->begin = r->next;
	r->silent = options->from_end;
	return 0;
}

void reader_close(struct reader *r)
{
	if (!r)
		return;
	reader_uses_free(&r->uses);
	reader_file_free(&r->file);
	reader_file_free(&r->heads);
	if (r->dir >= 0)
		close(r->dir);
	if (r->notify >= 0)
		close(r->notify);
	free(r->path);
	free(r);
}

const char *reader_error(const struct reader *r)
{
	return r ? r->error.text : "out of memory";
}

const struct reader_counts *reader_counts(const struct reader *r)
{
	return &r->counts;
}

const struct reader_uses *reader_uses(const struct reader *r)
{
	return &r->uses;
}

const struct reader_use *reader_newest(const struct reader *r)
{
	const struct reader_use *u = r->uses.count ? &r->uses.use[r->uses.count - 1] : NULL;

	return u && u->used ? u : NULL;
}

/* the monotonic clock that the range means is that of this machine, now */
static bool of_this_boot(const struct reader *r)
{
	char text[64] = "";
	FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");
	unsigned int byte;
	const char *c = text;

	if (!f)
		return false;
	if (!fgets(text, sizeof(text), f))
		*text = '\0';
	fclose(f);
	for (size_t i = 0; i < sizeof(r->boot); i++, c += 2) {
		c += *c == '-';
		if (sscanf(c, "%2x", &byte) != 1 || byte != r->boot[i])
			return false;
	}
	return true;
}

int reader_wait(struct reader *r, int timeout_ms, int output)
{
	struct pollfd fds[2] = { { .fd = r->notify, .events = POLLIN }, { .fd = output } };
	/* without a notification it has to look by itself */
	int ret = poll(fds, 2,
		       r->notify < 0 && (timeout_ms < 0 || timeout_ms > READER_POLL_MS) ?
			       READER_POLL_MS :
			       timeout_ms);
	char events[4096];

	if (ret < 0)
		return -errno;
	if (fds[1].revents)
		return -EPIPE;
	if (!ret)
		return r->notify < 0;
	while (read(r->notify, events, sizeof(events)) > 0)
		;
	return 1;
}

bool reader_over(const struct reader *r)
{
	const struct reader_time *to = &r->options.range.to;
	const struct ekr_segment_head *head = reader_channel(r);
	const __int128 late = LATE_NS + (head ? head->window_ns : 0);

	if (r->past || !to->set)
		return r->past;
	if (to->monotonic)
		return monotonic_ns() > to->ns + late && of_this_boot(r);
	return realtime_ns() > to->ns + late;
}

bool reader_oldest(struct reader *r, struct ekr_record_head *h)
{
	uint64_t first;

	for (size_t i = 0; i < r->uses.count; i++)
		if (r->uses.use[i].used && first_record(r, &r->uses.use[i], h, &first))
			return true;
	return false;
}

const struct ekr_segment_head *reader_channel(const struct reader *r)
{
	for (size_t i = r->uses.count; i; i--) {
		const struct reader_use *u = &r->uses.use[i - 1];

		if (!u->rescued && u->head.magic == EKR_SEGMENT_MAGIC)
			return &u->head;
	}
	return NULL;
}
