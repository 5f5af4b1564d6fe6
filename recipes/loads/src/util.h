/* SPDX-License-Identifier: Apache-2.0 */
/* Code that all loads share: messages, clock, files and memory, signals. */
#ifndef EK_UTIL_H
#define EK_UTIL_H

#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define NSEC_PER_SEC	UINT64_C(1000000000)
#define NSEC_PER_MSEC	UINT64_C(1000000)
/* alignment of offset, length and memory for O_DIRECT; enough for all flash */
#define DIRECT_ALIGN	UINT64_C(4096)

/* Print "PROGRAM: message" to standard error; die() then exits with status 1. */
_Noreturn void die(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void warn(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

uint64_t now_ns(void);	/* CLOCK_MONOTONIC */

/* Size of the open file or block device in bytes; ends the program for other types. */
uint64_t target_size(int fd, const char *path);

/* Page-aligned zeroed memory, with its pages populated; ends the program on failure. */
void *alloc_buffer(uint64_t bytes);

/*
 * A pseudo-random sequence (xorshift64*, Vigna 2016). A seed gives the same sequence
 * on all machines. noise_next() returns the next number.
 */
uint64_t noise_seed(uint64_t seed);
uint64_t noise_next(uint64_t *state);
/* Fills memory with bytes that cannot be compressed. */
void fill_noise(void *memory, uint64_t bytes, uint64_t seed);

/* Drops the clean pages of the open file from the page cache. */
void drop_cache(int fd, const char *path);
/* Syncs first, then drops. Call it once: each sync flushes the device, even without dirty pages. */
void clean_cache(int fd, const char *path);

/*
 * Creates an empty file and opens it for reading and writing. Ends the program if
 * the file exists; with `replace`, a regular file is removed first.
 */
int create_file(const char *path, bool replace);

/* Writes all bytes, with one write() unless that is short; ends the program on failure. */
void write_all(int fd, const void *from, uint64_t bytes, const char *path);

/* Sleeps until now_ns() is ns; returns early if a signal stops the program. */
void sleep_until(uint64_t ns);

/*
 * SIGTERM and SIGINT set `stopping`. If wait is not NULL, both signals are blocked
 * from now on, and *wait is a mask that allows them, for use while waiting.
 */
extern volatile sig_atomic_t stopping;
void catch_signals(sigset_t *wait);

#endif
