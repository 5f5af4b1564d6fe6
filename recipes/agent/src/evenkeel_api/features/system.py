# SPDX-License-Identifier: Apache-2.0
"""The system: the name of the board, its clock, its journal, and the order to switch it off."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from ..errors import Conflict, InvalidArgument
from ..messages import Note
from ..method import ANY, Method
from ..roles import ADMIN, OPERATOR, VIEWER
from ..schema import FD, I64, U64, Struct
from .accounts import Time
from .board import READ
from .recorder import TIME

SYSTEM = "org.evenkeel.agent.system"
JOURNAL = "org.evenkeel.agent.read-journal"
ACTIONS = {
    SYSTEM: "Name the board, set its clock, and switch it off",
    JOURNAL: "Read the journal of the board",
}

# A label of RFC 1123. A name of digits alone is refused, because programs would read it as an IPv4 address.
NAME = r"^(?![0-9]+$)[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?$(?!\n)"
ZONE = r"^[A-Za-z0-9_+-]+(/[A-Za-z0-9_+-]+){0,2}$(?!\n)"
SERVER = r"^[A-Za-z0-9:]([A-Za-z0-9.:-]{0,251}[A-Za-z0-9:])?$(?!\n)"
UNIT = r"^(kernel|[A-Za-z0-9:_.\\@][A-Za-z0-9:_.\\@-]*)?$(?!\n)"
MAX_SERVERS = 8
MAX_LINES = 500

Clock = Literal["synchronised", "waiting", "off", "missing", "unknown"]
# most important first, as syslog numbers them from 0
Priority = Literal["emerg", "alert", "crit", "err", "warning", "notice", "info", "debug"]
BoardName = Annotated[
    str,
    Meta(
        max_length=63,
        pattern=NAME,
        description="host name: 1 to 63 letters, digits or `-`, without `-` at either end, and not digits alone",
    ),
]
Zone = Annotated[str, Meta(max_length=64, pattern=ZONE, description="time zone, such as `Europe/Berlin`")]
Servers = Annotated[
    list[Annotated[str, Meta(pattern=SERVER)]],
    Meta(
        max_length=MAX_SERVERS,
        description="host names or addresses of time servers (NTP); empty: those that the network names, else those of"
        " the image",
    ),
]


class System(Struct, frozen=True):
    """The name of the board, and its clock."""

    name: Annotated[str, Meta(description="host name of the board")]
    at: Annotated[Time, Meta(description="present time of the board")]
    zone: Annotated[str, Meta(description="time zone; empty if it is not known")]
    offset_s: Annotated[
        I64, Meta(description="local time minus UTC in this zone, at present", extra={"unit": "s"})
    ]
    clock: Annotated[
        Clock,
        Meta(
            description="`synchronised` with a time server; `waiting`: not yet; `off`: the time service is stopped;"
            " `missing`: the image has none; `unknown`: it does not answer"
        ),
    ]
    server: Annotated[str, Meta(description="time server in use; empty if there is none")] = ""
    servers: Annotated[
        list[str], Meta(description="time servers that an administrator has set; empty if there are none")
    ] = msgspec.field(default_factory=list)
    problem: Annotated[
        list[Note], Meta(description="one [message](#message) per problem of name or clock, else empty")
    ] = msgspec.field(default_factory=list)


class Line(Struct, frozen=True):
    """A line of the journal."""

    at: Annotated[float, Meta(description="when it was logged, since 1970", extra={"unit": "s"})]
    priority: Annotated[Priority, Meta(description="priority of the line")]
    unit: Annotated[str, Meta(description="systemd unit that logged it; empty if there is none")]
    program: Annotated[str, Meta(description="program that logged it, as it names itself; may be empty")]
    pid: Annotated[U64, Meta(description="process that logged it; 0: not known")]
    text: Annotated[str, Meta(description="the text; a text of more than 2000 characters is shortened")]


class Journal(Struct, frozen=True):
    """Lines of the journal."""

    lines: Annotated[list[Line], Meta(description="the [lines](#line-of-the-journal), oldest first")]
    more: Annotated[bool, Meta(description="whether older lines match as well")]


class SetHostName(Struct, frozen=True):
    hostname: BoardName


class SetTimeZone(Struct, frozen=True):
    zone: Zone


class SetTimeServers(Struct, frozen=True):
    servers: Servers


class ReadJournal(Struct, frozen=True):
    unit: Annotated[
        str,
        Meta(
            max_length=255,
            pattern=UNIT,
            description="name of a unit, or `kernel` for the kernel; empty: the whole board",
        ),
    ]
    priority: Annotated[Priority, Meta(description="only lines of this priority and of higher ones")]
    start: Annotated[
        str,
        Meta(
            pattern=TIME,
            description="time of the first line, as `2026-11-25T10:00:00Z`; empty: the oldest one",
        ),
    ]
    end: Annotated[str, Meta(pattern=TIME, description="time of the last line; empty: the newest one")]
    limit: Annotated[
        int,
        Meta(
            ge=1,
            le=MAX_LINES,
            description="number of lines; of more lines, the newest ones",
            extra={"dbus": "u"},
        ),
    ]


METHODS = (
    Method(
        "GetSystem",
        READ,
        VIEWER,
        "Returns the [name of the board and its clock](#system).",
        answer=System,
        answer_name="system",
    ),
    Method(
        "ListTimeZones",
        READ,
        VIEWER,
        "Returns the time zones that the board knows, sorted; none if its image has no data of time zones.",
        answer=list[str],
        answer_name="zones",
    ),
    Method(
        "SetHostName",
        SYSTEM,
        ADMIN,
        "Sets the host name of the board. It survives a restart and an update.",
        SetHostName,
        System,
        "system",
        (InvalidArgument, *ANY),
        changes=True,
    ),
    Method(
        "SetTimeZone",
        SYSTEM,
        ADMIN,
        "Sets the time zone of the board. It survives a restart and an update.",
        SetTimeZone,
        System,
        "system",
        (InvalidArgument, *ANY),
        changes=True,
    ),
    Method(
        "SetTimeServers",
        SYSTEM,
        ADMIN,
        "Saves the time servers, and gives them to the time service.",
        SetTimeServers,
        System,
        "system",
        (InvalidArgument, *ANY),
        changes=True,
    ),
    Method(
        "PowerOff",
        SYSTEM,
        ADMIN,
        "Switches the board off. Only its power switch or its power supply starts it again.",
        errors=(Conflict, *ANY),
        changes=True,
    ),
    Method(
        "GetJournal",
        JOURNAL,
        OPERATOR,
        "Returns the last [lines of the journal](#journal) that match.",
        ReadJournal,
        Journal,
        "journal",
        (InvalidArgument, *ANY),
    ),
    Method(
        "OpenSupportBundle",
        JOURNAL,
        OPERATOR,
        "Makes a support bundle. Returns a socket with [packets of the file](#download-of-a-recording), a `.tar.gz` file.",
        answer=FD,
        answer_name="socket",
        changes=True,
    ),
)
