# SPDX-License-Identifier: Apache-2.0
"""A load of discards in a file system: the program `discards.py FILE`, which measure.py runs in a group of its own.

fio discards only on a partition or a device. In a file system, a board discards with FITRIM (fstrim.timer), and so does
this program. A round allocates FILE without writing it, deletes it, and discards the space that was freed.

- No file loses data: FITRIM discards only free space.
- fstrim gets the addresses of the longest extent of FILE. Otherwise the first round would discard all free space, which
  takes minutes. ext4 discards on to the end of the free space, but not beyond the block group.
- A round writes metadata only, about ten blocks. EVERY_S bounds the number of rounds, and so the wear.
- Nothing is written to the space, so after the first round its flash holds no data. A device may take longer for space with
  data.

After SIGTERM, it deletes FILE. It ends the first round before, because a slow device may take longer for it than the
measurement. It prints JSON: the discarded bytes, its time, and the median time of a discard in µs, with the start of fstrim.
It ends by itself after LONGEST_S, because a killed validation cannot end it. The program is a single file without other
parts of the package, so that it starts fast.
"""

import contextlib
import fcntl
import json
import os
import re
import signal
import struct
import subprocess
import sys
import time
from types import FrameType

BYTES = 32 << 20  # size of FILE
EVERY_S = 0.1  # a round begins at most this often
LONGEST_S = 600.0
# linux/fiemap.h: the number of the ioctl, struct fiemap, and the first fields of struct fiemap_extent
FS_IOC_FIEMAP = 0xC020660B
HEAD, EXTENT, EXTENT_BYTES = struct.Struct("=QQIIII"), struct.Struct("=QQQ"), 56
MOST_EXTENTS = 64
TRIMMED = re.compile(r"\((\d+) bytes\) trimmed")


def longest_extent(file: str) -> tuple[int, int]:
    """(address in the file system, length) of the longest extent of FILE, in bytes. Raises OSError."""
    table = bytearray(HEAD.size + MOST_EXTENTS * EXTENT_BYTES)
    HEAD.pack_into(table, 0, 0, BYTES, 0, 0, MOST_EXTENTS, 0)
    fd = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.ioctl(fd, FS_IOC_FIEMAP, table)
    finally:
        os.close(fd)
    mapped = HEAD.unpack_from(table)[3]
    extents = [EXTENT.unpack_from(table, HEAD.size + i * EXTENT_BYTES)[1:] for i in range(mapped)]
    return max(extents, key=lambda extent: extent[1], default=(0, 0))


def call(*command: str) -> str:
    """What a program prints, untranslated. Raises OSError if it cannot run or fails."""
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"}, check=False
    )  # fmt: skip
    if done.returncode:
        raise OSError(done.stderr.strip() or f"{command[0]} ended with status {done.returncode}")
    return done.stdout


def one_round(file: str) -> tuple[int, float]:
    """Allocate, free and discard once. Returns the discarded bytes, and the seconds that it took. Raises OSError."""
    folder = os.path.dirname(file)  # noqa: PTH120
    # The C library would write zeros if the file system cannot allocate; fallocate(1) fails instead.
    call("fallocate", "--length", str(BYTES), file)
    address, length = longest_extent(file)
    os.unlink(file)  # noqa: PTH108
    # the journal frees the space when it commits
    call("sync", "-f", folder)
    begin = time.monotonic()
    text = call("fstrim", "--verbose", "--offset", str(address), "--length", str(length), folder)
    found = TRIMMED.search(text)
    return int(found[1]) if found else 0, time.monotonic() - begin


def main(file: str) -> int:
    discarded, begin = 0, time.monotonic()
    times: list[float] = []
    asked: list[int] = []

    def end(number: int, frame: FrameType | None) -> None:
        asked.append(number)
        if times:
            raise SystemExit(0)

    signal.signal(signal.SIGTERM, end)
    try:
        while not asked and time.monotonic() < begin + LONGEST_S:
            start = time.monotonic()
            freed, took = one_round(file)
            discarded += freed
            times.append(took)
            if not asked:
                time.sleep(max(start + EVERY_S - time.monotonic(), 0))
        raise SystemExit(0)
    except OSError as error:
        print(f"error: cannot discard in the file system of {file}: {error}")
        return 1
    except SystemExit:
        each = 1e6 * sorted(times)[len(times) // 2] if times else 0.0
        print(json.dumps({"bytes": discarded, "seconds": time.monotonic() - begin, "each_us": each}))
        return 0
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(file)  # noqa: PTH108


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
