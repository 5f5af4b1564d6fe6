// SPDX-License-Identifier: Apache-2.0
/* Locking all memory of the process. */
#include "memory.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "log.h"

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

bool memory_unlock(void)
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

	if (map == MAP_FAILED && errno == EAGAIN && memory_unlock())
		map = mmap(NULL, size, prot, flags | MAP_POPULATE, fd, 0);
	return map;
}
