/* SPDX-License-Identifier: Apache-2.0 */
/* Events of a reader as text. */
#ifndef EKR_READER_TEXT_H
#define EKR_READER_TEXT_H

#include <stddef.h>
#include <stdio.h>

#include "reader.h"

/* Prints an event that is no record, as a line and as a JSON object. */
void reader_tell(FILE *to, const char *channel, const struct reader_event *e);
void reader_tell_json(FILE *to, const struct reader_event *e);
/* The same as a sentence without a line feed, truncated to @room bytes with the zero. */
void reader_sentence(char *to, size_t room, const char *channel, const struct reader_event *e);

#endif
