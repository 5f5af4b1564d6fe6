/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes an MCAP file (mcap.dev/spec, version 0): header, schemas, channels, chunks with CRC and message
 * index, and a summary with schemas, channels, statistics, chunk indexes and offsets. The file is
 * written from front to back, so the output may be a pipe.
 *
 * Memory: one chunk, and 1.1 KiB for each chunk that was written.
 *
 * One thread at a time. Functions return 0 or a negative errno. After a failure, call only mcap_free().
 */
#ifndef EKR_MCAP_H
#define EKR_MCAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define MCAP_CHANNELS	128	/* and schemas */
/* Bytes after which a chunk is closed. */
#define MCAP_CHUNK	(1u << 20)

struct mcap_bytes {
	unsigned char *data;
	size_t length, room;
	bool failed;		/* out of memory: what was added since is missing */
};

struct mcap_pair {
	const char *key, *value;
};

struct mcap;

/* @zstd: compress chunks. @library: name of the program that writes. */
int mcap_begin(struct mcap **mcap, FILE *to, const char *library, bool zstd);

/* Adds a schema, before the channels that use it; *@id is from 1. */
int mcap_schema(struct mcap *mcap, const char *name, const char *encoding, const void *data, size_t length,
		uint16_t *id);

/*
 * Adds a channel, before all messages; *@id is from 0. @schema: an id; 0: none. @encoding: of the messages,
 * may be "". @pairs: metadata, ends with { NULL, NULL }.
 */
int mcap_channel(struct mcap *mcap, uint16_t schema, const char *topic, const char *encoding, const struct mcap_pair *pairs,
		 uint16_t *id);

/* @time, @published: log_time and publish_time, ns since 1970. */
int mcap_message(struct mcap *mcap, uint16_t channel, uint32_t sequence, uint64_t time, uint64_t published,
		 const void *data, size_t length);

/* Writes the last chunk and the summary. Does not flush the stream. */
int mcap_end(struct mcap *mcap);
void mcap_free(struct mcap *mcap);	/* NULL is allowed */

#endif /* EKR_MCAP_H */
