/* SPDX-License-Identifier: Apache-2.0 */
/* CRC-32C (Castagnoli), with the fastest instructions of the processor. */
#ifndef EKR_CRC_H
#define EKR_CRC_H

#include <stddef.h>
#include <stdint.h>

/* Continues @crc, which begins with 0, with @data. Any thread; cannot fail. */
uint32_t crc32c(uint32_t crc, const void *data, size_t length);

#endif
