// SPDX-License-Identifier: GPL-2.0-only
/*
 * Devices by name: the parameters that differ from their defaults.
 *
 * The interface and the performance of a device are cited: figures.toml has each
 * figure with its source. Vendors do not publish the internals of eMMC and UFS
 * devices. So parameters marked "fitted" are typical of the kind of flash, and set
 * such that the model meets the cited figures. sources.toml lists which parameters
 * are cited or fitted. All others are assumed.
 */
#include "flashsim_timing.h"

/* mmc_mq_init() sets BLK_MQ_F_BLOCKING for eMMC and SD. */
#define EK_FS_MMC	"blocking=1"
/*
 * Assumed for new flash. 3D flash at 3,000 cycles needs more than three retries per
 * read on average (Ye et al., Achieving Near-Zero Read Retry for 3D NAND Flash
 * Memory, ASPLOS 2024). wear_pct models this wear.
 */
#define EK_FS_RETRIES	"retry_in=1000,retry_most=3"
/*
 * Assumed. The times of a die vary between pages (Grupp et al., Characterizing Flash
 * Memory, MICRO 2009). An SSD is twice as slow as its peers for 0.6 % of the time
 * (Hao et al., The Tail at Store, FAST 2016): here 0.6 % of the time is in the tail.
 */
#define EK_FS_JITTER	"jitter_pct=15,jitter_tail_in=1000,jitter_tail_x=4"

const struct ek_fs_preset ek_fs_presets[] = {
	{
		.name = "emmc51",
		.about = "eMMC 5.1 with command queue (Samsung, 64 GB, 2015)",
		.pairs = {
			"kind=flash,capacity_mb=59640",
			/*
			 * JESD84-B51: command queue of 32; HS400 has 400 MB/s on the wire.
			 * 255 MB/s of data is fitted to 250 specified.
			 */
			"depth=32,active=32,max_kb=512,link_read_mbps=255,link_write_mbps=255",
			/*
			 * Assumed: MLC dies of 64 Gb on two Toggle DDR2 channels (400 MB/s).
			 * Their number follows from 64 GB.
			 */
			"channels=2,dies=4,planes=2,page_kb=16,channel_mbps=400,chunk_kb=32",
			"block_pages=256",
			/*
			 * Typical of MLC: 60 us, 1-2 ms, 3-10 ms. The program time is fitted to
			 * 125 MB/s.
			 */
			"t_r_us=60,t_prog_us=2000,t_erase_us=5000",
			/* fitted to 11,000 and 13,000 IOPS at depth 32 */
			"cmd_us=90,cmd_write_us=76,map_miss_us=40,map_cache=64,map_region_mb=4",
			/* Assumed: CACHE_SIZE in EXT_CSD is 64 KB to some MB. */
			"buffer_kb=1024,flush_us=200",
			/*
			 * JESD84-B51 has no suspend of a program of the cache for a read. Reserve
			 * and valid pages are assumed, for a device in use that is not full.
			 * figures.toml also has a device that was overwritten at random.
			 */
			"suspend_us=0,gc_after_kb=2097152,gc_valid_pct=25,spare_pct=10",
			EK_FS_MMC,
			/*
			 * Assumed: a discard costs as much as on the card of sd-uhs3. It changes
			 * the mapping of each erase group: blocks of 64 MiB are erased later.
			 * 512 KiB is EXT_CSD's unit of HC_ERASE_GRP_SIZE.
			 */
			"discard_us=1500,discard_group_kb=512,discard_group_us=100",
			"discard_exclusive=1",
			/*
			 * Linux commit 950d56acce5d: after repeated writes of 1 GB a device asks
			 * urgently for background operations, and gets slow. A command waits for
			 * the program in progress.
			 */
			"bg_after_kb=65536,bg_ms=20,bg_idle_ms=20,bg_stop_us=2000,bg_most=16",
			EK_FS_RETRIES, EK_FS_JITTER,
		},
	}, {
		.name = "emmc50-slow",
		.about = "small eMMC 5.0 without command queue (class of 140/50 MB/s)",
		.pairs = {
			"kind=flash,capacity_mb=7456",
			/* Without CQE, Linux has 64 tags and sends one command at a time. */
			"depth=64,active=1,max_kb=512,link_read_mbps=155,link_write_mbps=155",
			"channels=1,dies=2,planes=2,page_kb=16,channel_mbps=200,chunk_kb=32",
			"block_pages=256",
			"t_r_us=60,t_prog_us=1150,t_erase_us=6000",
			/* fitted to 3,500 and 1,500 IOPS */
			"cmd_us=115,cmd_write_us=560,map_miss_us=60,map_cache=16,map_region_mb=4",
			/*
			 * Reserve and valid pages are assumed, for a device in use that is not
			 * full. figures.toml also has a device that was overwritten.
			 */
			"buffer_kb=1024,flush_us=500,gc_after_kb=524288,gc_valid_pct=40,spare_pct=7",
			EK_FS_MMC,
			/*
			 * A microSD card of 64 GB is discarded in 60 s (rpi-imager issue 1445),
			 * that is 0.5 ms per 512 KiB.
			 */
			"discard_us=1500,discard_group_kb=512,discard_group_us=500",
			"discard_exclusive=1",
			/* Assumed. Without HPI a command waits until housekeeping ends. */
			"bg_after_kb=16384,bg_ms=20,bg_idle_ms=20,bg_stop_us=0,bg_most=16",
			EK_FS_RETRIES, EK_FS_JITTER,
		},
	}, {
		.name = "sd-uhs3",
		.about = "microSD UHS-I U3 A1 (SanDisk Extreme)",
		.pairs = {
			"kind=flash,capacity_mb=30436",
			/*
			 * SDR104 has 104 MB/s on the wire. Without the command queue of class A2,
			 * a card takes one command at a time.
			 */
			"depth=64,active=1,max_kb=512,link_read_mbps=101,link_write_mbps=101",
			"channels=1,dies=2,planes=2,page_kb=16,channel_mbps=200,chunk_kb=32",
			"block_pages=384",
			/* typical of TLC */
			"t_r_us=80,t_prog_us=930,t_erase_us=8000",
			/* fitted to 2,400 and 1,150 IOPS at depth 1 */
			"cmd_us=165,cmd_write_us=715,map_miss_us=100,map_cache=8,map_region_mb=4",
			/*
			 * The reserve is assumed. There are few valid pages, because the card
			 * that AnandTech measured sustains its 60 MB/s after long use.
			 */
			"buffer_kb=1024,flush_us=1000,gc_after_kb=262144,gc_valid_pct=5,spare_pct=7",
			EK_FS_MMC,
			/*
			 * A SanDisk Extreme of 32 GB takes 1.5 ms for an erase of any size (Zephyr
			 * pull request 75802).
			 */
			"discard_us=1500,discard_exclusive=1",
			/* assumed */
			"bg_after_kb=65536,bg_ms=20,bg_idle_ms=20,bg_stop_us=0,bg_most=4",
			EK_FS_RETRIES, EK_FS_JITTER,
		},
	}, {
		.name = "ufs31",
		.about = "UFS 3.1 (Samsung eUFS, 512 GB, 2020)",
		.pairs = {
			"kind=flash,capacity_mb=488280",
			/*
			 * JESD220E: 32 tags, both directions at once. Two lanes of HS-G4 carry
			 * 2.3 GB/s after 8b10b, including headers.
			 */
			"depth=32,active=32,max_kb=512,link_read_mbps=2150,link_write_mbps=2150",
			"link_duplex=1",
			/* eight 512 Gb dies (Samsung, eUFS 3.0) */
			"channels=4,dies=2,planes=2,page_kb=16,channel_mbps=800,chunk_kb=32",
			"block_pages=1152",
			/*
			 * Typical of V-NAND. The fast cache (WriteBooster) is fitted to 1200 MB/s,
			 * and writes beyond it to the 410 MB/s of eUFS 3.0.
			 */
			"t_r_us=45,t_prog_us=600,t_prog_slc_us=175,t_erase_us=4000,suspend_us=20",
			"slc_kb=4194304,slc_refill_kbps=200000",
			/* fitted to 100,000 and 70,000 IOPS at depth 32 */
			"cmd_us=10,cmd_write_us=14,map_miss_us=25,map_cache=1024,map_region_mb=16",
			"buffer_kb=4096,flush_us=100,gc_after_kb=8388608,gc_valid_pct=20,spare_pct=7",
			/* Assumed: UNMAP is queued, and changes only the mapping. */
			"discard_us=200",
			/* Assumed: it empties the fast cache, and stops after a program. */
			"bg_after_kb=262144,bg_ms=20,bg_idle_ms=5,bg_stop_us=600",
			/*
			 * UFS 3.1 reports throttling to the host. Bare M.2 drives throttle after
			 * one to three minutes of full load (TechPowerUp: Crucial P1, P5). Assumed:
			 * hot after one minute at 1200 MB/s, while a third of the heat cools off.
			 */
			"heat_mb=45776,heat_cool_mbps=400,heat_pct=50",
			EK_FS_RETRIES, EK_FS_JITTER,
		},
	}, {
		.name = "sata-mlc-8ch",
		.about = "SATA SSD, MLC, 8 channels (Crucial MX100, 256 GB, 2014)",
		.pairs = {
			"kind=flash,capacity_mb=244198",
			/*
			 * NCQ has 32 tags. SATA 6 Gb/s has 600 MB/s on the wire, and 550 MB/s of
			 * data are specified.
			 */
			"depth=32,active=32,max_kb=512,link_read_mbps=550,link_write_mbps=550",
			/*
			 * Marvell 88SS9189 with eight channels, 16 dies of 128 Gb (Hexus). Data
			 * sheet MT29F128G08CBECB (micron-cbecb in figures.toml): two planes, pages
			 * of 16384 + 1872 bytes, 512 pages per block, 166 MT/s, of which 149 MB/s
			 * are data. The layout of addresses is not published. Chunks of one page
			 * are assumed.
			 */
			"channels=8,dies=2,planes=2,page_kb=16,channel_mbps=149,chunk_kb=16",
			"block_pages=512",
			/*
			 * Data sheet: read 115 us at most, program 1600 us, erase typically 3 ms.
			 * The read time is fitted to IOPS at depth 1. A program of the device
			 * hides the transfer of the next 32 KiB (cache program). The model adds
			 * that transfer, so the program time is 1600 us less 220 us.
			 */
			"t_r_us=70,t_prog_us=1380,t_erase_us=3000",
			/*
			 * Fitted to 85,000 and 70,000 IOPS at depth 32. README.md says why the
			 * command path limits reads. The dies alone would allow 80,000 writes; the
			 * difference stands for writes of the mapping. 512 MB of DRAM hold the
			 * mapping.
			 */
			"cmd_us=12,cmd_write_us=14,map_cache=0",
			/*
			 * "A few MB" of the DRAM are for data (Tom's Hardware on the M550, which
			 * has the same controller). The time of a flush is assumed. The features
			 * in the data sheet have no suspend.
			 */
			"buffer_kb=4096,flush_us=500,suspend_us=0",
			/*
			 * The reserve is the size of 16 dies less the capacity. The valid pages
			 * are fitted to 104 MB/s when worn.
			 */
			"gc_after_kb=18376704,gc_valid_pct=70,spare_pct=7",
			/*
			 * Assumed. TRIM is queued from firmware MU02 on; with MU01 Linux sends it
			 * alone (ATA_QUIRK_NO_NCQ_TRIM): discard_exclusive=1.
			 */
			"discard_us=500",
			/* Assumed; the DRAM holds the mapping, so there is little to do. */
			"bg_after_kb=1048576,bg_ms=10,bg_idle_ms=100,bg_stop_us=1600",
			/*
			 * Crucial names it "Adaptive Thermal Protection". The case cools the SSD:
			 * it is assumed to become hot after ten minutes of reads at full rate.
			 */
			"heat_mb=143051,heat_cool_mbps=300,heat_pct=50",
			EK_FS_RETRIES, EK_FS_JITTER,
		},
	}, {
		.name = "hdd-5400",
		.about = "disk, 5400 rpm, SATA, NCQ",
		.pairs = {
			"kind=disk,capacity_mb=476940,depth=32,active=1,max_kb=512",
			"link_read_mbps=300,link_write_mbps=300",
			/*
			 * Hitachi Travelstar 5K320, specification 4.4.2: 1 ms for a single track,
			 * 20 ms for a full stroke.
			 */
			"rpm=5400,seek_min_us=1000,seek_max_us=20000,track_mbps=100,cmd_us=100",
			"cmd_write_us=100",
			"flush_us=1000",
		},
	}, {
		.name = "pipe",
		.about = "a link with command work and nothing behind it, strictly in order",
		.pairs = {
			/*
			 * The board of Hasegawa et al., "Improving responsiveness by guaranteeing
			 * storage I/O bandwidth": 220 MB/s for reads and 65 MB/s for writes,
			 * requests of 512 KB. The link is fitted to these rates.
			 *
			 * Work per command and flush: that of emmc51, because an eMMC with these
			 * rates is assumed. The volatile cache makes the host flush it.
			 *
			 * The bare link: link_read_mbps=220,link_write_mbps=65,cmd_us=0,
			 * cmd_write_us=0,flush_us=0,buffer_kb=0.
			 */
			"kind=link,capacity_mb=65536,depth=64,active=1,max_kb=512",
			"link_read_mbps=229,link_write_mbps=66,cmd_us=90,cmd_write_us=76",
			"flush_us=200,buffer_kb=1024",
		},
	},
};

const u32 ek_fs_nr_presets = ARRAY_SIZE(ek_fs_presets);
