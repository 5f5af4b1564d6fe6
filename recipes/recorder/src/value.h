/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers, sizes and times as people write them, with limits: in the configuration and as options. */
#ifndef EKR_VALUE_H
#define EKR_VALUE_H

#include <stdint.h>

#define VALUE_WHY 96u /* bytes of a phrase that says what is wrong, with the zero */

enum value_kind { VALUE_NUMBER, VALUE_BYTES, VALUE_DURATION };

/* Sets *@to and returns NULL; or returns @why, with a phrase that says what is wrong. @most INT64_MAX: no upper limit. */
const char *value_parse(const char *text, enum value_kind kind, uint64_t least, uint64_t most,
			uint64_t *to, char why[VALUE_WHY]);
/* As people write it: 64KiB, 5ms. */
const char *value_print(char text[32], enum value_kind kind, uint64_t n);

#endif
