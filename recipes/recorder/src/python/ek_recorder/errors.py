# SPDX-License-Identifier: Apache-2.0
"""Errors of this package. Each carries the recorder's message and its errno."""

from __future__ import annotations

import errno
import os


class RecorderError(OSError):
    """Base class of all errors, and the class of errors without a class of their own."""


class ChannelNotFound(RecorderError):
    """The recorder has no channel of that name."""


class ChannelBusy(RecorderError):
    """The channel has as many writers as it may have, or the recorder as many connections. The message says which."""


class RecordTooLarge(RecorderError):
    """The record is larger than the channel's record_size; nothing was submitted."""


class RecorderGone(RecorderError):
    """The recorder is not running or closed the connection. Open a new Writer."""


class SyncTimeout(RecorderError, TimeoutError):
    """The call did not finish in time. What it waited for may still happen."""


_CLASSES: dict[int, type[RecorderError]] = {
    errno.ENOENT: ChannelNotFound,
    errno.EBUSY: ChannelBusy,
    errno.EMSGSIZE: RecordTooLarge,
    errno.EPIPE: RecorderGone,
    errno.ECONNREFUSED: RecorderGone,
    errno.ETIMEDOUT: SyncTimeout,
}


def error(code: int, message: str) -> RecorderError:
    """The exception for a C function that returned -code."""
    return _CLASSES.get(code, RecorderError)(code, message or os.strerror(code))
