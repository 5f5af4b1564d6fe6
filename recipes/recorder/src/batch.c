// SPDX-License-Identifier: Apache-2.0
/* Records as they are on the medium. */
#include "batch.h"

#include <isa-l/crc.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the medium is little-endian");
_Static_assert(sizeof(struct ekr_record_head) == 64, "no holes");

/* bytes that ISA-L accepts in one call: its length is an int */
#define STEP ((size_t)1 << 30)

uint32_t crc32c(uint32_t crc, const void *data, size_t length)
{
	const unsigned char *from = data;

	/* the caller of ISA-L inverts the CRC before and after */
	crc = ~crc;
	while (length) {
		size_t n = length < STEP ? length : STEP;

		crc = crc32_iscsi((unsigned char *)(uintptr_t)from, (int)n, crc);
		from += n;
		length -= n;
	}
	return ~crc;
}

/* the CRC of a record, computed with zeros in the crc field */
static uint32_t record_crc(uint32_t seed, const struct ekr_record_head *head, const void *payload)
{
	struct ekr_record_head zeroed = *head;

	zeroed.crc = 0;
	return crc32c(crc32c(seed, &zeroed, sizeof(zeroed)), payload, head->length);
}

size_t batch_append(void *to, const struct record *r)
{
	const struct ekr_record_head head = {
		.magic = EKR_RECORD_MAGIC,
		.length = r->length,
		.flags = r->flags,
		.sequence = r->sequence,
		.monotonic_ns = r->monotonic_ns,
		.realtime_ns = r->realtime_ns,
		.acquired_ns = r->acquired_ns ? r->acquired_ns : r->monotonic_ns,
	};
	unsigned char *at = to;
	size_t bytes = record_bytes(r->length);

	memcpy(at, &head, sizeof(head));
	if (r->length)
		memcpy(at + sizeof(head), r->payload, r->length);
	memset(at + sizeof(head) + r->length, 0, bytes - sizeof(head) - r->length);
	return bytes;
}

size_t batch_seal(void *batch, size_t used, const struct record_use *use, uint64_t number)
{
	unsigned char *at = batch, *end = at + used;

	while (at < end) {
		struct ekr_record_head *head = (struct ekr_record_head *)at;

		head->generation = use->generation;
		head->batch = number;
		head->crc = record_crc(use->seed, head, at + sizeof(*head));
		at += record_bytes(head->length);
	}
	memset(end, 0, whole_blocks(used) - used);
	return whole_blocks(used);
}

const struct ekr_record_head *record_at(const void *at, size_t left, const struct record_use *use)
{
	const struct ekr_record_head *head = at;

	if (left < sizeof(*head) || head->magic != EKR_RECORD_MAGIC ||
	    head->generation != use->generation ||
	    (head->length > use->record_size && head->length != sizeof(struct ekr_gap)) ||
	    record_bytes(head->length) > left ||
	    head->crc != record_crc(use->seed, head, (const unsigned char *)at + sizeof(*head)))
		return NULL;
	return head;
}

const struct ekr_gap *record_gap(const struct ekr_record_head *head)
{
	return head->flags & EKR_RECORD_GAP && head->length == sizeof(struct ekr_gap) ?
		       (const struct ekr_gap *)(head + 1) :
		       NULL;
}

uint64_t record_first(const struct ekr_record_head *head)
{
	const struct ekr_gap *gap = record_gap(head);

	if (!gap || !gap->count_lost)
		return head->sequence;
	return gap->count_lost > head->sequence ? 0 : head->sequence - gap->count_lost + 1;
}
