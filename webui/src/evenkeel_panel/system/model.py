# SPDX-License-Identifier: Apache-2.0
"""What the pages of the system show, and how they read forms and URLs. Pure."""

from __future__ import annotations

import math
import re
import time
from calendar import timegm
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args
from urllib.parse import urlencode

import msgspec
from evenkeel_api import schema
from evenkeel_api.features.certificate import SOON_DAYS
from evenkeel_api.features.system import UNIT, Priority, ReadJournal, SetHostName, SetTimeServers, SetTimeZone
from evenkeel_api.schema import Struct
from evenkeel_history.tiers import DAY
from msgspec import Meta

from .. import texts, times
from ..parameters import SHOWN, BadParameter
from ..recorder.model import TIME, BadDownload, parse_time

if TYPE_CHECKING:
    from evenkeel_api.features.certificate import Certificate
    from evenkeel_api.features.system import Journal

# state of the clock → class of its pill, and what the page calls it
CLOCKS = {
    "synchronised": ("ok", "right: a time server sets it"),
    "waiting": ("wait", "waiting for a time server"),
    "off": ("bad", "time service stopped"),
    "missing": ("off", "no time service"),
    "unknown": ("bad", "not known"),
}
# priority → what the page calls this priority and the higher ones
PRIORITIES = {
    "err": "errors",
    "warning": "warnings and errors",
    "notice": "notices, warnings and errors",
    "info": "all but details",
    "debug": "everything",
}
# words for the priority of one line, and the class of its pill
LEVELS = {
    "emerg": ("bad", "emergency"),
    "alert": ("bad", "alert"),
    "crit": ("bad", "critical"),
    "err": ("bad", "error"),
    "warning": ("wait", "warning"),
    "notice": ("off", "notice"),
    "info": ("off", "info"),
    "debug": ("off", "detail"),
}
Span = Literal["10min", "1h", "24h", "7d", "all"]
Limit = Literal[50, 100, 200, 500]
# span → what the page calls it, and seconds; None: no limit
SPANS: dict[Span, tuple[str, int | None]] = {
    "10min": ("10 minutes", 600),
    "1h": ("1 hour", 3600),
    "24h": ("24 hours", 86400),
    "7d": ("7 days", 7 * 86400),
    "all": ("as far back as it goes", None),
}
LIMITS: tuple[Limit, ...] = get_args(Limit)


class BadInput(Exception):
    """A value that the user has typed is not valid: FIELD, and the code and parameters of a message."""

    def __init__(self, field: str, code: str, **parameters: Any) -> None:
        super().__init__(code)
        self.field = field
        self.code = code
        self.parameters = parameters


def _checked(wanted: type[Struct], code: str, **values: Any) -> Any:
    """VALUES as a request of type WANTED. Raises BadInput."""
    try:
        return schema.convert(values, wanted)
    except msgspec.ValidationError as error:
        raise BadInput(next(iter(values)), code) from error


def board_name(typed: str) -> str:
    """The host name in TYPED. Raises BadInput."""
    found: SetHostName = _checked(SetHostName, "board-name-rule", hostname=typed.strip())
    return found.hostname


def time_zone(typed: str) -> str:
    found: SetTimeZone = _checked(SetTimeZone, "time-zone-rule", zone=typed.strip())
    return found.zone


def time_servers(typed: str) -> list[str]:
    """The servers in TYPED, which whitespace or commas separate. Raises BadInput."""
    servers = list(dict.fromkeys(part for part in re.split(r"[\s,]+", typed) if part))
    found: SetTimeServers = _checked(SetTimeServers, "time-servers-rule", servers=servers)
    return list(found.servers)


def local_time(at: int, offset_s: int) -> str:
    """The time AT in a zone with this offset, such as 2026-11-26 11:00:00 (UTC+01:00)."""
    sign, minutes = "−" if offset_s < 0 else "+", abs(offset_s) // 60
    shown = times.moment(at + offset_s)
    return f"{shown} (UTC{sign}{minutes // 60:02}:{minutes % 60:02})"


def time_left(found: Certificate, now: int) -> tuple[str, str]:
    """How long the certificate is valid, and the class of its pill. SOON_DAYS before the end, somebody must renew it."""
    if now < found.not_before:
        return "bad", "not valid yet"
    days = (found.not_after - now) // DAY
    if days < 0:
        return "bad", "expired"
    return ("wait" if days < SOON_DAYS else "ok"), f"{days} {'day' if days == 1 else 'days'} left"


class JournalQuery(Struct, frozen=True):
    """What the URL of the journal asks for."""

    unit: Annotated[
        str,
        Meta(
            max_length=255,
            pattern=UNIT,
            description="name of a unit, or `kernel` for the kernel; empty: the whole board",
            extra={"refusal": "unit-rule"},
        ),
    ] = ""
    priority: Annotated[
        Priority, Meta(description="only lines of this priority and of higher ones", extra={"what": "lines"})
    ] = "info"
    span: Annotated[Span, Meta(description="time before `end`", extra={"what": "time"})] = "24h"
    end: Annotated[
        str,
        Meta(
            pattern=rf"^({TIME})?$(?!\n)",
            description="time of the last line, in UTC, such as `2026-11-25 10:00`; empty: now",
            examples=["2026-11-25 10:00"],
            extra={"refusal": "bad-time"},
        ),
    ] = ""
    limit: Annotated[
        Limit, Meta(description="number of lines; of more lines, the newest ones", extra={"what": "at most"})
    ] = 50

    def request(self, now: float) -> ReadJournal:
        """The request for the agent. Raises BadParameter."""
        try:
            end = parse_time("end", self.end) if self.end else ""
        except BadDownload as error:
            raise BadParameter("end", texts.text("bad-time", typed=self.end[:SHOWN])) from error
        seconds = SPANS[self.span][1]
        start = "" if seconds is None else times.iso(max(_at(end) if end else now, seconds) - seconds)
        return ReadJournal(self.unit, self.priority, start, end, self.limit)

    def older(self, journal: Journal) -> str:
        """The query of the page with older lines; "" if there are none.

        The end of the range has whole seconds. So the next page repeats lines of the same second, and skips none. If a
        whole page is from one second, the rest of that second is skipped: otherwise the pages would never go on.
        """
        if not journal.more or not journal.lines:
            return ""
        end = times.iso(math.ceil(journal.lines[0].at))
        if self.end and end >= parse_time("end", self.end):
            end = times.iso(math.ceil(journal.lines[0].at) - 1)
        values = {name: getattr(self, name) for name in self.__struct_fields__} | {"end": end}
        usual = JournalQuery()
        return urlencode({name: value for name, value in values.items() if value != getattr(usual, name)})


def _at(moment: str) -> float:
    return timegm(time.strptime(moment, "%Y-%m-%dT%H:%M:%SZ"))
