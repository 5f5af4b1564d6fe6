// SPDX-License-Identifier: Apache-2.0
/* The file that says what a channel is. */
#include "about.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define MOST	  4096
#define TEMPORARY ABOUT_FILE ".new"

static bool take_id(uint8_t id[16], const char *text)
{
	for (size_t i = 0; i < 16; i++) {
		unsigned int byte;
		int used = 0;

		if (strspn(text, "0123456789abcdef") < 2 ||
		    sscanf(text, "%2x%n", &byte, &used) != 1 || used != 2)
			return false;
		id[i] = (uint8_t)byte;
		text += 2;
	}
	return !*text;
}

static void take_value(char to[ABOUT_VALUE], const char *text)
{
	size_t length = strlen(text);

	for (size_t i = 0; i < length; i++)
		if ((unsigned char)text[i] < ' ' || text[i] == 0x7f)
			return;
	if (length < ABOUT_VALUE)
		memcpy(to, text, length + 1);
}

static void take_line(struct about *about, char *line)
{
	char *value = strchr(line, ' ');
	uint8_t id[16];

	if (!value)
		return;
	*value++ = '\0';
	if (!strcmp(line, "id") && take_id(id, value)) {
		memcpy(about->id, id, sizeof(id));
		about->known = true;
	} else if (!strcmp(line, "encoding")) {
		take_value(about->encoding, value);
	} else if (!strcmp(line, "schema_name")) {
		take_value(about->schema_name, value);
	} else if (!strcmp(line, "schema_encoding")) {
		take_value(about->schema_encoding, value);
	}
}

void about_parse(struct about *about, const char *text)
{
	*about = (struct about){ 0 };
	while (*text) {
		size_t length = strcspn(text, "\n");
		char line[ABOUT_VALUE + 32];

		if (length < sizeof(line)) {
			memcpy(line, text, length);
			line[length] = '\0';
			take_line(about, line);
		}
		text += length + (text[length] != '\0');
	}
}

static void print(char text[MOST], const struct about *about)
{
	int used = snprintf(text, MOST, "id ");

	for (size_t i = 0; i < sizeof(about->id); i++)
		used += snprintf(text + used, (size_t)(MOST - used), "%02x", about->id[i]);
	used += snprintf(text + used, (size_t)(MOST - used), "\n");
	if (*about->encoding)
		used += snprintf(text + used, (size_t)(MOST - used), "encoding %s\n", about->encoding);
	if (*about->schema_name)
		snprintf(text + used, (size_t)(MOST - used), "schema_name %s\nschema_encoding %s\n",
			 about->schema_name, about->schema_encoding);
}

static void read_text(int directory, char text[MOST])
{
	int fd = openat(directory, ABOUT_FILE, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	ssize_t n = fd < 0 ? 0 : read(fd, text, MOST - 1);

	if (fd >= 0)
		close(fd);
	text[n > 0 ? n : 0] = '\0';
}

void about_read(int directory, struct about *about)
{
	char text[MOST];

	read_text(directory, text);
	about_parse(about, text);
}

void about_id(int directory, uint8_t id[16])
{
	struct about about;

	about_read(directory, &about);
	memcpy(id, about.id, sizeof(about.id));
}

int about_write(int directory, const struct about *about, struct error *e)
{
	char text[MOST], found[MOST];
	size_t length;
	int fd, code;

	print(text, about);
	read_text(directory, found);
	if (!strcmp(text, found))
		return 0;
	length = strlen(text);
	fd = openat(directory, TEMPORARY, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW,
		    0644);
	if (fd < 0)
		return set_errno(e, errno, "creating %s", TEMPORARY);
	code = write(fd, text, length) == (ssize_t)length ? 0 : errno ? errno : ENOSPC;
	if (!code && fsync(fd))
		code = errno;
	close(fd);
	if (!code && (renameat(directory, TEMPORARY, directory, ABOUT_FILE) || fsync(directory)))
		code = errno;
	if (!code)
		return 0;
	unlinkat(directory, TEMPORARY, 0);
	return set_errno(e, code, "writing %s", ABOUT_FILE);
}
