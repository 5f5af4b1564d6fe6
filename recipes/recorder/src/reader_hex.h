/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes as hexadecimal digits. */
#ifndef EKR_READER_HEX_H
#define EKR_READER_HEX_H

#include <stddef.h>
#include <stdio.h>

/* Prints lower case; errors stay in the stream. */
static inline void reader_hex(FILE *to, const void *bytes, size_t length)
{
	static const char digits[] = "0123456789abcdef";
	const unsigned char *from = bytes;

	for (size_t i = 0; i < length; i++) {
		putc_unlocked(digits[from[i] >> 4], to);
		putc_unlocked(digits[from[i] & 15], to);
	}
}

#endif /* EKR_READER_HEX_H */
