/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages of one line to standard error. They begin with systemd's level if the journal reads them,
 * otherwise with the program's name. Any thread may call these functions, also under a lock: they do not
 * wait for a journal that does not read, and its lines are lost.
 */
#ifndef EKR_LOG_H
#define EKR_LOG_H

void log_error(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void log_warning(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void log_info(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif
