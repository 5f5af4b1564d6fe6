// SPDX-License-Identifier: Apache-2.0
/* `ek-recorder run` alone, to be built with ThreadSanitizer. */
#include "cli.h"

int main(int argc, char **argv)
{
	return cmd_run(argc - 1, argv + 1);
}
