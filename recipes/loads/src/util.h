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
/* alignment of offset, length and memory that O_DIRECT may need, bytes; enough for all flash */
#define DIRECT_ALIGN	UINT64_C(4096)

/* Print "PROGRAM: message" to standard error; die() then exits with status 1. */
_Noreturn void die(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void warn(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

uint64_t now_ns(void);	/* CLOCK_MONOTONIC */

/* Size of an open file or block device in bytes. If fd is anything else, the program ends. */
uint64_t target_size(int fd, const char *path);

/* Allocates page-aligned, zeroed, populated memory. If this fails, the program ends. */
void *alloc_buffer(uint64_t bytes);

/*
 * A pseudo-random sequence (xorshift64*, Vigna 2016), which is the same on all machines.
 * noise_seed() turns a seed into an initial state. noise_next() returns the next number.
 */
uint64_t noise_seed(uint64_t seed);
uint64_t noise_next(uint64_t *state);
/* Fills memory with bytes that cannot be compressed. */
void fill_noise(void *memory, uint64_t bytes, uint64_t seed);

/* Drops the clean pages of an open file from the page cache. */
void drop_cache(int fd, const char *path);
/*
 * Syncs the file, then drops its pages. Do not call it repeatedly: each call sends a flush to
 * the device, even if there are no dirty pages.
 */
void clean_cache(int fd, const char *path);

/*
 * Creates an empty file and opens it for reading and writing. Ends the program if
 * the file exists; with `replace`, a regular file is removed first.
 */
int create_file(const char *path, bool replace);

/* Writes all bytes, with one write() unless the write is short. If it fails, the program ends. */
void write_all(int fd, const void *from, uint64_t bytes, const char *path);

/* Sleeps until now_ns() has reached ns. Returns early if `stopping` becomes true. */
void sleep_until(uint64_t ns);

/*
 * catch_signals() makes SIGTERM and SIGINT set `stopping`. If wait is not NULL, it also
 * blocks both signals, and sets *wait to a signal mask that allows them. Pass this mask to
 * the functions that wait, so that a signal arrives only during a wait.
 */
extern volatile sig_atomic_t stopping;
void catch_signals(sigset_t *wait);

#endif
