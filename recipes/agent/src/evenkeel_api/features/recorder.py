# SPDX-License-Identifier: Apache-2.0
"""The recorder: its channels, what they recorded and lost, the kept incidents, and the download of recordings."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from ..errors import Conflict, InvalidArgument
from ..messages import Note
from ..method import ANY, Method
from ..roles import OPERATOR, VIEWER
from ..schema import FD, U64, Struct
from .board import READ

DOWNLOAD = "org.evenkeel.agent.download-recordings"
ACTIONS = {DOWNLOAD: "Download recordings"}

NAME = r"^[a-z0-9][a-z0-9-]{0,31}$(?!\n)"
TIME = r"^([0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z)?$(?!\n)"
MAX_CHANNELS = 64  # the recorder has at most so many

Reason = Literal["overrun", "absent", "failed", "writer", "restart"]
State = Literal[
    "running", "silent", "starting", "restarting", "failed", "stopped", "not-installed", "unknown"
]
ChannelState = Literal["recording", "preparing", "failed", "not-configured"]
Bytes = Annotated[U64, Meta(extra={"unit": "bytes"})]
Micros = Annotated[U64, Meta(extra={"unit": "µs"})]
Moment = Annotated[float, Meta(extra={"unit": "s"})]


class Loss(Struct, frozen=True):
    """Lost records of a channel, with the reason."""

    reason: Annotated[Reason, Meta(description="the [reason of the gap](recorder.md#gap-reasons)")]
    records: Annotated[
        U64, Meta(description="lost records; for `restart`, the number of gaps, whose size is unknown")
    ]


class Channel(Struct, frozen=True):
    """A channel. The counters start at 0 when the recorder starts."""

    name: Annotated[str, Meta(description="name of the channel")]
    state: Annotated[
        ChannelState,
        Meta(
            description="`recording`, `preparing` or `failed`, as the recorder reports it; `not-configured`: only its"
            " recording exists"
        ),
    ]
    reason: Annotated[
        str, Meta(description="why it does not record, or what it lacks; empty if it lacks nothing")
    ] = ""
    connected: Annotated[bool, Meta(description="whether a program is connected that writes records")] = False
    window_s: Annotated[float, Meta(description="durability window of the channel", extra={"unit": "s"})] = (
        0.0
    )
    record_bytes: Annotated[Bytes, Meta(description="size of the largest record")] = 0
    records: Annotated[U64, Meta(description="accepted records")] = 0
    payload_bytes: Annotated[Bytes, Meta(description="accepted bytes, without heads and padding")] = 0
    written_bytes: Annotated[Bytes, Meta(description="bytes written to flash, with heads and padding")] = 0
    lost: Annotated[
        list[Loss], Meta(description="[losses](#loss-of-records), without the reasons that did not occur")
    ] = msgspec.field(default_factory=list)
    late: Annotated[U64, Meta(description="records that became durable later than the window")] = 0
    errors: Annotated[U64, Meta(description="failed writes")] = 0
    backlog_bytes: Annotated[Bytes, Meta(description="bytes that wait for the flash")] = 0
    buffer_bytes: Annotated[Bytes, Meta(description="size of the buffer in memory")] = 0
    used_bytes: Annotated[Bytes, Meta(description="space that its segments take, without incidents")] = 0
    wanted_bytes: Annotated[Bytes, Meta(description="space that its segments take when all exist")] = 0
    flushed_s: Annotated[
        float, Meta(description="time since the last flush; −1: none yet", extra={"unit": "s"})
    ] = -1.0
    write_p99_us: Annotated[
        Micros, Meta(description="99th percentile of the time of a write with its flush")
    ] = 0
    write_max_us: Annotated[Micros, Meta(description="the longest of these times")] = 0
    record_p99_us: Annotated[
        Micros,
        Meta(description="99th percentile of the time from the submission of a record until it is durable"),
    ] = 0
    record_max_us: Annotated[Micros, Meta(description="the longest of these times")] = 0
    readable: Annotated[
        bool, Meta(description="whether its recording can be downloaded: its `read_group` is `ek-record`")
    ] = True
    oldest_at: Annotated[
        Moment, Meta(description="real time of the oldest record, since 1970; 0: none or not known")
    ] = 0.0
    newest_at: Annotated[
        Moment, Meta(description="real time of the newest record, as of `listed_at`; 0: none or not known")
    ] = 0.0


class Incident(Struct, frozen=True):
    """A part of a channel's recording that is kept until it is removed."""

    name: Annotated[str, Meta(description="name of the incident")]
    channel: Annotated[str, Meta(description="name of the channel")]
    used_bytes: Annotated[Bytes, Meta(description="space that it takes")] = 0
    oldest_at: Annotated[Moment, Meta(description="real time of its oldest record, since 1970; 0: none")] = (
        0.0
    )
    newest_at: Annotated[Moment, Meta(description="real time of its newest record, since 1970; 0: none")] = (
        0.0
    )


class Recorder(Struct, frozen=True):
    """The state of the recorder."""

    state: Annotated[
        State,
        Meta(
            description="`running`; `silent`: it runs and does not respond; `starting`; `restarting`: it has failed and"
            " systemd starts it again; `failed`; `stopped`; `not-installed`; `unknown`: systemd does not answer"
        ),
    ]
    started_at: Annotated[Moment, Meta(description="when it was started, since 1970; 0: not known")] = 0.0
    configuration: Annotated[
        str, Meta(description="why the configuration in the files is not in force; empty if it is in force")
    ] = ""
    problems: Annotated[
        list[Note], Meta(description="one [message](#message) per problem of the recorder")
    ] = msgspec.field(default_factory=list)
    channels: Annotated[list[Channel], Meta(description="the [channels](#channel), sorted by name")] = (
        msgspec.field(default_factory=list)
    )
    incidents: Annotated[
        list[Incident], Meta(description="the [incidents](#incident), sorted by channel and name")
    ] = msgspec.field(default_factory=list)
    partition_bytes: Annotated[
        Bytes, Meta(description="size of the recorder's partition; 0: not mounted")
    ] = 0
    free_bytes: Annotated[Bytes, Meta(description="free space of the recorder's partition")] = 0
    listed_at: Annotated[
        Moment,
        Meta(description="when the recordings were last read for incidents and oldest records; 0: never"),
    ] = 0.0
    listing_problem: Annotated[
        list[Note],
        Meta(description="one [message](#message) if the recordings cannot be read now, else empty"),
    ] = msgspec.field(default_factory=list)


class Download(Struct, frozen=True):
    start: Annotated[
        str,
        Meta(
            pattern=TIME,
            description="time of the first record, as `2026-11-25T10:00:00Z`; empty: the oldest one",
        ),
    ]
    end: Annotated[str, Meta(pattern=TIME, description="time of the last record; empty: the newest one")]
    incident: Annotated[
        str,
        Meta(
            pattern=r"^([a-z0-9][a-z0-9-]{0,31})?$(?!\n)",
            description="name of an incident, to get its records only; empty: all records",
        ),
    ]
    format: Annotated[
        Literal["mcap", "csv-text", "csv-hex"],
        Meta(
            description="`mcap`; or for a single channel `csv-text` or `csv-hex`, by the form of the payloads"
        ),
    ]
    channels: Annotated[
        list[Annotated[str, Meta(pattern=NAME)]],
        Meta(min_length=1, max_length=MAX_CHANNELS, description="names of the channels"),
    ]


METHODS = (
    Method(
        "GetRecorder",
        READ,
        VIEWER,
        "Returns the [state of the recorder](#recorder).",
        answer=Recorder,
        answer_name="recorder",
    ),
    Method(
        "OpenRecording",
        DOWNLOAD,
        OPERATOR,
        "Opens a part of the recordings. Returns a socket with [packets of the file](#download-of-a-recording).",
        request=Download,
        answer=FD,
        answer_name="socket",
        errors=(InvalidArgument, Conflict, *ANY),
        changes=True,
    ),
)
