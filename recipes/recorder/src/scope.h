/* SPDX-License-Identifier: Apache-2.0 */
/* What ends with its block, on each way out of it. errno stays as it is. */
#ifndef EKR_SCOPE_H
#define EKR_SCOPE_H

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

/* Before a variable: the block ends with free(), close() (unless it is -1) or closedir() (unless it is NULL). */
#define FREED	__attribute__((cleanup(scope_free)))
#define CLOSED	__attribute__((cleanup(scope_close)))
#define CLOSED_LIST	__attribute__((cleanup(scope_close_list)))

/* Holds a mutex from here to the end of the block. */
#define HOLD(mutex)                                                          \
	pthread_mutex_t *held __attribute__((unused, cleanup(scope_unlock))) = scope_lock(mutex)

static inline void scope_free(void *variable)
{
	free(*(void **)variable);
}

static inline void scope_close(const int *fd)
{
	const int error = errno;

	if (*fd >= 0)
		close(*fd);
	errno = error;
}

static inline void scope_close_list(DIR **list)
{
	const int error = errno;

	if (*list)
		closedir(*list);
	errno = error;
}

static inline pthread_mutex_t *scope_lock(pthread_mutex_t *mutex)
{
	pthread_mutex_lock(mutex);
	return mutex;
}

static inline void scope_unlock(pthread_mutex_t **mutex)
{
	pthread_mutex_unlock(*mutex);
}

#endif
