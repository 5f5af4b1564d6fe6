/* SPDX-License-Identifier: Apache-2.0 */
/* What both demo programs need: options, clock, target, statistics file. */
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

/* "PROGRAM: message" to standard error, then exit with status 2 (usage) or 1 */
_Noreturn void die_usage(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
_Noreturn void die(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void warn(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/*
 * Bytes: a whole number with an optional unit, K M G (powers of 1024) or
 * kB MB GB (powers of 1000). False if it is anything else or too large.
 */
bool parse_bytes(const char *text, uint64_t *bytes);
/* Seconds, 0 to 10^6, decimals allowed, as nanoseconds. */
bool parse_seconds(const char *text, uint64_t *ns);

/* The same for the option of that name; a bad value ends the program. */
uint64_t opt_bytes(const char *option, const char *text);
uint64_t opt_seconds(const char *option, const char *text);
unsigned int opt_count(const char *option, const char *text, unsigned int max);

uint64_t now_ns(void);	/* CLOCK_MONOTONIC */

/* Bytes in the open file or block device; ends the program for other types. */
uint64_t target_size(int fd, const char *path);

/* Page-aligned zeroed memory, really there; ends the program if it is not. */
void *alloc_buffer(uint64_t bytes);

/*
 * Replaces path by text with one rename, so that a reader sees the old or the
 * new text whole. Returns 0 or -errno.
 */
int write_stats(const char *path, const char *text);

/* SIGTERM and SIGINT set `stopping` and are held back except inside *wait. */
extern volatile sig_atomic_t stopping;
void catch_signals(sigset_t *wait);

#endif
