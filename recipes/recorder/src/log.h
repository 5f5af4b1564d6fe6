/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages, a line each, to standard error: with systemd's level in front where
 * the journal reads, else with the program's name. Any thread, also under a lock:
 * a journal that does not read is not waited for, its lines are lost.
 */
#ifndef EKR_LOG_H
#define EKR_LOG_H

void log_error(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void log_warning(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void log_info(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif
