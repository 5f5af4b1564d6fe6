// SPDX-License-Identifier: Apache-2.0
/* Threads, and locked memory. */
#include "thread.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "clock.h"

#define STACK (128u * 1024)

static atomic_bool locked, unlocked;

static void tell(const char *why)
{
	log_warning("locking memory: %s; continuing with memory that may be paged out", why);
}

void memory_lock(void)
{
	/* a page that has to be read back delays a record */
	if (mlockall(MCL_CURRENT | MCL_FUTURE))
		tell(strerror(errno));
	else
		atomic_store(&locked, true);
}

/*
 * For a caller that gets no more locked memory (EAGAIN of mmap() and what calls it): unlocks everything,
 * and logs that once. False: nothing was locked, so the caller need not try again.
 */
static bool unlock_memory(void)
{
	if (!atomic_load(&locked))
		return false;
	/* as a system call: the sanitizers replace munlockall() */
	syscall(SYS_munlockall);
	if (!atomic_exchange(&unlocked, true))
		tell("more is needed than LimitMEMLOCK= allows");
	return true;
}

void *memory_map(size_t size, int flags, int fd)
{
	const int prot = PROT_READ | PROT_WRITE;
	void *map = mmap(NULL, size, prot, flags | MAP_POPULATE, fd, 0);

	if (map == MAP_FAILED && errno == EAGAIN && unlock_memory())
		map = mmap(NULL, size, prot, flags | MAP_POPULATE, fd, 0);
	return map;
}

int thread_start(pthread_t *thread, const char *name, int priority, void *(*run)(void *), void *arg,
		 struct error *e)
{
	struct sched_param param = { .sched_priority = priority };
	pthread_attr_t attr;
	sigset_t all, before;
	int ret;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK);
	if (priority) {
		pthread_attr_setinheritsched(&attr, PTHREAD_EXPLICIT_SCHED);
		pthread_attr_setschedpolicy(&attr, SCHED_FIFO);
		pthread_attr_setschedparam(&attr, &param);
	}
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	ret = pthread_create(thread, &attr, run, arg);
	/* the stack is locked memory as well */
	if (ret == EAGAIN && unlock_memory())
		ret = pthread_create(thread, &attr, run, arg);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attr);
	if (ret)
		return set_errno(e, ret, "starting the %s thread with priority %d", name, priority);
	pthread_setname_np(*thread, name);
	return 0;
}

void thread_mutex(pthread_mutex_t *mutex)
{
	pthread_mutexattr_t attr;

	pthread_mutexattr_init(&attr);
	pthread_mutexattr_setprotocol(&attr, PTHREAD_PRIO_INHERIT);
	pthread_mutex_init(mutex, &attr);
	pthread_mutexattr_destroy(&attr);
}

/* not pthread_clockjoin_np(): ThreadSanitizer does not know it, and would report races */
bool thread_join(pthread_t thread, uint64_t until)
{
	const struct timespec pause = timespec_of(NSEC_PER_MSEC);

	while (pthread_tryjoin_np(thread, NULL)) {
		if (monotonic_ns() >= until)
			return false;
		nanosleep(&pause, NULL);
	}
	return true;
}
