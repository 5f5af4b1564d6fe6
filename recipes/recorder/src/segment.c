// SPDX-License-Identifier: Apache-2.0
/* Segment files. */
#include "segment.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "scope.h"

_Static_assert(sizeof(struct ekr_segment_head) == 152, "no holes");

/* end of the name of a segment that is being created */
#define TEMPORARY ".new"

void segment_name(char name[SEGMENT_NAME], uint32_t index)
{
	snprintf(name, SEGMENT_NAME, "%08u.seg", index % 100000000);
}

DIR *segment_list(int directory, const char *path)
{
	int fd = openat(directory, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *list = fd < 0 ? NULL : fdopendir(fd);

	if (!list && fd >= 0)
		close(fd);
	return list;
}

bool segment_index(const char *name, uint32_t *index)
{
	uint32_t n = 0;

	if (strlen(name) != 12 || strspn(name, "0123456789") != 8 || strcmp(name + 8, ".seg") != 0)
		return false;
	for (int i = 0; i < 8; i++)
		n = n * 10 + (uint32_t)(name[i] - '0');
	*index = n;
	return true;
}

bool segment_unfinished(const char *name, uint32_t *index)
{
	char whole[SEGMENT_NAME];
	size_t length = strlen(name);

	if (length != 16 || strcmp(name + 12, TEMPORARY) != 0)
		return false;
	snprintf(whole, sizeof(whole), "%.12s", name);
	return segment_index(whole, index);
}

/* the CRC of a head, computed with zeros in the crc field */
static uint32_t head_crc(const unsigned char block[EKR_BLOCK])
{
	struct ekr_segment_head head;

	memcpy(&head, block, sizeof(head));
	head.crc = 0;
	return crc32c(crc32c(0, &head, sizeof(head)), block + sizeof(head),
		      EKR_BLOCK - sizeof(head));
}

void segment_seal_head(unsigned char block[EKR_BLOCK])
{
	struct ekr_segment_head *head = (struct ekr_segment_head *)block;

	head->magic = EKR_SEGMENT_MAGIC;
	head->version = EKR_FORMAT_VERSION;
	head->crc = head_crc(block);
}

const char *segment_head_problem(const unsigned char block[EKR_BLOCK])
{
	struct ekr_segment_head head;

	memcpy(&head, block, sizeof(head));
	if (head.magic != EKR_SEGMENT_MAGIC)
		return !*block && !memcmp(block, block + 1, EKR_BLOCK - 1) ? "head: zeros" :
									     "head: bad magic";
	if (head.crc != head_crc(block))
		return "head: bad CRC";
	if (head.version < EKR_FORMAT_VERSION)
		return SEGMENT_OLD;
	if (head.version > EKR_FORMAT_VERSION)
		return "head: of a newer format version; read it with a newer ek-recorder";
	if (head.size % EKR_BLOCK || head.size < 2 * EKR_BLOCK)
		return "head: bad size";
	if (head.record_size > EKR_RECORD_MAX)
		return "head: bad record size";
	if (!memchr(head.name, 0, EKR_NAME_MAX + 1))
		return "head: the channel's name is not terminated";
	return NULL;
}

struct record_use segment_use(const struct ekr_segment_head *head)
{
	return (struct record_use){
		.generation = head->generation,
		.record_size = head->record_size,
		.seed = crc32c(crc32c(0, head->channel_id, sizeof(head->channel_id)), &head->index,
			       sizeof(head->index)),
	};
}

/* 0 if everything was written, or a negative errno */
static int write_blocks(int fd, const unsigned char *from, size_t length, uint64_t at)
{
	ssize_t n = TEMP_FAILURE_RETRY(pwrite(fd, from, length, (off_t)at));

	/* the file is allocated, so a short write means that the disk is full */
	return n < 0 ? -errno : (size_t)n < length ? -ENOSPC : 0;
}

static int write_all(int fd, const struct ekr_segment_head *head, const unsigned char *zeros,
		     size_t length, const atomic_bool *stop)
{
	_Alignas(EKR_BLOCK) unsigned char block[EKR_BLOCK] = { 0 };
	int ret;

	memcpy(block, head, sizeof(*head));
	segment_seal_head(block);
	ret = write_blocks(fd, block, sizeof(block), 0);
	for (uint64_t at = EKR_BLOCK; at < head->size && !ret; at += length) {
		uint64_t left = head->size - at;

		ret = atomic_load(stop) ?
			      -ECANCELED :
			      write_blocks(fd, zeros, left < length ? (size_t)left : length, at);
	}
	return ret ? ret : fsync(fd) ? -errno : 0;
}

int segment_make(int directory, const struct ekr_segment_head *head, const unsigned char *zeros,
		 size_t length, const atomic_bool *stop, struct error *e)
{
	char name[SEGMENT_NAME], temporary[SEGMENT_NAME + 4];
	CLOSED int fd = -1;
	int ret = 0;

	segment_name(name, head->index);
	snprintf(temporary, sizeof(temporary), "%s" TEMPORARY, name);
	if (unlinkat(directory, temporary, 0) && errno != ENOENT)
		return set_errno(e, errno, "removing the unfinished %s", temporary);
	fd = openat(directory, temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_DIRECT, 0644);
	if (fd < 0)
		return set_errno(e, errno, "creating %s", temporary);
	/* in one extent if possible, before anything is written */
	if (fallocate(fd, 0, 0, (off_t)head->size) && errno != EOPNOTSUPP)
		ret = -errno;
	if (!ret)
		ret = write_all(fd, head, zeros, length, stop);
	if (!ret && (renameat(directory, temporary, directory, name) || fsync(directory)))
		ret = -errno;
	if (!ret)
		return 0;
	unlinkat(directory, temporary, 0);
	return set_errno(e, -ret, "creating segment %s of %llu bytes", name,
			 (unsigned long long)head->size);
}

int segment_open(int directory, uint32_t index, struct error *e)
{
	char name[SEGMENT_NAME];
	int fd;

	segment_name(name, index);
	fd = openat(directory, name, O_WRONLY | O_CLOEXEC | O_NOFOLLOW | O_DIRECT);
	return fd < 0 ? set_errno(e, errno, "opening segment %s", name) : fd;
}
