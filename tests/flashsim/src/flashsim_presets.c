// SPDX-License-Identifier: GPL-2.0-only
/*
 * Devices by name, as what differs from the defaults of the parameters.
 *
 * What is cited is the interface and what the device reaches: figures.toml has
 * each figure with its source. Vendors do not publish what is inside of an eMMC
 * or a UFS device, so dies, times and command work marked "fitted" are typical
 * for the kind of flash and set such that the cited figures are met.
 */
#include "flashsim_timing.h"

const struct ek_fs_preset ek_fs_presets[] = {
	{
		.name = "emmc51",
		.about = "eMMC 5.1 with command queue (Samsung, 64 GB, 2015)",
		.pairs = {
			"kind=flash,capacity_mb=59640",
			/*
			 * JESD84-B51: command queue of 32, HS400 is 400 MB/s on the wire; 255 is
			 * effective, fitted to 250 measured
			 */
			"depth=32,active=32,max_kb=512,link_read_mbps=255,link_write_mbps=255",
			/*
			 * 64 Gb MLC dies on two Toggle DDR2 channels (400 MB/s); the count follows
			 * from 64 GB
			 */
			"channels=2,dies=4,planes=2,page_kb=16,channel_mbps=400,chunk_kb=32",
			"block_pages=256",
			/* MLC: typically 60 us, 1-2 ms, 3-10 ms; program fitted to 125 MB/s */
			"t_r_us=60,t_prog_us=2000,t_erase_us=5000",
			/* fitted to 11,000 and 13,000 IOPS at depth 32 */
			"cmd_us=90,cmd_write_us=76,map_miss_us=40,map_cache=64,map_region_mb=4",
			/* CACHE_SIZE of EXT_CSD is from 64 KB to some MB */
			"buffer_kb=1024,flush_us=200",
			/*
			 * JESD84-B51 has no read suspend for a running program of the cache.
			 * Reserve and valid pages are assumed, for a device in use and not full;
			 * figures.toml has one that was overwritten at random
			 */
			"suspend_us=0,gc_after_kb=2097152,gc_valid_pct=25",
		},
	}, {
		.name = "emmc50-slow",
		.about = "small eMMC 5.0 without command queue (class of 140/50 MB/s)",
		.pairs = {
			"kind=flash,capacity_mb=7456",
			/*
			 * Linux gives a card without CQE 64 tags and executes one command at a time
			 */
			"depth=64,active=1,max_kb=512,link_read_mbps=155,link_write_mbps=155",
			"channels=1,dies=2,planes=2,page_kb=16,channel_mbps=200,chunk_kb=32",
			"block_pages=256",
			"t_r_us=60,t_prog_us=1150,t_erase_us=6000",
			/* fitted to 3,500 and 1,500 IOPS */
			"cmd_us=115,cmd_write_us=560,map_miss_us=60,map_cache=16,map_region_mb=4",
			/*
			 * Reserve and valid pages are assumed, for a part in use and not full;
			 * figures.toml has one that was overwritten
			 */
			"buffer_kb=1024,flush_us=500,gc_after_kb=524288,gc_valid_pct=40",
		},
	}, {
		.name = "sd-uhs3",
		.about = "microSD UHS-I U3 A1 (SanDisk Extreme)",
		.pairs = {
			"kind=flash,capacity_mb=30436",
			/*
			 * SDR104: 104 MB/s on the wire; one command at a time without the CQ of A2
			 */
			"depth=64,active=1,max_kb=512,link_read_mbps=101,link_write_mbps=101",
			"channels=1,dies=2,planes=2,page_kb=16,channel_mbps=200,chunk_kb=32",
			"block_pages=384",
			/* TLC */
			"t_r_us=80,t_prog_us=930,t_erase_us=8000",
			/* fitted to 2,400 and 1,150 IOPS at depth 1 */
			"cmd_us=165,cmd_write_us=715,map_miss_us=100,map_cache=8,map_region_mb=4",
			/*
			 * The reserve is assumed. Few valid pages, as AnandTech's card sustains
			 * its 60 MB/s after long use, a little less evenly
			 */
			"buffer_kb=1024,flush_us=1000,gc_after_kb=262144,gc_valid_pct=5",
		},
	}, {
		.name = "ufs31",
		.about = "UFS 3.1 (Samsung eUFS, 512 GB, 2020)",
		.pairs = {
			"kind=flash,capacity_mb=488280",
			/*
			 * JESD220E: 32 tags, both directions; 2 lanes HS-G4 carry 2.3 GB/s after
			 * 8b10b, less headers
			 */
			"depth=32,active=32,max_kb=512,link_read_mbps=2150,link_write_mbps=2150",
			"link_duplex=1",
			/* eight 512 Gb dies (Samsung, eUFS 3.0) */
			"channels=4,dies=2,planes=2,page_kb=16,channel_mbps=800,chunk_kb=32",
			"block_pages=1152",
			/*
			 * V-NAND; the fast cache (WriteBooster) fitted to 1200 MB/s, what follows
			 * to the 410 of eUFS 3.0
			 */
			"t_r_us=45,t_prog_us=600,t_prog_slc_us=175,t_erase_us=4000,suspend_us=20",
			"slc_kb=4194304,slc_refill_kbps=200000",
			/* fitted to 100,000 and 70,000 IOPS at depth 32 */
			"cmd_us=10,cmd_write_us=14,map_miss_us=25,map_cache=1024,map_region_mb=16",
			"buffer_kb=4096,flush_us=100,gc_after_kb=8388608,gc_valid_pct=20",
		},
	}, {
		.name = "sata-mlc-8ch",
		.about = "SATA SSD, MLC, 8 channels (Crucial MX100, 256 GB, 2014)",
		.pairs = {
			"kind=flash,capacity_mb=244198",
			/*
			 * NCQ: 32; SATA 6 Gb/s is 600 MB/s on the wire, 550 of it data
			 * (specified)
			 */
			"depth=32,active=32,max_kb=512,link_read_mbps=550,link_write_mbps=550",
			/*
			 * Marvell 88SS9189 with eight channels, 16 dies of 128 Gb (Hexus). Data
			 * sheet MT29F128G08CBECB (micron-cbecb in figures.toml): two planes,
			 * pages of 16384 + 1872 bytes, 512 a block, 166 MT/s, of which 149 are
			 * data. How addresses are laid out is not published; chunks are of one
			 * page
			 */
			"channels=8,dies=2,planes=2,page_kb=16,channel_mbps=149,chunk_kb=16",
			"block_pages=512",
			/*
			 * Data sheet: read 115 us at most, program 1600 us, erase 3 ms typically.
			 * Read is fitted to depth 1. A program hides the transfer of the next
			 * page's 32 KiB (cache program), which the model adds: 1600 less 220
			 */
			"t_r_us=70,t_prog_us=1380,t_erase_us=3000",
			/*
			 * Fitted to 85,000 and 70,000 IOPS at depth 32; README.md says why it is
			 * the command path that bounds reads. Dies alone allow 80,000 writes: the
			 * rest stands for the mapping's own writes. 512 MB of DRAM hold the
			 * mapping
			 */
			"cmd_us=12,cmd_write_us=14,map_cache=0",
			/*
			 * Of the DRAM, "a few MB" are for data (Tom's Hardware on the M550, the
			 * same controller); a flush is assumed. The data sheet's features name no
			 * suspend
			 */
			"buffer_kb=4096,flush_us=500,suspend_us=0",
			/* 16 dies less the capacity; valid pages fitted to 104 MB/s when worn */
			"gc_after_kb=18376704,gc_valid_pct=70",
		},
	}, {
		.name = "hdd-5400",
		.about = "disk, 5400 rpm, SATA, NCQ",
		.pairs = {
			"kind=disk,capacity_mb=476940,depth=32,active=1,max_kb=512",
			"link_read_mbps=300,link_write_mbps=300",
			/*
			 * Hitachi Travelstar 5K320, specification 4.4.2: single track 1 ms, full
			 * stroke 20 ms
			 */
			"rpm=5400,seek_min_us=1000,seek_max_us=20000,track_mbps=100,cmd_us=100",
			"cmd_write_us=100",
			"flush_us=1000",
		},
	}, {
		.name = "pipe",
		.about = "a link and nothing behind it, strictly in order",
		.pairs = {
			/*
			 * the board of the first paper (S0): 220 MB/s read and 65 MB/s written,
			 * requests of 512 KB
			 */
			"kind=link,capacity_mb=65536,depth=64,active=1,max_kb=512",
			"link_read_mbps=220,link_write_mbps=65,cmd_us=0,cmd_write_us=0,flush_us=0",
		},
	},
};

const u32 ek_fs_nr_presets = ARRAY_SIZE(ek_fs_presets);
