/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recordings for tests, written as format.h says, with nothing of the recorder
 * but its CRC. Anything that fails ends the test.
 */
#ifndef EKR_TEST_RECORDING_H
#define EKR_TEST_RECORDING_H

#include <stdint.h>

#include "format.h"

struct recording {
	char *directory;
	unsigned int segments;
	struct ekr_segment_head head;	/* of the use that is being written */
	unsigned char *image;		/* of its segment */
	uint64_t offset;		/* where the next batch begins */
	uint64_t fill;			/* where the next record goes */
	uint64_t batch;
	uint64_t sequence;		/* of the next record */
	uint64_t monotonic_ns;		/* of the next record; 5 ms more each time */
	int64_t realtime_ns;
};

#define RECORDING_START	INT64_C(1790000000000000000)	/* 2026-09-21T14:13:20Z */
#define RECORDING_STEP	5000000

/* Segments that were never used, in a new directory. */
void recording_begin(struct recording *rec, unsigned int segments, uint64_t size, uint32_t record_size);
/* The next use, of the segment in turn. */
void recording_use(struct recording *rec);
/* A record; its payload is made from its sequence. */
void recording_add(struct recording *rec, uint32_t length);
void recording_gap(struct recording *rec, uint32_t reason, uint32_t lost, uint64_t sequences);
/* What was added is a batch; it is written out. */
void recording_flush(struct recording *rec);
/* The payload that recording_add() gave to that sequence. */
void recording_payload(uint64_t sequence, unsigned char *to, uint32_t length);
/* Changes of what is on the medium. */
void recording_poke(const struct recording *rec, unsigned int index, uint64_t offset, const void *bytes,
		    uint64_t length);
void recording_peek(const struct recording *rec, unsigned int index, uint64_t offset, void *bytes, uint64_t length);
/* The head as it is in rec->head, with its CRC. */
void recording_head(struct recording *rec);
/* Removes it. */
void recording_end(struct recording *rec);

#endif /* EKR_TEST_RECORDING_H */
