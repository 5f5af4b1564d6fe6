# SPDX-License-Identifier: Apache-2.0
"""Reads small files that other programs write. Such a file can neither block the reader nor redirect it to another file."""

import errno
import os
import stat


def read_small(path: str, limit: int) -> bytes:
    """The content of the regular file PATH. Raises OSError, also if the file is longer than LIMIT bytes.

    It also raises OSError for a symbolic link, a pipe or a device. An app could create one of these to make the agent
    read another file, or wait.
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
    """The text of the kernel attribute PATH without whitespace around it; "" if it cannot be read.

    This is not an error, because attributes may disappear at any time.
    """
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
    """The reason of ERROR, without the file name. The caller's message has the file name already."""
    return error.strerror or str(error)
