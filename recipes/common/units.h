/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers, sizes and times as people write them: "2MiB", "16384", "5ms", "1.5s".
 * Decimals only with a unit; exact, rounded down to a byte or ns. What is no such
 * thing, or more than INT64_MAX, is false, and nothing is written.
 */
#ifndef EK_UNITS_H
#define EK_UNITS_H

#include <stdbool.h>
#include <stdint.h>

bool parse_number(const char *text, uint64_t *n);	/* whole, no unit */
bool parse_bytes(const char *text, uint64_t *bytes);	/* B, KiB MiB GiB TiB or K k M G T, kB (or KB) MB GB TB, or none */
bool parse_duration(const char *text, uint64_t *ns);	/* ns us ms s min h d; a unit is needed, but for 0 */
bool parse_seconds(const char *text, uint64_t *ns);	/* the same, but without a unit it is seconds */

#endif
