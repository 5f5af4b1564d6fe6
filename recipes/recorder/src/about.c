// SPDX-License-Identifier: Apache-2.0
/* The file that says what a channel is. */
#include "about.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "format.h"
#include "scope.h"

#define MOST	  4096
#define READ_FILE (O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)

bool about_name_ok(const char *name)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789-";
	size_t length = strspn(name, letters);

	return length && length <= EKR_NAME_MAX && !name[length] && *name != '-';
}

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
		used += snprintf(text + used, (size_t)(MOST - used), "encoding %s\n",
				 about->encoding);
	if (*about->schema_name)
		snprintf(text + used, (size_t)(MOST - used), "schema_name %s\nschema_encoding %s\n",
			 about->schema_name, about->schema_encoding);
}

static void read_text(int directory, char text[MOST])
{
	CLOSED int fd = openat(directory, ABOUT_FILE, READ_FILE);
	ssize_t n = fd < 0 ? 0 : read(fd, text, MOST - 1);

	text[n > 0 ? n : 0] = '\0';
}

void about_read(int directory, struct about *about)
{
	char text[MOST];

	read_text(directory, text);
	about_parse(about, text);
}

static bool has_bytes(int directory, const char *name, const void *data, size_t length)
{
	CLOSED int fd = openat(directory, name, READ_FILE);
	FREED char *found = fd < 0 ? NULL : malloc(length + 1);

	return found && read(fd, found, length + 1) == (ssize_t)length &&
	       !memcmp(found, data, length);
}

/* Replaces file @name durably, unless it has these bytes. */
static int put_file(int directory, const char *name, const void *data, size_t length,
		    struct error *e)
{
	char temporary[32];
	int fd, code = 0;

	if (has_bytes(directory, name, data, length))
		return 0;
	snprintf(temporary, sizeof(temporary), "%s.new", name);
	fd = openat(directory, temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW,
		    0644);
	if (fd < 0)
		return set_errno(e, errno, "creating %s", temporary);
	errno = ENOSPC;
	if (write(fd, data, length) != (ssize_t)length || fsync(fd))
		code = errno;
	close(fd);
	if (!code && (renameat(directory, temporary, directory, name) || fsync(directory)))
		code = errno;
	if (!code)
		return 0;
	unlinkat(directory, temporary, 0);
	return set_errno(e, code, "writing %s", name);
}

static int put_schema(int directory, const char *path, struct error *e)
{
	FREED char *data = malloc(ABOUT_SCHEMA_MAX + 1);
	CLOSED int fd = data ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	ssize_t n = fd < 0 ? -1 : read(fd, data, ABOUT_SCHEMA_MAX + 1);

	if (n < 0)
		return set_errno(e, errno, "reading the schema %s", path);
	if (n > (ssize_t)ABOUT_SCHEMA_MAX)
		return set_error(e, EFBIG, "the schema %s is larger than 1 MiB", path);
	return put_file(directory, ABOUT_SCHEMA, data, (size_t)n, e);
}

int about_write(int directory, const struct about *about, const char *schema, struct error *e)
{
	struct about as = *about;
	struct error second;
	char text[MOST];
	int ret = *schema ? put_schema(directory, schema, e) : 0, put;

	/* a name without its schema would mislead a reader */
	if (ret || !*schema)
		as.schema_name[0] = as.schema_encoding[0] = '\0';
	print(text, &as);
	put = put_file(directory, ABOUT_FILE, text, strlen(text), ret ? &second : e);
	return ret ? ret : put;
}
