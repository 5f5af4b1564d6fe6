// SPDX-License-Identifier: Apache-2.0
/* Writes recordings for tests by the rules of format.h. */
#include "recording.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "batch.h"

static char *name(const struct recording *rec, unsigned int index)
{
	char *path;

	assert_true(asprintf(&path, "%s/%08u.seg", rec->directory, index) > 0);
	return path;
}

void recording_poke(const struct recording *rec, unsigned int index, uint64_t offset,
		    const void *bytes, uint64_t length)
{
	char *path = name(rec, index);
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, bytes, length, (off_t)offset), length);
	close(fd);
	free(path);
}

void recording_peek(const struct recording *rec, unsigned int index, uint64_t offset, void *bytes,
		    uint64_t length)
{
	char *path = name(rec, index);
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(pread(fd, bytes, length, (off_t)offset), length);
	close(fd);
	free(path);
}

void recording_head(struct recording *rec)
{
	unsigned char block[EKR_BLOCK] = { 0 };

	rec->head.crc = 0;
	memcpy(block, &rec->head, sizeof(rec->head));
	rec->head.crc = crc32c(0, block, sizeof(block));
	memcpy(block, &rec->head, sizeof(rec->head));
	recording_poke(rec, rec->head.index, 0, block, sizeof(block));
}

void recording_begin(struct recording *rec, unsigned int segments, uint64_t size,
		     uint32_t record_size)
{
	char template[] = "recording-XXXXXX";

	memset(rec, 0, sizeof(*rec));
	assert_non_null(mkdtemp(template));
	rec->directory = strdup(template);
	rec->segments = segments;
	rec->image = calloc(1, size);
	assert_non_null(rec->image);
	rec->head = (struct ekr_segment_head){
		.magic = EKR_SEGMENT_MAGIC,
		.version = EKR_FORMAT_VERSION,
		.channel_id = { 1, 2, 3 },
		.name = "test",
		.size = size,
		.record_size = record_size,
		.period_ns = RECORDING_STEP,
		.window_ns = 200000000,
		.boot_id = { 9 },
	};
	for (unsigned int i = segments; i--;) {
		rec->head.index = i;
		recording_poke(rec, i, 0, rec->image, size);
		recording_head(rec);
	}
	rec->head.index = segments - 1;
	rec->monotonic_ns = 1000000000;
	rec->realtime_ns = RECORDING_START;
}

void recording_use(struct recording *rec)
{
	if (rec->fill != rec->offset)
		recording_flush(rec);
	rec->head.index = (rec->head.index + 1) % rec->segments;
	rec->head.generation++;
	rec->head.first_sequence = rec->sequence;
	rec->head.monotonic_ns = rec->monotonic_ns;
	rec->head.realtime_ns = rec->realtime_ns;
	recording_head(rec);
	rec->offset = rec->fill = EKR_BLOCK;
	rec->batch = 0;
}

void recording_payload(uint64_t sequence, unsigned char *to, uint32_t length)
{
	for (uint32_t i = 0; i < length; i++)
		to[i] = (unsigned char)(sequence * 31 + i * 7 + 1);
}

static void add(struct recording *rec, const void *payload, uint32_t length, uint32_t flags,
		uint64_t sequence)
{
	struct ekr_record_head h = {
		.magic = EKR_RECORD_MAGIC,
		.length = length,
		.flags = flags,
		.generation = rec->head.generation,
		.sequence = sequence,
		.monotonic_ns = rec->monotonic_ns,
		.realtime_ns = rec->realtime_ns,
		.acquired_ns = rec->monotonic_ns - 1000,
		.batch = rec->batch,
	};
	uint64_t end = rec->fill + (sizeof(h) + length + 7) / 8 * 8;

	assert_true(end <= rec->head.size);
	h.crc = crc32c(crc32c(crc32c(crc32c(0, rec->head.channel_id, 16), &rec->head.index, 4), &h,
			      sizeof(h)),
		       payload, length);
	memset(rec->image + rec->fill, 0, end - rec->fill);
	memcpy(rec->image + rec->fill, &h, sizeof(h));
	memcpy(rec->image + rec->fill + sizeof(h), payload, length);
	rec->fill = end;
	rec->monotonic_ns += RECORDING_STEP;
	rec->realtime_ns += RECORDING_STEP;
}

void recording_add(struct recording *rec, uint32_t length)
{
	unsigned char *payload = malloc(length + 1);

	assert_non_null(payload);
	recording_payload(rec->sequence, payload, length);
	add(rec, payload, length, 0, rec->sequence++);
	free(payload);
}

void recording_gap(struct recording *rec, uint32_t reason, uint32_t lost, uint64_t sequences)
{
	const struct ekr_gap gap = { .reason = reason, .count_lost = lost };

	rec->sequence += sequences;
	add(rec, &gap, sizeof(gap), EKR_RECORD_GAP, rec->sequence - 1);
}

void recording_flush(struct recording *rec)
{
	uint64_t end = (rec->fill + EKR_BLOCK - 1) / EKR_BLOCK * EKR_BLOCK;

	memset(rec->image + rec->fill, 0, end - rec->fill);
	recording_poke(rec, rec->head.index, rec->offset, rec->image + rec->offset,
		       end - rec->offset);
	rec->offset = rec->fill = end;
	rec->batch++;
}

void recording_end(struct recording *rec)
{
	for (unsigned int i = 0; i < rec->segments; i++) {
		char *path = name(rec, i);

		unlink(path);
		free(path);
	}
	assert_int_equal(rmdir(rec->directory), 0);
	free(rec->directory);
	free(rec->image);
}
