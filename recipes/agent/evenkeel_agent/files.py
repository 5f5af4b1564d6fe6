# SPDX-License-Identifier: Apache-2.0
"""Reading small files that others write, without being held up or led astray by them."""

import errno
import os
import stat


def read_small(path: str, limit: int) -> bytes:
    """The content of the regular file PATH, at most LIMIT bytes.

    Raises OSError; a symbolic link, a pipe, a device and a longer file are errors too: the writer may
    be an app, the reader is root.
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
    """The stripped text of a kernel attribute, "" if it cannot be read (it may go at any time)."""
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
    """The reason alone: messages name the file themselves."""
    return error.strerror or str(error)
