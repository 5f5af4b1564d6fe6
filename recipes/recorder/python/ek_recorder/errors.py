# SPDX-License-Identifier: Apache-2.0
"""What can go wrong: each error has the recorder's own words and its errno."""

from __future__ import annotations

import errno
import os


class RecorderError(OSError):
    """The base of all of them, and what has no class of its own."""


class ChannelNotFound(RecorderError):
    """The recorder has no channel of that name."""


class ChannelBusy(RecorderError):
    """The channel has a writer; the words name its process."""


class RecordTooLarge(RecorderError):
    """The record is larger than the channel declares; nothing was submitted."""


class RecorderGone(RecorderError):
    """The recorder is not there, has gone, or has closed the connection; open anew."""


class SyncTimeout(RecorderError, TimeoutError):
    """It was not done in time; it may be later."""


_CLASSES: dict[int, type[RecorderError]] = {
    errno.ENOENT: ChannelNotFound,
    errno.EBUSY: ChannelBusy,
    errno.EMSGSIZE: RecordTooLarge,
    errno.EPIPE: RecorderGone,
    errno.ECONNREFUSED: RecorderGone,
    errno.ETIMEDOUT: SyncTimeout,
}


def error(code: int, words: str) -> RecorderError:
    """The error of a C function that returned -code."""
    return _CLASSES.get(code, RecorderError)(code, words or os.strerror(code))
