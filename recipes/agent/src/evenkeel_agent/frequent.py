# SPDX-License-Identifier: Apache-2.0
"""A look-up in the list of frequent passwords and words, which the program frequent-passwords has made.

The list has about 700 KB. A look-up halves the file: it reads about 16 lines and keeps nothing in memory.
"""

import os
from collections.abc import Callable

PATH = "/usr/share/evenkeel-agent/frequent-passwords"
MIN_WORD = 4  # the list has no shorter words
LINE = 256  # no line is longer, in bytes


def listed(word: str) -> bool:
    """Whether WORD is in the list. Without a list, no word is in it."""
    wanted = word.lower().encode("utf-8", "surrogatepass")
    if not wanted or len(wanted) >= LINE or b"\n" in wanted:
        return False
    try:
        fd = os.open(PATH, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        return _search(lambda at, size: os.pread(fd, size, at), os.fstat(fd).st_size, wanted)
    except OSError:
        return False
    finally:
        os.close(fd)


def _search(read: Callable[[int, int], bytes], size: int, wanted: bytes) -> bool:
    """Whether WANTED is a line of the sorted file of SIZE bytes. READ(at, size) returns bytes of it.

    Invariant: if WANTED is a line, it begins at LOW or later, and before HIGH.
    """
    low, high = 0, size
    while low < high:
        middle = (low + high) // 2
        # the first line that begins at MIDDLE or later; the byte before MIDDLE may end a line
        before = max(middle - 1, 0)
        block = read(before, 2 * LINE)
        start = 0 if middle == 0 else block.find(b"\n") + 1
        begin = before + start
        if (middle and not start) or begin >= high:
            high = middle
            continue
        line = block[start:].partition(b"\n")[0]
        if line == wanted:
            return True
        if line < wanted:
            low = begin + len(line) + 1
        else:
            high = middle
    return False
