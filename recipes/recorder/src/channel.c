// SPDX-License-Identifier: Apache-2.0
/* A channel's memory, and its clean-shutdown marker. */
#include "channel.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "directory.h"
#include "marker.h"

int channel_open(struct channel *c, struct error *e)
{
	int ret;

	c->directory = c->lock = -1;
	if (c->broken.code)
		return 0;
	ret = buffer_open(&c->buffer, (size_t)c->config.writeout, (size_t)c->config.buffer, e);
	if (!ret) {
		ret = store_open(&c->store, &c->config, &c->buffer, e);
		if (ret)
			buffer_close(&c->buffer);
	}
	return ret;
}

void channel_close(struct channel *c)
{
	store_close(&c->store);
	buffer_close(&c->buffer);
	directory_close(c);
}

void channel_mark_stopped(struct channel *c)
{
	struct store *s = &c->store;
	struct marker m;
	struct error e;

	if (!atomic_load(&c->open) || c->directory < 0)
		return;
	m = (struct marker){
		/* without a readable head, the greatest generation may be one that no segment has */
		.generation = s->current < s->count ? s->segments[s->current].generation :
						      s->generation,
		.end = s->offset,
		.batches = s->batch,
		.next_sequence = c->intake.next_sequence,
	};
	/* nothing was written since its end was found: it still ends there */
	if (s->current >= s->count && s->counts.batches == c->found_after) {
		m = c->found;
		m.next_sequence = c->intake.next_sequence;
	}
	if (marker_write(c->directory, &m, &e))
		log_warning("channel %s: %s; the next start will record a gap", c->config.name,
			    e.text);
}
