# SPDX-License-Identifier: Apache-2.0
"""The data of the recorder page and of /recorder.json: one struct for both. Also the values of the download form."""

from __future__ import annotations

import re
import time
from calendar import timegm
from typing import TYPE_CHECKING, Annotated

from evenkeel_api.schema import Struct
from msgspec import Meta

from .. import texts, times

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from evenkeel_api.features.recorder import Channel, Recorder

# state → class of its pill, and what the page calls it
STATES = {
    "running": ("ok", "running"),
    "silent": ("bad", "does not respond"),
    "starting": ("wait", "starting"),
    "restarting": ("bad", "has failed, starts again"),
    "failed": ("bad", "has failed"),
    "stopped": ("off", "stopped"),
    "not-installed": ("off", "not installed"),
    "unknown": ("wait", "not known"),
    "no-answer": ("bad", "no answer"),
}
CHANNEL_STATES = {
    "recording": ("ok", "recording"),
    "preparing": ("wait", "preparing"),
    "failed": ("bad", "does not record"),
    "not-configured": ("off", "not set up"),
}
# what to do, by state; the problems that the agent reports have their own remedies
ADVICE = {
    "starting": "recorder-starting",
    "stopped": "recorder-stopped",
    "not-installed": "recorder-not-installed",
    "unknown": "recorder-unknown",
}
# choices of the download form: name → seconds before now, and what the page calls it
SPANS = {
    "5min": (300, "the last 5 minutes"),
    "1h": (3600, "the last hour"),
    "24h": (86400, "the last 24 hours"),
    "all": (None, "everything"),
    "times": (None, "from … to …"),
}
FORMATS = {
    "mcap": "MCAP, for robotics tools",
    "csv-text": "CSV, records as text",
    "csv-hex": "CSV, records as hexadecimal digits",
}
TIME = r"([0-9]{4}-[0-9]{2}-[0-9]{2})([T ]([0-9]{2}:[0-9]{2})(:[0-9]{2})?(\.[0-9]+)?)? ?(Z|UTC)?"


class BadDownload(ValueError):
    """The form of a download has a bad value. str() says which, and what to enter."""

    def __init__(self, field: str, code: str, /, **parameters: object) -> None:
        super().__init__(texts.text(code, **parameters))
        self.field = field


class ChannelFigures(Struct, frozen=True):
    """A channel as the page shows it. Times are in seconds, moments in seconds since 1970; null: none or not known."""

    name: str
    state: str
    reason: str
    connected: bool
    records: int
    payload_bytes: int
    written_bytes: int
    lost: Annotated[int, Meta(description="records; a loss whose size is unknown counts as none")]
    lost_unknown: Annotated[int, Meta(description="losses whose size is unknown")]
    losses: Annotated[list[str], Meta(description="a phrase for each reason")]
    late: int
    write_errors: int
    record_p99_us: int | None
    record_max_us: int | None
    write_p99_us: int | None
    write_max_us: int | None
    window_s: float
    flushed_s: float | None
    backlog_percent: int
    used_bytes: int
    wanted_bytes: int
    oldest_at: float | None
    newest_at: float | None
    readable: bool


class IncidentFigures(Struct, frozen=True):
    name: str
    channel: str
    used_bytes: int
    oldest_at: float | None
    newest_at: float | None


class RecorderPage(Struct, frozen=True):
    """STATE: a state of the agent's Recorder, or `no-answer`. `losses`: a sentence about all channels."""

    state: str
    reason: Annotated[str, Meta(description="why there is no answer")]
    advice: str
    configuration: str
    problems: list[str]
    started_at: float | None
    losses: str
    channels: list[ChannelFigures]
    incidents: list[IncidentFigures]
    partition_bytes: int
    free_bytes: int
    listed_at: float | None
    listing_problem: str


def page_data(recorder: Recorder | None, reason: str = "") -> RecorderPage:
    """RECORDER is None if the agent does not answer, for the sentence REASON."""
    if recorder is None:
        return RecorderPage("no-answer", reason, "", "", [], None, "", [], [], 0, 0, None, "")
    channels = [_channel(channel) for channel in recorder.channels]
    configuration = recorder.configuration
    code = ADVICE.get(recorder.state)
    return RecorderPage(
        state=recorder.state,
        reason="",
        advice=texts.text(code) if code else "",
        configuration=texts.text("recorder-configuration", reason=configuration) if configuration else "",
        problems=[texts.sentence(note) for note in recorder.problems],
        started_at=recorder.started_at or None,
        losses=_losses(recorder, channels),
        channels=channels,
        incidents=[
            IncidentFigures(i.name, i.channel, i.used_bytes, i.oldest_at or None, i.newest_at or None)
            for i in recorder.incidents
        ],
        partition_bytes=recorder.partition_bytes,
        free_bytes=recorder.free_bytes,
        listed_at=recorder.listed_at or None,
        listing_problem=" ".join(texts.sentence(note) for note in recorder.listing_problem),
    )


def _channel(channel: Channel) -> ChannelFigures:
    known = {loss.reason: loss.records for loss in channel.lost}
    unknown = known.get("restart", 0)
    return ChannelFigures(
        name=channel.name,
        state=channel.state,
        reason=channel.reason,
        connected=channel.connected,
        records=channel.records,
        payload_bytes=channel.payload_bytes,
        written_bytes=channel.written_bytes,
        lost=sum(known.values()) - unknown,
        lost_unknown=unknown,
        losses=[texts.phrase(f"lost-{loss.reason}", count=f"{loss.records:,}") for loss in channel.lost],
        late=channel.late,
        write_errors=channel.errors,
        record_p99_us=channel.record_p99_us or None,
        record_max_us=channel.record_max_us or None,
        write_p99_us=channel.write_p99_us or None,
        write_max_us=channel.write_max_us or None,
        window_s=channel.window_s,
        flushed_s=channel.flushed_s if channel.flushed_s >= 0 else None,
        backlog_percent=100 * channel.backlog_bytes // channel.buffer_bytes if channel.buffer_bytes else 0,
        used_bytes=channel.used_bytes,
        wanted_bytes=channel.wanted_bytes,
        oldest_at=channel.oldest_at or None,
        newest_at=channel.newest_at or None,
        readable=channel.readable,
    )


def _losses(recorder: Recorder, channels: Sequence[ChannelFigures]) -> str:
    """What all channels have lost, as a sentence; empty if nothing is recorded."""
    if recorder.state not in ("running", "silent") or not any(c.state != "not-configured" for c in channels):
        return ""
    if any(channel.state == "failed" for channel in channels) and not any(c.losses for c in channels):
        return texts.text("not-all-record")
    lost = sum(channel.lost for channel in channels)
    unknown = sum(channel.lost_unknown for channel in channels)
    since = moment(recorder.started_at) if recorder.started_at else ""
    code = (
        "lost-both"
        if lost and unknown
        else "lost-some"
        if lost
        else "lost-unknown"
        if unknown
        else "lost-none"
    )
    return texts.text(f"{code}-since" if since else code, count=f"{lost:,}", since=since)


def downloadable(page: RecorderPage) -> list[str]:
    """The channels that have a recording, or may have one: the list of recordings may be a minute old."""
    return [c.name for c in page.channels if c.readable and (c.oldest_at or c.records or not page.listed_at)]


def moment(seconds: float) -> str:
    return f"{times.moment(seconds)} UTC"


def parse_time(field: str, typed: str) -> str:
    """A time in UTC, such as 2026-11-25 10:00 or 2026-11-25T10:00:00Z, in the form of the agent. Raises BadDownload.

    A date alone is its first second as a start, and its last second as an end.
    """
    found = re.fullmatch(TIME, typed.strip())
    if not found:
        raise BadDownload(field, "bad-time", typed=typed[:40])
    date, _, minutes, seconds, *_ = found.groups()
    whole = "23:59:59" if minutes is None and field == "end" else f"{minutes or '00:00'}{seconds or ':00'}"
    made = f"{date}T{whole}Z"
    try:
        timegm(time.strptime(made, "%Y-%m-%dT%H:%M:%SZ"))
    except ValueError:
        raise BadDownload(field, "bad-time", typed=typed[:40]) from None
    if whole.endswith(":60") or whole.endswith(":61"):  # strptime accepts leap seconds, ek-recorder does not
        raise BadDownload(field, "bad-time", typed=typed[:40])
    return made


def download_request(
    form: Mapping[str, str], channels: Sequence[str], now: float
) -> tuple[str, str, str, str, list[str]]:
    """The arguments of OpenRecording: start, end, incident, format, channels. Raises BadDownload.

    Times that the user has entered apply instead of the span.
    """
    if not channels:
        raise BadDownload("channel", "no-channel")
    format_ = form.get("format", "mcap")
    if format_ not in FORMATS:
        raise BadDownload("format", "bad-choice", what="format", choices=list(FORMATS))
    span = form.get("span", "all")
    if span not in SPANS:
        raise BadDownload("span", "bad-choice", what="time", choices=list(SPANS))
    if format_ != "mcap" and len(channels) > 1:
        raise BadDownload("format", "one-channel-csv")
    start, end = (
        parse_time(name, form.get(name, "")) if form.get(name, "").strip() else ""
        for name in ("start", "end")
    )
    if span == "times" and not (start or end):
        raise BadDownload("start", "no-time")
    if start and end and start > end:
        raise BadDownload("end", "bad-range", start=start, end=end)
    seconds = SPANS[span][0]
    if seconds is not None and not (start or end):
        start = times.iso(max(now - seconds, 0))
    return start, end, form.get("incident", ""), format_, list(channels)


def file_name(start: str, incident: str, format_: str, channels: Sequence[str], now: float) -> str:
    """A name such as arm-2026-11-25T100000Z.mcap. The channels' names contain only a-z, 0-9 and -."""
    first = channels[0] if len(channels) == 1 else "recording"
    at = (start or times.iso(now)).replace(":", "")
    return "-".join(filter(None, (first, incident, at))) + (".mcap" if format_ == "mcap" else ".csv")
