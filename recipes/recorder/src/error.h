/* SPDX-License-Identifier: Apache-2.0 */
/* An error as one sentence that says what was being done. */
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

#endif
