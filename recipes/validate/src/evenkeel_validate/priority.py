# SPDX-License-Identifier: Apache-2.0
"""The files of a priority directory, as a case makes them: how they get into the page cache, and how much of them is in it.

The files stay open. Otherwise the kernel may forget their inodes, and a read would also read metadata of the file system.
Only pages of these files are ever removed from the cache, so other programs keep theirs.
"""

import contextlib
import ctypes
import mmap
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from .cases import MB, PRIORITY_BYTES

FOLDER = "priority"
COUNT = 8
PAGE = os.sysconf("SC_PAGE_SIZE")


def paths(folder: Path) -> list[Path]:
    """The files in the folder FOLDER."""
    return [folder / str(number) for number in range(COUNT)]


class Files:
    """The open files, by their descriptors."""

    def __init__(self, descriptors: Sequence[int]) -> None:
        self._descriptors = descriptors

    def load(self) -> None:
        """Read all files once, so that their pages are in the cache. Raises OSError."""
        for fd in self._descriptors:
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_SEQUENTIAL)
            at = 0
            while part := os.pread(fd, MB, at):
                at += len(part)

    def drop(self) -> None:
        """Remove the pages of the files from the cache. Raises OSError."""
        # A page that is being read stays. So everything is read first.
        self.load()
        for fd in self._descriptors:
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)

    def cached(self) -> float:
        """The share of the pages that are in the cache, from 0 to 1. Raises OSError."""
        sizes = [os.fstat(fd).st_size for fd in self._descriptors]
        present = sum(_present(fd, size) for fd, size in zip(self._descriptors, sizes, strict=True))
        return present * PAGE / sum(sizes)


def _present(fd: int, size: int) -> int:
    """How many pages of the file FD with SIZE bytes are in the cache. Raises OSError.

    mincore(2) reads nothing. fincore of util-linux calls it, too, but the board's image does not have this program.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    pages = (ctypes.c_ubyte * -(-size // PAGE))()
    # ctypes takes the address of a mapping only if it may be written. No page of it is accessed.
    with mmap.mmap(fd, size, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE) as mapping:
        first = ctypes.c_char.from_buffer(mapping)
        failed = libc.mincore(ctypes.c_void_p(ctypes.addressof(first)), ctypes.c_size_t(size), pages)
        del first  # Otherwise the mapping could not be closed.
    if failed:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return sum(page & 1 for page in pages)


@contextlib.contextmanager
def made(folder: Path) -> Iterator[Files]:
    """Make the folder FOLDER with its files, PRIORITY_BYTES together, on the medium. Raises OSError."""
    folder.mkdir(mode=0o700)
    with contextlib.ExitStack() as stack:
        descriptors = []
        for path in paths(folder):
            with path.open("xb") as file:
                # data that a controller can neither compress nor deduplicate
                for _ in range(PRIORITY_BYTES // COUNT // MB):
                    file.write(os.urandom(MB))
                file.flush()
                os.fsync(file.fileno())
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
            stack.callback(os.close, fd)
            descriptors.append(fd)
        yield Files(descriptors)
