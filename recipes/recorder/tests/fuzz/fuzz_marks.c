// SPDX-License-Identifier: Apache-2.0
/* The small files of a channel: the clean-shutdown marker, and the one that says what the channel is. */
#include <string.h>

#include "about.h"
#include "fuzz.h"
#include "marker.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1);
	struct marker m = { 0 };
	struct about about;

	FUZZ_CHECK(text);
	memcpy(text, data, size);
	text[size] = '\0';
	marker_parse(text, &m);
	about_parse(&about, text);
	FUZZ_CHECK(memchr(about.encoding, 0, sizeof(about.encoding)));
	FUZZ_CHECK(!strpbrk(about.schema_name, "\n\r\x1b"));
	free(text);
	return 0;
}
