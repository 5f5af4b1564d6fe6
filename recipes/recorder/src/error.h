/* SPDX-License-Identifier: Apache-2.0 */
/* What went wrong, as one sentence that says what was being done. */
#ifndef EKR_ERROR_H
#define EKR_ERROR_H

struct error {
	int code;	/* errno, 0: none */
	char text[256];
};

/* Notes it and returns -@code, so that a function can end with it. */
int set_error(struct error *e, int code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* The same with ": " and the words of @code at the end. */
int set_errno(struct error *e, int code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

#endif
