/* SPDX-License-Identifier: Apache-2.0 */
/* Errors as sentences that say what was being done, and messages to the journal or a terminal. */
#ifndef EKR_ERROR_H
#define EKR_ERROR_H

struct error {
	int code;	/* errno, 0: none */
	char text[256];
};

/* Sets the error and returns -@code. */
int set_error(struct error *e, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* The same; the sentence ends with ": " and the text of @code. */
int set_errno(struct error *e, int code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/*
 * Messages of one line to standard error. They begin with systemd's level if the journal reads them,
 * otherwise with the program's name. Any thread may call these functions, also under a lock: they do not
 * wait for a journal that does not read, and its lines are lost.
 */
void log_error(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void log_warning(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void log_info(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif
