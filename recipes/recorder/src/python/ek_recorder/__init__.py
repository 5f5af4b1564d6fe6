# SPDX-License-Identifier: Apache-2.0
"""Submit records to ek-recorder, and read recordings.

with Writer("front-camera") as writer:
    writer.submit(frame)

for event in read("front-camera", start="-5min"):
    if isinstance(event, Record):
        ...
"""

from .errors import ChannelBusy, ChannelNotFound, RecorderError, RecorderGone, RecordTooLarge, SyncTimeout
from .reader import Missing, Record, read
from .writer import Channel, Writer

__all__ = [
    "Channel",
    "ChannelBusy",
    "ChannelNotFound",
    "Missing",
    "Record",
    "RecordTooLarge",
    "RecorderError",
    "RecorderGone",
    "SyncTimeout",
    "Writer",
    "read",
]
