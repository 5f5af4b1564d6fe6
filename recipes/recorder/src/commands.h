/* SPDX-License-Identifier: Apache-2.0 */
/* The subcommands of ek-recorder: each is cmd_NAME() in cmd_NAME.c. */
#ifndef EKR_COMMANDS_H
#define EKR_COMMANDS_H

/* argv[0] is the subcommand. Returns the exit status: 0 done, 1 failed, 2 wrong usage. */
int cmd_run(int argc, char **argv);
int cmd_write(int argc, char **argv);
int cmd_status(int argc, char **argv);
int cmd_init(int argc, char **argv);
int cmd_keep(int argc, char **argv);
int cmd_trim(int argc, char **argv);
int cmd_ls(int argc, char **argv);
int cmd_cat(int argc, char **argv);
int cmd_follow(int argc, char **argv);
int cmd_verify(int argc, char **argv);
int cmd_export(int argc, char **argv);
int cmd_bench(int argc, char **argv);

#endif
