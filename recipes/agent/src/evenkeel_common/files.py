# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: PTH108, PTH120
"""Reads small files that other programs write, and replaces files of the caller.

A file that is read can neither block the reader nor redirect it to another file. A file that is replaced is complete at
any moment, also after a power cut.
"""

import contextlib
import errno
import logging
import os
import socket
import stat

_log = logging.getLogger(__name__)


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


def replace(path: str, content: bytes, mode: int = 0o600) -> None:
    """Replace the file PATH by CONTENT. By default, only the owner may read it. Blocks for two flushes.

    Guarantee: at any moment, also after a power cut, PATH has its old or its new content. After the function has
    returned, the new content is on the medium. It raises OSError if PATH has its old content still.

    It writes a temporary file, flushes it (fsync), renames it and flushes the folder. This is sufficient if one process
    writes PATH, one call at a time. A failed call leaves no temporary file: CONTENT may have a password.
    """
    temporary = path + ".new"
    try:
        fd = os.open(
            temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, mode=0o600
        )
        try:
            os.fchmod(fd, mode)  # open() applies the umask
            while content:
                content = content[os.write(fd, content) :]
            os.fsync(fd)
        finally:
            os.close(fd)
        os.replace(temporary, path)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    try:
        _flush_folder(path)
    except OSError as error:
        # The new file is in place, but its rename may not be on the medium: a power cut may bring back the old file.
        _log.warning("%s is saved, but a power cut may undo it: %s", path, why(error))


def remove(path: str) -> None:
    """Remove the file PATH. Blocks for a flush, after which a power cut does not bring it back. Raises OSError."""
    os.unlink(path)
    try:
        _flush_folder(path)
    except OSError as error:
        _log.warning("%s is removed, but a power cut may undo it: %s", path, why(error))


def _flush_folder(path: str) -> None:
    """Write the folder of PATH to the medium."""
    fd = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
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


def host_name(path: str = "/etc/hostname") -> str:
    """The name of the board in the file PATH. Without the file, the name that the kernel has for this process.

    A service with ProtectHostname= has the name of its start in the kernel still, when the board gets another one.
    """
    return read_line(path) or socket.gethostname()


def why(error: OSError) -> str:
    """The reason of ERROR, without the file name. The caller's message has the file name already."""
    return error.strerror or str(error)
