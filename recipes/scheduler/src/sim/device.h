/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A device for ek-sim: flashsim's timing model, or a station.
 *
 * NAME[:KEY=VALUE,...]   the preset NAME of flashsim, with changed parameters
 * station:KEY=VALUE,...  servers behind a link. A command takes one of `servers` servers for
 *                        cmd_D_ns plus kb_D_ns per KiB (D: r for reads, w for others). Then it
 *                        takes the link, which all share, for link_D_ns per KiB. `depth`
 *                        commands may be in the device. max_kb is the largest command.
 */
#ifndef EK_SIM_DEVICE_H
#define EK_SIM_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SIM_NEVER UINT64_MAX

enum sim_op { SIM_READ, SIM_WRITE, SIM_FLUSH, SIM_DISCARD };

/* A request in the device. The caller sets @sector, @bytes and @op (enum sim_op). */
struct sim_cmd {
	uint64_t sector; uint32_t bytes; uint8_t op;
	uint64_t done;				/* when it completes, ns */
	struct sim_cmd *next;
	_Alignas(8) unsigned char model[256];	/* flashsim's struct ek_flash_req */
};

struct sim_device;

/* The device that @spec describes, or NULL with the reason in @why. */
struct sim_device *sim_device_new(const char *spec, char *why, size_t size);
void sim_device_free(struct sim_device *d);
uint32_t sim_device_depth(const struct sim_device *d);
uint32_t sim_device_max_bytes(const struct sim_device *d);
uint64_t sim_device_bytes(const struct sim_device *d);
/* Times are in ns. sim_device_reap(): a request that has completed by @now, or NULL. */
void sim_device_submit(struct sim_device *d, struct sim_cmd *cmd, uint64_t now);
struct sim_cmd *sim_device_reap(struct sim_device *d, uint64_t now);
/* The time of the next event in the device, or SIM_NEVER. */
uint64_t sim_device_next(struct sim_device *d);
/*
 * Write until the device's fast cache or its reserve of free blocks is used up, as the lab
 * does before a measurement. Returns the time (ns) at which the last write completed.
 */
uint64_t sim_device_fill(struct sim_device *d);

#endif
