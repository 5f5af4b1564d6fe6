/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Write an MCAP file (mcap.dev/spec, version 0): header, schemas, channels, chunks
 * with CRC and message index, summary with schemas, channels, statistics, chunk
 * indexes and offsets. It is written from front to back, so that it may
 * go into a pipe.
 *
 * Memory: one chunk, and 1.1 KiB for each chunk that was written.
 *
 * One thread at a time. Functions return 0 or a negative errno; after one that
 * failed only mcap_free() is of use.
 */
#ifndef EKR_MCAP_H
#define EKR_MCAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define MCAP_CHANNELS	128	/* and schemas */
/* A chunk is closed when it holds so many bytes. */
#define MCAP_CHUNK	(1u << 20)

struct mcap_bytes {
	unsigned char *data;
	size_t length, room;
	bool failed;		/* no memory: what was added since is not there */
};

struct mcap_pair {
	const char *key, *value;
};

struct mcap;

/* @zstd: compress chunks. @library: who writes. */
int mcap_begin(struct mcap **mcap, FILE *to, const char *library, bool zstd);

/* A schema, before the channels that have it; *@id is from 1. */
int mcap_schema(struct mcap *mcap, const char *name, const char *encoding, const void *data, size_t length,
		uint16_t *id);

/*
 * A channel, before the messages; @schema: an id, 0: none; *@id is from 0. @encoding: of its messages,
 * may be "". @pairs: what is to be known of it, ends with { NULL, NULL }.
 */
int mcap_channel(struct mcap *mcap, uint16_t schema, const char *topic, const char *encoding, const struct mcap_pair *pairs,
		 uint16_t *id);

/* @time, @published: ns since 1970: log_time and publish_time. */
int mcap_message(struct mcap *mcap, uint16_t channel, uint32_t sequence, uint64_t time, uint64_t published,
		 const void *data, size_t length);

/* The last chunk and the summary. The stream is not flushed. */
int mcap_end(struct mcap *mcap);
void mcap_free(struct mcap *mcap);	/* NULL is fine */

#endif /* EKR_MCAP_H */
