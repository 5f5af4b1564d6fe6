// SPDX-License-Identifier: Apache-2.0
/* A ring whose writer changes any byte of it at any time. */
#include <string.h>
#include <sys/mman.h>

#include "fuzz.h"
#include "intake.h"
#include "ring.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct buffer buffer;
	static unsigned char copy[RING_COPY];
	static unsigned char *memory; /* of the slots, as the writer maps it */
	static struct ring ring;
	struct intake in = { 0 };
	struct intake_writer writer = { 0 };
	struct error e;
	size_t at = 0, bytes;

	if (!buffer.memory) {
		FUZZ_CHECK(!buffer_open(&buffer, 4096, 3 * 4096, &e));
		FUZZ_CHECK(!ring_open(&ring, 100, 16, copy, &e));
	}
	bytes = EKR_RING_DATA + (size_t)ring.slots * ring.stride;
	if (!memory)
		memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, ring.memfd, 0);
	FUZZ_CHECK(memory != MAP_FAILED);
	memset(memory, 0, bytes);
	ring.tail = 0;
	ring.shut = false;
	intake_open(&in, &buffer, 100, NSEC_PER_SEC, 5);
	writer.next = 5;
	/* pieces of an offset in the head or the slots, a length and bytes; after each the recorder looks */
	while (at + 3 <= size) {
		size_t offset = ((size_t)data[at] << 8 | data[at + 1]) %
				(EKR_RING_DATA / 16 + 16u * ring.stride);
		size_t length = data[at + 2] % 64, left = size - at - 3;
		struct record r;
		int ret = 0;

		if (offset >= EKR_RING_DATA / 16)
			offset += EKR_RING_DATA - EKR_RING_DATA / 16;
		length = length < left ? length : left;
		memcpy(memory + offset, data + at + 3, length);
		at += 3 + length;
		ring_forget(&ring);
		for (unsigned int i = 0; i < ring.slots && (ret = ring_peek(&ring, &r)) > 0; i++) {
			FUZZ_CHECK(r.length <= 100);
			if (intake_take(&in, &writer, &r, true) == -71)
				break;
			ring_advance(&ring);
		}
		if (ret < 0)
			break;
	}
	for (struct chunk *c; (c = buffer_take(&buffer, true));) {
		const struct record_use use = { .generation = 1, .record_size = 100 };
		uint64_t sequence = 0;

		/* whatever the writer did, records are in order and complete */
		batch_seal(c->data, c->used, &use, 0);
		for (size_t i = 0; i < c->used;) {
			const struct ekr_record_head *head =
				record_at(c->data + i, c->used - i, &use);

			FUZZ_CHECK(head && head->sequence >= sequence);
			FUZZ_CHECK(head->acquired_ns <= head->monotonic_ns);
			sequence = head->sequence + 1;
			i += record_bytes(head->length);
		}
		buffer_release(&buffer, c);
	}
	return 0;
}
