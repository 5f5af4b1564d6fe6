// SPDX-License-Identifier: Apache-2.0
/* Continuing a recording. */
#include "found.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <sys/random.h>

#include <systemd/sd-id128.h>

#include "keep.h"
#include "marker.h"
#include "segment.h"

static bool same_boot(const struct ekr_segment_head *head, const uint8_t boot_id[16])
{
	return !memcmp(head->boot_id, boot_id, sizeof(head->boot_id));
}

/* the values in the head of this segment are still those of the configuration */
static bool same_terms(const struct ekr_segment_head *head, const struct channel_config *config)
{
	return head->record_size == config->record_size && head->period_ns == config->period_ns &&
	       head->window_ns == config->window_ns && head->size == config->segment;
}

/*
 * Damaged segments may have been newer than all that were found. The marker tells, unless its values are
 * implausible.
 */
static void after_mark(const struct marker *m, bool in_order, uint64_t *generation, uint64_t *next)
{
	if (m->generation > *generation && m->generation - *generation <= UINT32_MAX)
		*generation = m->generation;
	if (m->next_sequence > *next && (in_order || m->next_sequence - *next <= UINT32_MAX))
		*next = m->next_sequence;
}

/*
 * The recording ended where the marker says. A marker without an end is of a recorder whose newest use had left the
 * directory: it was kept, or its file was removed.
 */
static bool is_end(const struct recovered *r, const struct marker *m)
{
	const uint64_t newest = r->newest ? r->newest->head.generation : 0;
	const uint64_t left = m->generation - newest;

	if (r->damaged || m->next_sequence < r->next_sequence)
		return false;
	return left ? !m->end && left <= UINT32_MAX : m->end == r->end && m->batches == r->batches;
}

/* for readers; without it, a recording is only harder to repair and to export */
static void describe(const struct channel *c)
{
	struct about about = c->config.about;
	struct error e;

	memcpy(about.id, c->id, sizeof(about.id));
	if (about_write(c->directory, &about, c->config.schema, &e))
		log_warning("channel %s: %s", c->config.name, e.text);
}

int opening_begin(struct channel *c, struct found *f, struct error *e)
{
	const struct recovered *r = &f->r;
	bool in_order, reuse = r->newest && r->only_restarts;
	uint64_t generation = r->generation, next = r->next_sequence;
	struct marker m = { 0 };
	sd_id128_t boot;
	int ret = found_settle(c, f, e);

	if (!ret)
		ret = found_open(c, f, e);
	if (ret)
		return ret;
	ret = marker_take(c->directory, &m, e);
	if (ret && ret != -ENOENT)
		return ret;
	/* no segment and no `started`: nothing can have been lost */
	in_order = f->empty && !marker_started(c->directory);
	/* before the segments, which may fill the partition; if this fails, the shutdown tries again */
	marker_make(c->directory, &(struct error){ 0 });
	if (ret)
		m = (struct marker){ 0 };
	else
		in_order = is_end(r, &m);
	c->in_order = in_order;
	c->found = m;
	after_mark(&m, in_order, &generation, &next);
	keep_notes(c->directory, &generation, &next);
	if (sd_id128_get_boot(&boot))
		memset(&boot, 0, sizeof(boot));
	if (r->valid)
		memcpy(c->id, r->valid->head.channel_id, sizeof(c->id));
	else if (f->about.known)
		memcpy(c->id, f->about.id, sizeof(c->id));
	else if (getrandom(c->id, sizeof(c->id), 0) != sizeof(c->id))
		return set_errno(e, errno, "getting a random number for the channel");
	describe(c);
	intake_open(&c->intake, &c->buffer, (uint32_t)c->config.record_size, c->config.window_ns,
		    next);
	store_set(&c->store, generation, c->intake.next_sequence, c->id, boot.bytes);
	found_add(c, f, reuse && !in_order);
	if (in_order && m.end && r->newest && r->newest->valid &&
	    same_boot(&r->newest->head, boot.bytes) && same_terms(&r->newest->head, &c->config))
		store_continue(&c->store, r->newest->index, r->end, r->batches);
	if (!in_order) {
		/* before everything that this start records */
		intake_lose(&c->intake, EKR_GAP_RESTART, 0);
		intake_tell(&c->intake);
		if (r->any)
			log_warning(
				"channel %s: it was not shut down cleanly; what was submitted after record %" PRIu64
				" is lost",
				c->config.name, r->last_sequence);
		else
			log_warning("channel %s: it was not shut down cleanly; it holds no record",
				    c->config.name);
	}
	if (r->damaged)
		log_warning("channel %s: segment %s is damaged; 'ek-recorder verify' shows where",
			    c->config.name, r->newest->file);
	return 0;
}

int opening_return(struct channel *c, struct found *f, struct error *e)
{
	const struct recovered *r = &f->r;
	struct marker m;
	int ret;

	if (r->count &&
	    (!r->valid || memcmp(r->valid->head.channel_id, c->id, sizeof(c->id)) != 0 ||
	     r->valid->head.size != c->config.segment ||
	     (r->newest && r->newest->head.generation > c->store.generation)))
		return set_error(e, EINVAL,
				 "its directory now holds another recording; remove that, or "
				 "restart the recorder");
	ret = found_open(c, f, e);
	if (ret)
		return ret;
	ret = marker_take(c->directory, &m, e);
	if (ret && ret != -ENOENT)
		return ret;
	marker_make(c->directory, e);
	/* everything that was written is on the medium, or waits to be written again: the recording ends here */
	c->found = (struct marker){ 0 };
	if (r->newest)
		c->found = (struct marker){ .generation = r->newest->head.generation,
					    .end = r->end,
					    .batches = r->batches };
	c->found_after = c->store.counts.batches;
	store_pass(&c->store, r->generation);
	describe(c);
	found_add(c, f, false);
	return 0;
}

int opening_leave(struct channel *c, struct error *e)
{
	return c->in_order ? marker_write(c->directory, &c->found, e) : 0;
}
