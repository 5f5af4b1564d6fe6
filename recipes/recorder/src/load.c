// SPDX-License-Identifier: Apache-2.0
/* All channels of a configuration directory. */
#include "load.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "access.h"

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
