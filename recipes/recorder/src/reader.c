// SPDX-License-Identifier: Apache-2.0
/* Reading a channel's recording: uses of segments in order, records in order. */
#include "reader.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "reader_state.h"
#include "segment.h"

/* looks at the end of the newest segment, which may be in the middle of being written: a second */
#define LOOKS 11

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

/* --- events ------------------------------------------------------------------- */

static void begin_event(const struct reader *r, struct reader_event *e, enum reader_kind kind)
{
	memset(e, 0, sizeof(*e));
	e->kind = kind;
	memcpy(e->file, r->use.file, sizeof(e->file));
	e->generation = r->use.head.generation;
	e->offset = r->walk.offset;
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

static void set_reason(struct reader_event *e, const char *what, const char *more)
{
	snprintf(e->reason, sizeof(e->reason), "%s%s", what, more);
}

/* --- uses ----------------------------------------------------------------------- */

static void leave(struct reader *r)
{
	r->before_first = r->use.head.first_sequence;
	reader_file_close(&r->file);
	r->open = false;
	r->waiting = false;
}

/* what was there is gone: the next records are not those that follow it */
static int gone(struct reader *r, struct reader_event *e, const char *why)
{
	begin_event(r, e, READER_OVERWRITTEN);
	set_reason(e, why, "");
	/* what is not there was not lost, but older than what is kept */
	r->any = false;
	leave(r);
	return give(r, e);
}

static int overwritten(struct reader *r, struct reader_event *e)
{
	return gone(r, e, "reused or deleted while it was read");
}

/* A hole after a kept segment: the recorder reused what was there. This is no fault. */
static bool follows_kept(const struct reader *r, const struct medium_use *u)
{
	return strchr(r->use.file, '/') && u->head.generation != r->use.head.generation + 1;
}

/* Begin with the next use. 1: there is an event, 0: go on, negative errno. */
static int enter(struct reader *r, struct reader_event *e)
{
	const struct medium_use *u = &r->uses.use[r->next];
	bool passed;
	int err;

	if (u->damage && !r->told_head) {
		begin_event(r, e, READER_DAMAGE);
		memcpy(e->file, u->file, sizeof(e->file));
		e->generation = u->head.generation;
		e->offset = 0;
		set_reason(e, u->damage,
			   u->used && !u->valid ? "; its records are read without it" : "");
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
	passed = scope_outside(r, r->next);
	if (!passed)
		passed = r->past = scope_behind(r, r->next);
	r->seen = u->head.generation;
	if (passed) {
		r->next++;
		r->any = false;
		return 0;
	}
	if (follows_kept(r, u))
		r->any = false;
	r->use = *u;
	r->next++;
	r->walk = (struct medium_walk){ .bytes = &r->file.bytes,
					.head = &r->use.head,
					.offset = EKR_BLOCK };
	r->repeats = false;
	err = reader_file_open(&r->file, r->dir, r->use.file);
	/* the channel retains less since its recorder was started */
	if (err == -ENOENT)
		return overwritten(r, e);
	if (err) {
		begin_event(r, e, READER_DAMAGE);
		set_reason(e, "cannot be opened: ", strerror(-err));
		r->because = "damage";
		return give(r, e);
	}
	r->open = true;
	if (follow_recycled(r))
		return overwritten(r, e);
	return 0;
}

/* --- damage ---------------------------------------------------------------------- */

/* What follows the use that is read: nothing, or that the recorder was stopped. */
static bool stopped_after(struct reader *r)
{
	struct medium_record record;
	const struct medium_use *u;

	if (r->next >= r->uses.count)
		return true;
	u = &r->uses.use[r->next];
	if (!scope_same_boot(u, &r->use))
		return true;
	r->heads.bytes.ahead = EKR_BLOCK;
	if (reader_file_open(&r->heads, r->dir, u->file))
		return false;
	medium_look(&r->heads.bytes, &u->head, EKR_BLOCK, &record);
	return record.verdict == MEDIUM_VALID && medium_is_restart(&record);
}

/*
 * Records from this sequence on are void: the next use has others of these
 * numbers, or the same ones again.
 */
static uint64_t void_from(const struct reader *r)
{
	const struct medium_use *next = NULL;

	for (size_t i = r->next; i < r->uses.count && !next; i++)
		if (r->uses.use[i].used)
			next = &r->uses.use[i];
	return next && next->head.first_sequence >= r->use.head.first_sequence ?
		       next->head.first_sequence :
		       UINT64_MAX;
}

/* A record is at the place by now: it was being written, or was when its block was read. */
static bool there_by_now(struct reader *r, int looks, bool now)
{
	struct medium_record record;

	for (; looks && !reader_stopping(r); looks--) {
		if (now)
			medium_forget(&r->file.bytes);
		else if (!reader_file_again(&r->file))
			return false;
		now = false;
		medium_look(&r->file.bytes, &r->use.head, r->walk.offset, &record);
		if (record.verdict == MEDIUM_VALID)
			return true;
	}
	return false;
}

#define READER_STOP 2

/* Following, and there is no more in the newest use: is there a newer one by now? */
static int wait_for_more(struct reader *r)
{
	int newer = follow_newer_use(r);

	if (newer < 0)
		return newer;
	r->waiting = !newer;
	if (!newer)
		return READER_STOP;
	/* there may be what was written between our look and the new use */
	medium_forget(&r->file.bytes);
	return 0;
}

/*
 * There is no record. Is it the end of the use, of what is there so far, or damage? 1: there is an
 * event, 0: look again, READER_STOP: the end for now, or a negative errno.
 */
static int no_record(struct reader *r, const struct medium_record *record, struct reader_event *e)
{
	const enum medium_verdict v = record->verdict;
	const uint64_t offset = r->walk.offset;
	const bool at_block = offset % EKR_BLOCK == 0;
	const bool quiet = at_block &&
			   (v == MEDIUM_ZEROS || v == MEDIUM_NO_RECORD || v == MEDIUM_STALE);
	const bool newest = r->next >= r->uses.count;
	uint64_t found, written;
	int newer;

	/* not even room for a head */
	if (v == MEDIUM_IO && record->error == -ENODATA) {
		if (!r->options.follow || !newest || (newer = follow_newer_use(r)) > 0) {
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
	if (follow_recycled(r))
		return overwritten(r, e);
	if (!quiet && v != MEDIUM_IO && newest && there_by_now(r, LOOKS - 1, false))
		return 0;
	begin_event(r, e, READER_DAMAGE);
	medium_explain(e->reason, sizeof(e->reason), record, &r->use.head);
	found = medium_find(&r->walk, (offset / EKR_BLOCK + 1) * EKR_BLOCK, UINT64_MAX,
			    r->walk.in_batch ? r->walk.batch : 0, void_from(r), &written);
	if (reader_stopping(r))
		return -EINTR;
	/* what was found came while the rest was read, and what precedes it did, too */
	if (found && newest && there_by_now(r, quiet ? LOOKS : 1, true))
		return 0;
	if (reader_stopping(r))
		return -EINTR;
	if (found) {
		e->extent = found - offset;
		r->walk.offset = found;
		r->because = "damage";
		return give(r, e);
	}
	if (follow_recycled(r))
		return overwritten(r, e);
	if (quiet) {
		leave(r);
		return 0;
	}
	if (stopped_after(r))
		e->kind = READER_TORN;
	e->extent = (written ? written : medium_end(&r->file.bytes, &r->use.head)) - offset;
	r->because = "damage";
	leave(r);
	return give(r, e);
}

/* --- records ----------------------------------------------------------------------- */

/* a record with a valid CRC that cannot be there */
static int doubtful(struct reader *r, const struct medium_record *record, struct reader_event *e)
{
	begin_event(r, e, READER_DAMAGE);
	set_reason(e, record->why, "");
	e->offset = record->offset;
	e->extent = r->walk.offset - record->offset;
	r->because = "damage";
	return give(r, e);
}

/* A later use repeats this record, or makes it void. @first_of_use: no record of the use precedes it. */
static bool not_given(struct reader *r, const struct medium_record *record, bool first_of_use)
{
	const uint64_t sequence = record->head.sequence;

	/* sequences that begin again were reported with the head */
	if (first_of_use && r->any && sequence <= r->last) {
		r->repeats = r->use.head.first_sequence >= r->before_first;
		r->any = r->repeats;
	}
	r->repeats = r->repeats && sequence <= r->last;
	return r->repeats || sequence >= void_from(r);
}

/* a valid record; 1: there is an event, 0: go on */
static int take_record(struct reader *r, const struct medium_record *record, bool first_of_use,
		       struct reader_event *e)
{
	const struct ekr_record_head *h = &record->head;
	bool in_range, missing;
	uint64_t from, to;

	if (record->cut && !r->because)
		r->because = "the batch before it is incomplete";
	if (not_given(r, record, first_of_use)) {
		r->counts.not_given++;
		return 0;
	}
	begin_event(r, e, h->flags & EKR_RECORD_GAP ? READER_GAP : READER_RECORD);
	e->offset = record->offset;
	e->sequence = h->sequence;
	e->first = record->first;
	e->monotonic_ns = h->monotonic_ns;
	e->realtime_ns = h->realtime_ns;
	e->acquired_ns = h->acquired_ns;
	e->payload = record->payload;
	e->length = h->length;
	e->gap = record->gap;
	in_range = scope_inside(r, record);
	missing = scope_missing(r, record, &from, &to);
	if (missing) {
		r->held = *e;
		r->holding = in_range && !r->silent;
		begin_event(r, e, READER_MISSING);
		e->first = from;
		e->sequence = to;
		if (r->because)
			set_reason(e, r->because, "");
	}
	r->because = NULL;
	r->any = true;
	r->last = h->sequence;
	r->before = scope_too_old(r, h);
	r->after = scope_too_young(r, h);
	r->past = r->after || h->sequence >= r->options.range.last;
	/* within a use sequences grow */
	if (record->first > r->options.range.last)
		leave(r);
	return missing || in_range ? give(r, e) : 0;
}

/*
 * The newest use may hold no record yet, as after a crash. Reading begins again one use earlier, and
 * what was read is read again: what is void there depends on what follows it.
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

/* One step in the use that is read. 1: there is an event, 0: go on, READER_STOP, or a negative errno. */
static int step(struct reader *r, struct reader_event *e)
{
	const bool first_of_use = !r->walk.any;
	struct medium_record found;
	enum medium_step what = medium_next(&r->walk, &found);

	if (found.verdict != MEDIUM_IO)
		r->file.bytes.ahead = READER_AHEAD;
	if (what == MEDIUM_NONE)
		return no_record(r, &found, e);
	r->waiting = false;
	return what == MEDIUM_DOUBT ? doubtful(r, &found, e) :
				      take_record(r, &found, first_of_use, e);
}

int reader_next(struct reader *r, struct reader_event *e)
{
	int err = 0;

	if (r->holding) {
		*e = r->held;
		r->holding = false;
		/* as silent as what came before it */
		if (give(r, e))
			return 0;
	}
	if (r->waiting) {
		/* a block is enough to see whether there is more */
		medium_forget(&r->file.bytes);
		r->file.bytes.ahead = EKR_BLOCK;
	}
	while (!err) {
		if (reader_stopping(r))
			return -EINTR;
		if (!r->open && r->next >= r->uses.count) {
			err = r->options.follow ? follow_newer_use(r) : begin_earlier(r);
			if (err <= 0)
				break;
		}
		err = r->open ? step(r, e) : enter(r, e);
	}
	if (err == 1)
		return 0;
	if (err >= 0 && r->options.follow) {
		/* at the end of what there is, the recorder may have created the directory again */
		err = follow_directory(r);
		if (err > 0) {
			err = gone(r, e, "the channel's directory was replaced");
			r->before_first = 0;
			if (err)
				return 0;
		}
	}
	if (err < 0)
		return err;
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
	follow_watch(r);
	err = reader_file_init(&r->file, &r->pace, options->stop);
	if (!err)
		err = reader_file_init(&r->heads, &r->pace, options->stop);
	if (err)
		return set_errno(&r->error, -err, "allocating memory to read %s", directory);
	err = follow_list(r, &r->uses, 0);
	if (err)
		return set_errno(&r->error, -err, "reading the heads of the segments of %s",
				 directory);
	for (size_t i = 0; i < r->uses.count; i++)
		if (r->uses.use[i].damage && !strcmp(r->uses.use[i].damage, SEGMENT_OLD))
			return set_error(&r->error, EPROTONOSUPPORT, "%s/%s: %s", directory,
					 r->uses.use[i].file, SEGMENT_OLD);
	follow_find_boot(r);
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

bool reader_oldest(struct reader *r, struct ekr_record_head *h)
{
	uint64_t first;

	for (size_t i = 0; i < r->uses.count; i++)
		if (r->uses.use[i].used && scope_first_record(r, &r->uses.use[i], h, &first))
			return true;
	return false;
}

const struct ekr_segment_head *reader_channel(const struct reader *r)
{
	for (size_t i = r->uses.count; i; i--) {
		const struct medium_use *u = &r->uses.use[i - 1];

		if (u->valid)
			return &u->head;
	}
	return NULL;
}
