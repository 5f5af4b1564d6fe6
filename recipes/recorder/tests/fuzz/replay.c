// SPDX-License-Identifier: Apache-2.0
/*
 * Runs a fuzz target with the inputs of a corpus: replay FILE. Each line is an input in
 * hexadecimal; a line that begins with '#' is a comment. Each input is also cut short at each
 * length and has each of its bytes changed once, so that a small corpus covers the branches.
 */
#include <string.h>

#include "fuzz.h"

#define MOST (1u << 20)

static size_t parse(const char *line, uint8_t *to)
{
	size_t n = 0;
	unsigned int byte;

	while (n < MOST && sscanf(line + 2 * n, "%2x", &byte) == 1)
		to[n++] = (uint8_t)byte;
	return n;
}

/* exactly as long as the input: AddressSanitizer sees what reads beyond it */
static void run(const uint8_t *input, size_t length)
{
	uint8_t *copy = malloc(length + !length);

	FUZZ_CHECK(copy);
	memcpy(copy, input, length);
	LLVMFuzzerTestOneInput(copy, length);
	free(copy);
}

static void vary(uint8_t *input, size_t length)
{
	static const uint8_t flips[] = { 0x01, 0x80, 0xff };
	const size_t step = length > 100 ? length / 100 : 1;

	run(input, length);
	for (size_t i = 0; i < length; i += step) {
		run(input, i);
		for (size_t k = 0; k < sizeof(flips); k++) {
			input[i] ^= flips[k];
			run(input, length);
			input[i] ^= flips[k];
		}
	}
}

int main(int argc, char **argv)
{
	FILE *f = argc == 2 ? fopen(argv[1], "re") : NULL;
	uint8_t *input = malloc(MOST);
	char *line = NULL;
	size_t room = 0, count = 0;

	if (!f || !input) {
		fprintf(stderr, "usage: %s CORPUS\n", argv[0]);
		return 2;
	}
	run(input, 0);
	while (getline(&line, &room, f) > 0) {
		if (*line == '#' || *line == '\n')
			continue;
		vary(input, parse(line, input));
		count++;
	}
	printf("%zu inputs and their variations\n", count);
	fclose(f);
	free(line);
	free(input);
	return count ? 0 : 1;
}
