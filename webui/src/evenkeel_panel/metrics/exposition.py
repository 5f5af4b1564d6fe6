# SPDX-License-Identifier: Apache-2.0
"""The metrics as text in the format OpenMetrics 1.0. Pure functions.

- The units are base units: bytes, seconds, ratios from 0 to 1.
- The number of series is bounded. Labels are apps, devices, directions and codes of problems, never values of requests.
- A value that is not known has no sample. A counter that is not known is not reported as 0, which would be a reset.
- Counters never decrease until the board boots again (evenkeel_history.totals).

docs/reference/metrics.md lists all metrics.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from evenkeel_api.schema import clean
from evenkeel_common.iostat import bucket, time_of
from evenkeel_history.period import SYSTEM
from prometheus_client import CollectorRegistry, Metric
from prometheus_client.openmetrics.exposition import CONTENT_TYPE_LATEST as CONTENT_TYPE
from prometheus_client.openmetrics.exposition import generate_latest
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from ..history.model import DIRECTIONS, SPARE_BLOCKS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from evenkeel_api.features.board import Status
    from evenkeel_common.wear import Wear
    from evenkeel_history.period import Flow, Sum

    from ..board import View

    Rows = Iterable[tuple[dict[str, str], float]]

__all__ = ["CONTENT_TYPE", "families", "text"]

REST = "(rest)"  # the label of everything that is not an app: no app can have this name
# The upper ends of the buckets of latency in µs, 63 µs to 16.8 s. Each is the largest latency of a bucket of the
# scheduler's histogram, so the counts are exact.
BOUNDS_US = [2**bits - 1 for bits in range(6, 25)]
BOUNDS = [
    (bucket(us), str(floatToGoString(us / 1e6)))  # type: ignore[no-untyped-call,unused-ignore]
    for us in BOUNDS_US
]
# counters of Flow: field → (name, unit, what it counts, divisor)
FLOWS = (
    ("bytes", "evenkeel_io", "bytes", "Bytes that were read or written.", 1),
    ("ios", "evenkeel_io_requests", "", "Requests that completed.", 1),
    ("service_us", "evenkeel_io_device", "seconds", "Time that requests were in the device.", 1e6),
    ("wait_us", "evenkeel_io_wait", "seconds", "Time that requests waited before they were in the device.", 1e6),
    ("gates", "evenkeel_io_admission_waits", "", "Requests that had to wait for admission.", 1),
    ("gate_us", "evenkeel_io_admission_wait", "seconds", "Time that requests waited for admission.", 1e6),
)  # fmt: skip


def text(view: View, totals: Sum | None, wear: Mapping[str, Sequence[tuple[int, Wear]]]) -> bytes:
    """The metrics of a board. TOTALS: None if they are not known."""
    registry = CollectorRegistry()
    registry.register(_Fixed(families(view, totals, wear)))
    made: bytes = generate_latest(registry)  # type: ignore[no-untyped-call,unused-ignore]
    return made


class _Fixed(Collector):
    def __init__(self, found: Iterable[Metric]) -> None:
        self._found = list(found)

    def collect(self) -> Iterable[Metric]:
        return self._found


def families(
    view: View, totals: Sum | None, wear: Mapping[str, Sequence[tuple[int, Wear]]]
) -> Iterator[Metric]:
    yield _gauge("evenkeel_agent_up", "Whether the agent answers.", [({}, view.live)])
    yield _gauge("evenkeel_history_up", "Whether the history service answers.", [({}, totals is not None)])
    if view.status:  # a view that is not live has none
        yield from _board(view.status)
        yield from _apps(view)
    if totals is not None:
        yield from _io(totals)
    yield from _wear({device: found[-1][1] for device, found in sorted(wear.items())})


def _board(status: Status) -> Iterator[Metric]:
    yield _info(
        "evenkeel_board",
        "Versions of the board, and the slot that runs.",
        [
            {
                "version": status.version,
                "kernel": status.kernel,
                "slot": status.slot,
                "scheduler": status.scheduler,
            }
        ],
    )
    yield _gauge("evenkeel_board_uptime", "Time since the boot.", [({}, status.uptime_s)], "seconds")
    yield _gauge("evenkeel_problems", "Number of problems of the board.", [({}, len(status.problems))])
    yield _gauge(
        "evenkeel_problem",
        "1 for each kind of problem that the board has now.",
        [({"code": code}, 1) for code in sorted({note.code for note in status.problems})],
    )
    yield _info(
        "evenkeel_device",
        "Model and scheduler of a flash device.",
        [{"device": each.name, "model": each.model, "scheduler": each.scheduler} for each in status.devices],
    )
    sizes = [({"device": each.name}, each.size_bytes) for each in status.devices]
    yield _gauge("evenkeel_device_size", "Capacity of a flash device.", sizes, "bytes")


def _apps(view: View) -> Iterator[Metric]:
    def of_apps(name: str, what: str, values: Iterable[float | None], unit: str = "") -> Metric:
        rows = zip(view.apps, values, strict=True)
        return _gauge(
            name, what, [({"app": app.name}, value) for app, value in rows if value is not None], unit
        )

    apps = view.apps
    yield _info(
        "evenkeel_app",
        "Title and unit of an app.",
        [{"app": app.name, "title": app.title, "unit": app.unit} for app in apps],
    )
    yield of_apps("evenkeel_app_running", "Whether the app runs.", (a.active_state == "active" for a in apps))
    yield of_apps("evenkeel_app_weight", "Saved weight, 1 to 10000.", (a.weight for a in apps))
    yield of_apps("evenkeel_app_weight_applied", "Whether the weight is in force.", (a.applied for a in apps))
    yield of_apps(
        "evenkeel_app_fixed_share",
        "Saved fixed share; 0: none.",
        (a.fixed_share / 100 for a in apps),
        "ratio",
    )
    yield of_apps(
        "evenkeel_app_fixed_share_applied",
        "Whether the fixed share is in force.",
        (a.fixed_share_applied for a in apps),
    )
    yield of_apps(
        "evenkeel_app_fixed_share_used",
        "Used part of the fixed share over the last 3 s.",
        (_known(a.fixed_share_used) for a in apps),
        "ratio",
    )
    yield of_apps(
        "evenkeel_app_fixed_share_late",
        "Part of the requests with a fixed share that were late over the last 3 s.",
        (_known(a.fixed_share_late) for a in apps),
        "ratio",
    )
    yield of_apps(
        "evenkeel_app_fixed_share_behind",
        "Whether the scheduler fails to deliver the fixed share.",
        (a.fixed_share_behind for a in apps),
    )


def _io(totals: Sum) -> Iterator[Metric]:
    flows = [
        ({"app": _app(app), "device": device, "direction": DIRECTIONS[direction]}, flow)
        for (app, device, direction), flow in sorted(totals.flows.items())
    ]
    for field, name, unit, what, divisor in FLOWS:
        yield _counter(name, what, [(labels, getattr(flow, field) / divisor) for labels, flow in flows], unit)
    yield _latency(flows)
    yield _counter(
        "evenkeel_io_slowed",
        "Time that requests of an app waited while the device served the app in the label cause.",
        [
            ({"app": _app(victim), "cause": _app(cause)}, us / 1e6)
            for (victim, cause), us in sorted(totals.blame.items())
        ],
        "seconds",
    )
    stalls = sorted(totals.stalls.items())
    yield _counter(
        "evenkeel_app_stalls",
        "Stalls that the app reported about itself.",
        [({"app": _app(app)}, count) for app, (count, _) in stalls],
    )
    yield _counter(
        "evenkeel_app_stall",
        "Duration of these stalls.",
        [({"app": _app(app)}, ms / 1e3) for app, (_, ms) in stalls],
        "seconds",
    )
    yield _counter(
        "evenkeel_sampled", "Time in which the I/O was counted.", [({}, totals.ms / 1e3)], "seconds"
    )


def _latency(flows: Iterable[tuple[dict[str, str], Flow]]) -> Metric:
    """The histogram of latencies. Its sum has an error of at most 1/16; its buckets are exact."""
    name = "evenkeel_io_latency_seconds"
    metric = Metric(
        name, "Latency of requests as the app sees it, from tag to completion.", "histogram", "seconds"
    )
    for labels, flow in flows:
        count, left = 0, sorted(flow.latency.items(), reverse=True)
        for last, bound in BOUNDS:
            while left and left[-1][0] <= last:
                count += left.pop()[1]
            _add(metric, "_bucket", {**labels, "le": bound}, count)
        count += sum(more for _, more in left)
        _add(metric, "_bucket", {**labels, "le": "+Inf"}, count)
        _add(metric, "_count", labels, count)
        _add(metric, "_sum", labels, time_of(flow.latency) / 1e6)
    return metric


def _wear(states: Mapping[str, Wear]) -> Iterator[Metric]:
    lives = ((device, state.life_used) for device, state in states.items())
    yield _gauge(
        "evenkeel_device_life_used",
        "Used part of the life of a flash device, as it reports it: upper end of its range.",
        [({"device": device}, percent / 100) for device, percent in lives if percent is not None],
        "ratio",
    )
    yield _gauge(
        "evenkeel_device_spare_blocks",
        "1 for the state of the spare blocks that a flash device reports, 0 for the other states.",
        [
            ({"device": device, "state": state}, state == found.pre_eol)
            for device, found in states.items()
            if found.pre_eol
            for state in SPARE_BLOCKS
        ],
    )


def _known(value: float) -> float | None:
    """The agent reports -1 for a value that is not known."""
    return None if value < 0 else value


def _app(name: str) -> str:
    return REST if name == SYSTEM else name


def _add(metric: Metric, suffix: str, labels: Mapping[str, str], value: float) -> None:
    metric.add_sample(metric.name + suffix, {key: clean(text) for key, text in labels.items()}, float(value))


def _made(kind: str, suffix: str, name: str, what: str, rows: Rows, unit: str = "") -> Metric:
    metric = Metric(name, what, kind, unit)
    for labels, value in rows:
        _add(metric, suffix, labels, value)
    return metric


def _gauge(name: str, what: str, rows: Rows, unit: str = "") -> Metric:
    return _made("gauge", "", name, what, rows, unit)


def _counter(name: str, what: str, rows: Rows, unit: str = "") -> Metric:
    return _made("counter", "_total", name, what, rows, unit)


def _info(name: str, what: str, rows: Iterable[dict[str, str]]) -> Metric:
    return _made("info", "_info", name, what, ((labels, 1) for labels in rows))
