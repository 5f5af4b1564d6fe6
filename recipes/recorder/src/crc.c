// SPDX-License-Identifier: Apache-2.0
/* CRC-32C by ISA-L, which selects the processor's instructions at run time. */
#include "crc.h"

#include <isa-l/crc.h>
#include <limits.h>

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
