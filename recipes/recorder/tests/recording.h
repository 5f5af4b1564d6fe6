/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes recordings for tests by the rules of format.h, independently of the recorder except
 * for its CRC function. Any failure ends the test.
 */
#ifndef EKR_TEST_RECORDING_H
#define EKR_TEST_RECORDING_H

#include <stdint.h>

#include "format.h"

struct recording {
	char *directory;
	unsigned int segments;
	struct ekr_segment_head head;	/* of the current use */
	unsigned char *image;		/* of its segment */
	uint64_t offset;		/* where the next batch begins */
	uint64_t fill;			/* where the next record goes */
	uint64_t batch;
	uint64_t sequence;		/* of the next record */
	uint64_t monotonic_ns;		/* of the next record; grows by 5 ms per record */
	int64_t realtime_ns;
};

#define RECORDING_START	INT64_C(1790000000000000000)	/* 2026-09-21T14:13:20Z */
#define RECORDING_STEP	5000000

/* Creates a directory with segments that were never used. */
void recording_begin(struct recording *rec, unsigned int segments, uint64_t size, uint32_t record_size);
/* Starts the next use, of the next segment in turn. */
void recording_use(struct recording *rec);
/* Adds a record whose payload depends on its sequence only. */
void recording_add(struct recording *rec, uint32_t length);
void recording_gap(struct recording *rec, uint32_t reason, uint32_t lost, uint64_t sequences);
/* Writes everything added so far as one batch. */
void recording_flush(struct recording *rec);
/* Computes the payload that recording_add() gives to a sequence. */
void recording_payload(uint64_t sequence, unsigned char *to, uint32_t length);
/* Change and read bytes on the medium. */
void recording_poke(const struct recording *rec, unsigned int index, uint64_t offset, const void *bytes,
		    uint64_t length);
void recording_peek(const struct recording *rec, unsigned int index, uint64_t offset, void *bytes, uint64_t length);
/* Writes rec->head with a valid CRC. */
void recording_head(struct recording *rec);
/* Removes the recording. */
void recording_end(struct recording *rec);

#endif /* EKR_TEST_RECORDING_H */
