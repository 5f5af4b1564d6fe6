// SPDX-License-Identifier: Apache-2.0
/*
 * A library for LD_PRELOAD, for test_reader.py: a flush of a file takes SLOW_MS longer, as on a busy flash device.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

static int flush(const char *name, int file)
{
	int (*real)(int) = (int (*)(int))dlsym(RTLD_NEXT, name);

	usleep((useconds_t)atoi(getenv("SLOW_MS")) * 1000);
	return real(file);
}

int fsync(int file)
{
	return flush("fsync", file);
}

int fdatasync(int file)
{
	return flush("fdatasync", file);
}
