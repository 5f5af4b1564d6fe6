// SPDX-License-Identifier: Apache-2.0
/* Both kinds of configuration files. What is accepted keeps the promises of config.h. */
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config.h"
#include "fuzz.h"

static void put(const char *path, const uint8_t *data, size_t size)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	FUZZ_CHECK(fd >= 0 && write(fd, data, size) == (ssize_t)size);
	close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static char directory[] = "/tmp/fuzz-XXXXXX", path[64];
	struct recorder_config recorder;
	struct channel_config c;
	struct error e;

	if (!*path) {
		FUZZ_CHECK(mkdtemp(directory));
		snprintf(path, sizeof(path), "%s/arm.conf", directory);
	}
	put(path, data, size);
	if (!config_channel(path, &c, &e)) {
		FUZZ_CHECK(c.record_size && c.record_size <= EKR_RECORD_MAX);
		FUZZ_CHECK(c.writeout <= EKR_BATCH_MAX && c.writeout % EKR_BLOCK == 0);
		FUZZ_CHECK(c.segment >= EKR_BLOCK + c.writeout && c.segment % EKR_BLOCK == 0);
		FUZZ_CHECK(c.segments >= 2 && c.segments <= SEGMENTS_MAX);
		FUZZ_CHECK(c.buffer >= 3 * c.writeout);
	} else {
		FUZZ_CHECK(e.code && *e.text);
	}
	if (config_recorder(path, &recorder, &e))
		FUZZ_CHECK(e.code && *e.text);
	else
		FUZZ_CHECK(*recorder.directory && *recorder.socket);
	unlink(path);
	return 0;
}
