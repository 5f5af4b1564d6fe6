/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses numbers, sizes and times as people write them: "2MiB", "16384", "5ms", "1.5s".
 * A number may have decimals if its unit is larger than a byte or a nanosecond. The
 * result is rounded down to a whole byte or nanosecond. For any other text, and for
 * values above INT64_MAX, the functions return false and do not set the result.
 */
#ifndef EK_UNITS_H
#define EK_UNITS_H

#include <stdbool.h>
#include <stdint.h>

bool parse_number(const char *text, uint64_t *n);	/* a whole number without a unit */
bool parse_bytes(const char *text, uint64_t *bytes);	/* unit: none, B; KiB MiB GiB TiB or K k M G T; kB (or KB) MB GB TB */
bool parse_duration(const char *text, uint64_t *ns);	/* unit: ns us ms s min h d; required, except for 0 */
bool parse_seconds(const char *text, uint64_t *ns);	/* the same units; a number without a unit is in seconds */

#endif
