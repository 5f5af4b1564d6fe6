/* SPDX-License-Identifier: Apache-2.0 */
/* CRC-32C (Castagnoli), by the fastest way that the processor has. */
#ifndef EKR_CRC_H
#define EKR_CRC_H

#include <stddef.h>
#include <stdint.h>

/* Of @data after what gave @crc; begin with 0. Any thread, no errors. */
uint32_t crc32c(uint32_t crc, const void *data, size_t length);

#endif
