// SPDX-License-Identifier: Apache-2.0
/*
 * Fit the partition table to the medium: new UUIDs for a new medium, and partitions that use all of it.
 * preinit runs this program at each boot, before it mounts anything but the slot.
 *
 * A power cut at any moment leaves the old table or the new one. No table in force is written: the new
 * array of partitions goes to a free place, and the last step is one sector, the header that names it.
 * The tools that write partition tables overwrite array and header in place. A cut between the two
 * leaves a table that the kernel refuses, because it does not look for the copy at the end by itself.
 *
 * No file system in force is written either. A data partition that moves is made at its new place first.
 */
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/blkpg.h>
#include <linux/fs.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define USAGE "usage: fit-medium [--renew] DISK MAKE-EMPTY"

/* exit status */
#define DONE	0
#define FAILED	1
#define WRONG	2
#define RESTART 3 /* the kernel must read the table again */

/* Partitions begin and end at multiples of this: no eMMC that we know has larger erase blocks. */
#define ALIGN ((uint64_t)4 << 20)
/* Limit of the array, in bytes. The usual size is 16 KiB, the least that the specification allows. */
#define ARRAY_MAX ((uint64_t)64 << 10)

/* the GUIDs of the image's partitions begin with e7e2ee10-0000-4000-8001 (data/genimage.cfg, evenkeel.wks.in) */
static const unsigned char image_guid[10] = { 0x10, 0xee, 0xe2, 0xe7, 0, 0, 0, 0x40, 0x80, 1 };

#define RESERVED_INODES 10 /* of ext4 */

/* UEFI specification, 5.3 GUID Partition Table. All numbers are little-endian. */
struct header {
	char signature[8];
	uint32_t revision;
	uint32_t size;
	uint32_t crc;
	uint32_t reserved;
	uint64_t my_lba;
	uint64_t alternate_lba;
	uint64_t first_usable;
	uint64_t last_usable;
	unsigned char guid[16];
	uint64_t array_lba;
	uint32_t count;
	uint32_t entry_size;
	uint32_t array_crc;
} __attribute__((packed));

struct entry {
	unsigned char type[16];
	unsigned char guid[16];
	uint64_t first;
	uint64_t last;
	uint64_t attributes;
	uint16_t name[36];
} __attribute__((packed));

struct disk {
	const char *path;
	int fd;
	bool device;	 /* false: a file, of which the kernel knows no partitions */
	uint32_t sector; /* bytes */
	uint64_t sectors;
	union {
		struct header header;
		unsigned char block[4096]; /* the whole sector: what follows the header is kept */
	};
	unsigned char array[ARRAY_MAX];
};

__attribute__((noreturn, format(printf, 1, 2))) static void fail(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vfprintf(stderr, fmt, args);
	va_end(args);
	fputc('\n', stderr);
	exit(FAILED);
}

static uint32_t crc32(const void *bytes, size_t length)
{
	const unsigned char *byte = bytes;
	uint32_t crc = ~0U;

	while (length--) {
		crc ^= *byte++;
		for (int bit = 0; bit < 8; bit++)
			crc = crc >> 1 ^ (crc & 1 ? 0xedb88320 : 0);
	}
	return ~crc;
}

/* --- reading ------------------------------------------------------------------------- */

static bool read_at(const struct disk *d, void *to, size_t length, uint64_t offset)
{
	return pread(d->fd, to, length, (off_t)offset) == (ssize_t)length;
}

static uint64_t array_bytes(const struct disk *d)
{
	return (uint64_t)le32toh(d->header.count) * le32toh(d->header.entry_size);
}

/* whole sectors of the array */
static uint64_t array_sectors(const struct disk *d)
{
	return (array_bytes(d) + d->sector - 1) / d->sector;
}

static uint32_t header_crc(const struct disk *d)
{
	unsigned char copy[sizeof(d->block)];

	memcpy(copy, d->block, le32toh(d->header.size));
	memset(copy + offsetof(struct header, crc), 0, sizeof(d->header.crc));
	return crc32(copy, le32toh(d->header.size));
}

/* Opens the disk and reads its table. Returns NULL, or why there is no valid table. */
static const char *open_disk(struct disk *d, const char *path)
{
	struct stat status;
	int sector = 512;
	off_t size;

	d->path = path;
	d->fd = open(path, O_RDWR | O_CLOEXEC);
	if (d->fd < 0 || fstat(d->fd, &status))
		return strerror(errno);
	d->device = S_ISBLK(status.st_mode);
	size = lseek(d->fd, 0, SEEK_END);
	if (size < 0 || (d->device && ioctl(d->fd, BLKSSZGET, &sector)))
		return strerror(errno);
	if (sector < 512 || sector > (int)sizeof(d->block))
		return "its sectors have an unknown size";
	d->sector = (uint32_t)sector;
	d->sectors = (uint64_t)size / d->sector;
	if (!read_at(d, d->block, d->sector, d->sector) ||
	    memcmp(d->header.signature, "EFI PART", 8) != 0)
		return "it has no GPT";
	if (le64toh(d->header.my_lba) != 1 || le32toh(d->header.size) < sizeof(d->header) ||
	    le32toh(d->header.size) > d->sector || le32toh(d->header.crc) != header_crc(d))
		return "the header of its GPT is damaged";
	if (le32toh(d->header.entry_size) < sizeof(struct entry) ||
	    le32toh(d->header.entry_size) % 8 || array_bytes(d) > sizeof(d->array) ||
	    le64toh(d->header.array_lba) < 2)
		return "the array of its GPT has an unknown size or place";
	if (!read_at(d, d->array, array_bytes(d), le64toh(d->header.array_lba) * d->sector) ||
	    le32toh(d->header.array_crc) != crc32(d->array, array_bytes(d)))
		return "the array of its GPT is damaged";
	return NULL;
}

/* The next used entry from @number on; NULL: none. @number becomes the number after it, the kernel's for it. */
static struct entry *next_entry(struct disk *d, uint32_t *number)
{
	static const unsigned char unused[16];

	while (*number < le32toh(d->header.count)) {
		unsigned char *at = d->array + (size_t)(*number)++ * le32toh(d->header.entry_size);

		if (memcmp(at, unused, sizeof(unused)) != 0)
			return (struct entry *)at;
	}
	return NULL;
}

static bool is_named(const struct entry *e, const char *name)
{
	size_t i = 0;

	for (; name[i]; i++)
		if (le16toh(e->name[i]) != (unsigned char)name[i])
			return false;
	return !e->name[i];
}

/* The number of the only partition @name; 0: there is none, or several. */
static uint32_t find(struct disk *d, const char *name, struct entry **found)
{
	uint32_t number = 0, only = 0;
	struct entry *e;

	*found = NULL;
	while ((e = next_entry(d, &number))) {
		if (!is_named(e, name))
			continue;
		if (*found)
			return 0;
		*found = e;
		only = number;
	}
	return only;
}

static uint64_t first_of(const struct entry *e)
{
	return le64toh(e->first);
}

static uint64_t end_of(const struct entry *e)
{
	return le64toh(e->last) + 1;
}

/* --- UUIDs --------------------------------------------------------------------------- */

static bool has_uuids_of_the_image(struct disk *d)
{
	uint32_t number = 0;
	struct entry *e;

	while ((e = next_entry(d, &number)))
		if (memcmp(e->guid, image_guid, sizeof(image_guid)) == 0)
			return true;
	return false;
}

static void new_uuid(unsigned char *guid)
{
	/* Not secret, so bytes are good enough that the kernel has before it has collected much entropy. */
	if (getrandom(guid, 16, GRND_INSECURE) != 16)
		fail("no random numbers for new UUIDs: %s", strerror(errno));
	guid[7] = (unsigned char)((guid[7] & 0x0f) | 0x40);
	guid[8] = (unsigned char)((guid[8] & 0x3f) | 0x80);
}

static void renew_uuids(struct disk *d)
{
	uint32_t number = 0;
	struct entry *e;

	new_uuid(d->header.guid);
	while ((e = next_entry(d, &number)))
		new_uuid(e->guid);
}

/* --- file systems -------------------------------------------------------------------- */

struct ext4 {
	uint64_t bytes;
	bool unused; /* never mounted, and has no file */
};

/* False if there is no ext4 file system. The offsets are those of the kernel's struct ext4_super_block. */
static bool read_ext4(const struct disk *d, const struct entry *e, struct ext4 *fs)
{
	unsigned char super[1024];
	uint32_t inodes, blocks, free_inodes, more_blocks, shift, mount_time;
	uint16_t magic, mounts;

	if (!read_at(d, super, sizeof(super), first_of(e) * d->sector + 1024))
		return false;
	memcpy(&inodes, super + 0x00, 4);
	memcpy(&blocks, super + 0x04, 4);
	memcpy(&free_inodes, super + 0x10, 4);
	memcpy(&shift, super + 0x18, 4);
	memcpy(&mount_time, super + 0x2c, 4);
	memcpy(&mounts, super + 0x34, 2);
	memcpy(&magic, super + 0x38, 2);
	memcpy(&more_blocks, super + 0x150, 4);
	if (le16toh(magic) != 0xef53 || le32toh(shift) > 6)
		return false;
	fs->bytes = (le32toh(blocks) | (uint64_t)le32toh(more_blocks) << 32)
		    << (10 + le32toh(shift));
	/* mke2fs uses the reserved inodes, and one for lost+found (conf/mkfs has no feature that needs more) */
	fs->unused = !mount_time && !mounts &&
		     le32toh(inodes) - le32toh(free_inodes) <= RESERVED_INODES + 1;
	return true;
}

/* A file system is smaller than its partition if this boot has extended it, or an earlier one that was cut. */
static void report_small(struct disk *d, const char *name)
{
	struct entry *e;
	struct ext4 fs;

	if (find(d, name, &e) && read_ext4(d, e, &fs) &&
	    fs.bytes + ALIGN <= (end_of(e) - first_of(e)) * d->sector)
		printf("grow %s\n", name);
}

/* --- the kernel's partitions --------------------------------------------------------- */

static bool tell_kernel(const struct disk *d, int what, uint32_t number, uint64_t first,
			uint64_t sectors)
{
	struct blkpg_partition part = {
		.start = (long long)(first * d->sector),
		.length = (long long)(sectors * d->sector),
		.pno = (int)number,
	};
	struct blkpg_ioctl_arg arg = { .op = what, .datalen = sizeof(part), .data = &part };

	return ioctl(d->fd, BLKPG, &arg) == 0;
}

static bool run(const char *program, const char *device, const char *name)
{
	pid_t child = fork();
	int status;

	if (child == 0) {
		execl(program, program, device, name, NULL);
		_exit(127);
	}
	return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) &&
	       WEXITSTATUS(status) == 0;
}

/* Makes an empty file system on sectors that no partition has, by a partition that only the kernel knows. */
static bool make_data(struct disk *d, const char *program, uint64_t first, uint64_t sectors)
{
	const char end = d->path[strlen(d->path) - 1];
	uint32_t number = 0, last = 0;
	char device[256];
	bool made;

	while (next_entry(d, &number))
		last = number;
	snprintf(device, sizeof(device), "%s%s%" PRIu32, d->path,
		 end >= '0' && end <= '9' ? "p" : "", last + 1);
	if (!tell_kernel(d, BLKPG_ADD_PARTITION, last + 1, first, sectors))
		return false;
	made = run(program, device, "data");
	tell_kernel(d, BLKPG_DEL_PARTITION, last + 1, 0, 0);
	return made;
}

/* --- larger partitions --------------------------------------------------------------- */

static uint64_t mib(const struct disk *d, uint64_t sectors)
{
	return sectors * d->sector >> 20;
}

/*
 * Gives the partitions at the end what the medium has more than the image. Returns true if it changed the array;
 * then @restart says whether the kernel cannot learn the change while it runs.
 *
 * data is the last partition, so it can always grow. recorder is in front of it, so it can grow only if data moves.
 * That destroys nothing only if data has never been used, and its new place is behind the old one. Then each of
 * the two gets half of the additional space.
 */
static bool use_whole_medium(struct disk *d, const char *make_empty, bool *restart)
{
	const uint64_t align = ALIGN / d->sector;
	/* the end of the last partition, if the table at the end of the medium follows it */
	const uint64_t end = (d->sectors - 1 - array_sectors(d)) / align * align;
	uint32_t number = 0, data_number;
	struct entry *data, *recorder, *e;
	uint64_t more, place;
	struct ext4 fs;

	data_number = find(d, "data", &data);
	if (!data_number || end < end_of(data) + align)
		return false;
	while ((e = next_entry(d, &number)))
		if (end_of(e) > end_of(data))
			return false;
	more = end - end_of(data);
	if (find(d, "recorder", &recorder) && end_of(recorder) == first_of(data) &&
	    read_ext4(d, data, &fs) && fs.unused) {
		place = (first_of(data) + more / 2 + align - 1) / align * align;
		if (place >= end_of(data) && make_data(d, make_empty, place, end - place)) {
			recorder->last = htole64(place - 1);
			data->first = htole64(place);
			data->last = htole64(end - 1);
			printf("the partition recorder has %" PRIu64 " MiB\n",
			       mib(d, end_of(recorder) - first_of(recorder)));
			printf("the partition data has %" PRIu64 " MiB\n", mib(d, end - place));
			*restart = true;
			return true;
		}
	}
	data->last = htole64(end - 1);
	printf("the partition data has %" PRIu64 " MiB\n", mib(d, end - first_of(data)));
	return true;
}

/* --- writing ------------------------------------------------------------------------- */

static void write_at(const struct disk *d, const void *from, size_t length, uint64_t lba)
{
	if (pwrite(d->fd, from, length, (off_t)(lba * d->sector)) != (ssize_t)length)
		fail("cannot write the partition table of %s: %s", d->path, strerror(errno));
}

static void flush(const struct disk *d)
{
	if (fsync(d->fd))
		fail("cannot write the partition table of %s: %s", d->path, strerror(errno));
}

static void write_header(struct disk *d, uint64_t my_lba, uint64_t other_lba, uint64_t array_lba)
{
	d->header.my_lba = htole64(my_lba);
	d->header.alternate_lba = htole64(other_lba);
	d->header.array_lba = htole64(array_lba);
	d->header.array_crc = htole32(crc32(d->array, array_bytes(d)));
	d->header.crc = htole32(header_crc(d));
	write_at(d, d->block, d->sector, my_lba);
}

/* A place that does not overlap the array in force: behind the header, or in front of the first partition. */
static uint64_t free_place(struct disk *d, uint64_t first_partition)
{
	const uint64_t size = array_sectors(d), used = le64toh(d->header.array_lba);

	if (used >= 2 + size && 2 + size <= first_partition)
		return 2;
	if (first_partition >= size + 2 && first_partition - size >= used + size)
		return first_partition - size;
	fail("no free space for a partition table in front of the first partition of %s", d->path);
}

static void write_table(struct disk *d)
{
	const uint64_t size = array_sectors(d), last = d->sectors - 1;
	uint64_t first_partition = UINT64_MAX, end = 0, place;
	uint32_t number = 0;
	struct entry *e;

	while ((e = next_entry(d, &number))) {
		if (first_of(e) < first_partition)
			first_partition = first_of(e);
		if (end_of(e) > end)
			end = end_of(e);
	}
	place = free_place(d, first_partition);
	if (end > last - size)
		fail("%s is too small for its partitions", d->path);
	d->header.first_usable = htole64(first_partition);
	d->header.last_usable = htole64(last - size - 1);
	write_at(d, d->array, array_bytes(d), last - size);
	write_header(d, last, 1, last - size);
	write_at(d, d->array, array_bytes(d), place);
	flush(d);
	write_header(d, 1, last, place);
	flush(d);
}

int main(int argc, char **argv)
{
	static struct disk disk;
	bool ordered = false, renew, grown, restart = false;
	struct entry *data;
	const char *reason;
	uint32_t number;

	if (argc > 1 && strcmp(argv[1], "--renew") == 0) {
		ordered = true;
		argv++;
		argc--;
	}
	if (argc != 3 || argv[1][0] == '-') {
		fputs(USAGE "\n", stderr);
		return WRONG;
	}
	reason = open_disk(&disk, argv[1]);
	if (reason)
		fail("cannot use %s: %s", disk.path, reason);
	renew = ordered || has_uuids_of_the_image(&disk);
	grown = use_whole_medium(&disk, argv[2], &restart);
	if (renew) {
		renew_uuids(&disk);
		printf("%s has new UUIDs\n", disk.path);
	}
	if (renew || grown) {
		write_table(&disk);
		number = find(&disk, "data", &data);
		if (grown && !restart && disk.device &&
		    !tell_kernel(&disk, BLKPG_RESIZE_PARTITION, number, first_of(data),
				 end_of(data) - first_of(data)))
			restart = true;
	}
	report_small(&disk, "recorder");
	report_small(&disk, "data");
	return restart || ordered ? RESTART : DONE;
}
