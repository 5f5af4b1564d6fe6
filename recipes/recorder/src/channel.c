// SPDX-License-Identifier: Apache-2.0
/* A channel's memory, its clean-shutdown marker, and its configuration. */
#include "channel.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "access.h"
#include "directory.h"

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

/* no segment in the directory is of this use: it was kept, or its file was removed */
static bool has_left(struct store *s, uint64_t generation)
{
	struct segment segment;

	for (unsigned int i = 0; store_segment(s, i, &segment); i++)
		if (segment.generation == generation)
			return false;
	return generation > 0;
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
	if (s->current >= s->count && s->counts.batches == c->found_after &&
	    !has_left(s, c->found.generation)) {
		m = c->found;
		m.next_sequence = c->intake.next_sequence;
	}
	if (marker_write(c->directory, &m, &e))
		log_warning("channel %s: %s; the next start will record a gap", c->config.name,
			    e.text);
}

/* --- all channels of a configuration directory ------------------------------------- */

static int ends_in_conf(const struct dirent *entry)
{
	size_t length = strlen(entry->d_name);

	return *entry->d_name != '.' && length > 5 && !strcmp(entry->d_name + length - 5, ".conf");
}

static void load_channel(const struct recorder_config *config, const char *dir, const char *file,
			 struct channel *channels, unsigned int count)
{
	struct channel *c = &channels[count];
	char path[PATH_MAX];

	*c = (struct channel){ .directory = -1, .lock = -1 };
	if (!config_file(path, dir, file, &c->broken))
		config_channel(path, &c->config, &c->broken);
	if (!c->broken.code)
		access_resolve(&c->config, config, &c->broken);
	c->declared = c->config;
	snprintf(c->file, sizeof(c->file), "%.*s", (int)strlen(file) - 5, file);
	if (c->broken.code)
		log_error("%s; the channel is not recorded", c->broken.text);
}

int load_config(const char *dir, struct recorder_config *config,
		struct channel channels[CHANNELS_MAX], struct error *e)
{
	struct dirent **files;
	char path[PATH_MAX];
	int ret, found, count = 0;

	ret = config_file(path, dir, "recorder.conf", e);
	if (!ret)
		ret = config_recorder(path, config, e);
	if (ret && ret != -ENOENT)
		return ret;
	e->code = 0;
	ret = config_file(path, dir, "channels.d", e);
	if (ret)
		return ret;
	found = scandir(path, &files, ends_in_conf, alphasort);
	if (found < 0)
		return set_errno(e, errno, "reading %.150s/channels.d", dir);
	for (int i = 0; i < found; i++) {
		if (count < (int)CHANNELS_MAX)
			load_channel(config, path, files[i]->d_name, channels,
				     (unsigned int)count++);
		else
			log_error("%s/%s: not recorded, because there are more than %u channels",
				  path, files[i]->d_name, CHANNELS_MAX);
		free(files[i]);
	}
	free(files);
	return count;
}
