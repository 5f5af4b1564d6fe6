// SPDX-License-Identifier: Apache-2.0
/*
 * Compares pairs of texts for test_increase.py, with the address sanitizer. Each text and each array is a block of
 * memory of its own, so that the sanitizer notices each access beyond its end.
 *
 * Standard input: for each pair the lengths of both texts (uint32_t), then the texts. Standard output: a line for each
 * pair with the values that ek_history_grow() writes, or -1.
 */
#include "history.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { FEW = 3, BOTH = EK_HISTORY_FLOWS | EK_HISTORY_WAITS };

static char *take_text(uint32_t length)
{
	char *text = malloc(length ? length : 1);

	if (!text || fread(text, 1, length, stdin) != length)
		exit(1);
	return text;
}

int main(void)
{
	uint32_t lengths[2];

	while (fread(lengths, sizeof(lengths), 1, stdin)) {
		char *old = take_text(lengths[0]), *text = take_text(lengths[1]);
		uint64_t *few = calloc(FEW, sizeof(*few)), *values;
		int64_t count = ek_history_grow(old, lengths[0], text, lengths[1], BOTH, few, FEW);

		if (count < 0) {
			puts("-1");
		} else {
			values = calloc(count ? (size_t)count : 1, sizeof(*values));
			if (!values)
				return 1;
			if (ek_history_grow(old, lengths[0], text, lengths[1], BOTH, values,
					    (size_t)count) != count)
				return 1;
			for (int64_t i = 0; i < count; i++) {
				if (i < FEW && values[i] != few[i])
					return 1;
				printf("%" PRIu64 " ", values[i]);
			}
			puts("");
			free(values);
		}
		free(few);
		free(old);
		free(text);
	}
	return 0;
}
