/* SPDX-License-Identifier: Apache-2.0 */
/* What the loads share: messages, clock, files and memory, signals. */
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
/* O_DIRECT wants offset, length and memory aligned; no flash asks for more */
#define DIRECT_ALIGN	UINT64_C(4096)

/* "PROGRAM: message" to standard error; die() also exits with status 1 */
_Noreturn void die(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void warn(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

uint64_t now_ns(void);	/* CLOCK_MONOTONIC */

/* Bytes in the open file or block device; ends the program for other types. */
uint64_t target_size(int fd, const char *path);

/* Page-aligned zeroed memory, really there; ends the program if it is not. */
void *alloc_buffer(uint64_t bytes);

/*
 * A pseudo-random sequence, the same everywhere for a seed (xorshift64*,
 * Vigna 2016); noise_next() advances it.
 */
uint64_t noise_seed(uint64_t seed);
uint64_t noise_next(uint64_t *state);
/* Bytes that no flash compresses. */
void fill_noise(void *memory, uint64_t bytes, uint64_t seed);

/* Drops the page cache of the open file: what is not dirty will be read anew. */
void drop_cache(int fd, const char *path);
/* The same with what is dirty. Once: each sync flushes the device, even if nothing is dirty. */
void clean_cache(int fd, const char *path);

/*
 * A new empty file of our own, open for reading and writing. One that exists
 * is refused, but with `replace` a regular file is removed first.
 */
int create_file(const char *path, bool replace);

/* Writes all of it, in one write() unless that falls short; ends the program if it cannot. */
void write_all(int fd, const void *from, uint64_t bytes, const char *path);

/* Sleeps up to that time of now_ns(); returns early if a signal stops the program. */
void sleep_until(uint64_t ns);

/*
 * SIGTERM and SIGINT set `stopping`; with a mask to wait with, they are held
 * back except while it is in force.
 */
extern volatile sig_atomic_t stopping;
void catch_signals(sigset_t *wait);

#endif
