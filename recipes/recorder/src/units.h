/* SPDX-License-Identifier: Apache-2.0 */
/* Sizes and times as people write them: "2MiB", "16384", "5ms", "1.5s". */
#ifndef EKR_UNITS_H
#define EKR_UNITS_H

#include <stdbool.h>
#include <stdint.h>

/* NUMBER[.NUMBER] [UNIT], exact, rounded down to a byte or ns; false: no such thing, or too large. */
bool parse_bytes(const char *text, uint64_t *bytes);	/* B, KiB MiB GiB TiB or K M G T, kB MB GB TB */
bool parse_duration(const char *text, uint64_t *ns);	/* ns us ms s min h d; a unit is needed, but for 0 */

#endif
