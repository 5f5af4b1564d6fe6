/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A fuzz target is a file fuzz_NAME.c with this function. It must not crash, hang, leak or fail
 * an assertion for any input. The same file is linked
 *
 * - with replay.c: it runs the inputs in corpus/NAME.hex, in each test run, with any compiler;
 * - with libFuzzer (clang -fsanitize=fuzzer): it searches for new inputs, guided by coverage:
 *   recipes/recorder/tests/fuzz/search.
 */
#ifndef EKR_FUZZ_H
#define EKR_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Ends the program with the place: libFuzzer and replay.c then report the input. */
#define FUZZ_CHECK(condition)                                                                \
	do {                                                                                 \
		if (!(condition)) {                                                          \
			fprintf(stderr, "%s:%d: not true: %s\n", __FILE__, __LINE__, #condition); \
			abort();                                                             \
		}                                                                            \
	} while (0)

#endif
