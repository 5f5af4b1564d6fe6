# SPDX-License-Identifier: Apache-2.0
"""Reads small files that other programs write. Such a file can neither block the agent nor redirect it."""

import errno
import os
import stat


def read_small(path: str, limit: int) -> bytes:
    """The content of the regular file PATH, at most LIMIT bytes.

    Raises OSError, also for a symbolic link, a pipe, a device or a longer file: an app may have created the
    file, to make the agent read another one.
    """
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise OSError(errno.EINVAL, "not a regular file", path)
        content = b""
        while chunk := os.read(fd, limit + 1 - len(content)):
            content += chunk
            if len(content) > limit:
                raise OSError(errno.EFBIG, f"longer than {limit} bytes", path)
        return content
    finally:
        os.close(fd)


def read_line(path: str) -> str:
    """The stripped text of a kernel attribute; "" if it cannot be read. Attributes may disappear at any time."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        return os.read(fd, 4096).decode("utf-8", "replace").strip()
    except OSError:
        return ""
    finally:
        os.close(fd)


def why(error: OSError) -> str:
    """The reason without the file name, which the caller's message contains already."""
    return error.strerror or str(error)
