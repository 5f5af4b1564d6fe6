# SPDX-License-Identifier: Apache-2.0
"""What the panel costs on a whole board (lab/onboard.py): times of its pages, bytes, memory, and processor time.

All figures come from one start of the board, whose flash is the model emmc51.

- 16 apps have I/O in each second. The first keeps the flash busy with 32 requests of 64 KiB, half of them writes.
- The history has two years in which 16 apps were busy all the time (evenkeel_history.testing).
- A client on the board itself requests the pages on one open connection. Its times include nginx with TLS, the panel,
  the agent, and the client's own work.
- The panel does not compress pages, because they contain secrets and text from others (BREACH). `gzip` is what a page
  would have if it were compressed, with its static files, which nginx does compress. `sent` is what the board sends.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from lab import onboard
from lab.kernels import TOP
from lab.model import Experiment, Figure, Output

# The pages that an administrator sees, each with the view that it opens with. {end} is the end of the generated history;
# guest/panel.py has the other times.
PAGES = (
    "/", "/account", "/alerts", "/apps", "/apps/add", "/audit", "/cache", "/history",
    "/history/compare?start={hours}&end={hour}&start2={hour}&end2={end}", "/network", "/password", "/recorder", "/setup",
    "/system", "/system/journal", "/system/restart", "/update", "/users", "/validation", "/validation/plan", "/wear",
)  # fmt: skip
SPANS = ("10m", "1h", "6h", "1d", "7d", "30d", "90d", "1y", "2y")
APPS = [f"app-{number:02}" for number in range(16)]
# the charts of a board that has been in use for two years
CHARTS = (
    *(f"/history?span={span}&end={{end}}" for span in SPANS),
    f"/history?span=2y&end={{end}}&app={APPS[3]}",
    "/history/compare?start={start}&end={middle}&start2={middle}&end2={end}",
    "/history/heat-map.csv?span=2y&end={end}",
    "/wear?days=90",
)
# of spans that the panel did not prepare: of minutes, 10 minutes, hours, and 12 hours
ZOOMS = tuple(
    f"/history?start={{{name}}}&end={{{name}_end}}"
    for name in ("hours_ago", "days_ago", "months_ago", "year_ago")
)
# the time at which the board starts, seconds since 1970: two minutes after the end of the generated history
NOW = 5205 * 4 * 86400 + 120
# MiB of the file that the apps share, of which each has a part
PART_MB = 8
PLAN: dict[str, Any] = {
    "device": onboard.NAME,
    "pages": PAGES,
    "charts": CHARTS,
    "zooms": ZOOMS,
    "apps": APPS,
    "load_mb": PART_MB * len(APPS),
    "rounds": 4,
    "repeats": 2,
    "pause_s": 0.05,
    "sampling_s": 60,
    "live": "/overview/rows",
    "live_pages": (1, 50),
    "live_s": 30,
}
SERVICES = {"evenkeeld": "agent", "evenkeel-history": "history", "evenkeel-panel": "panel", "nginx": "nginx"}


def _load(number: int) -> str:
    """The fio job of an app. The first app keeps the flash busy; the others have 20 requests a second."""
    how = "--bs=64k --iodepth=32" if number == 0 else "--bs=16k --iodepth=1 --rate_iops=10,10"
    return (
        f"fio --name=load --filename={onboard.DATA}/load --offset={number * PART_MB}m --size={PART_MB}m --direct=1"
        f" --ioengine=libaio --rw=randrw {how} --time_based --runtime=36000 --eta=never --zero_buffers --thread"
        f" --random_generator=tausworthe64 --randseed={number + 1}"
    )


def files() -> dict[str, str]:
    """The files of the data partition, below /data; etc/1/upper there is the board's /etc."""
    found = {
        **onboard.files("panel", PLAN),
        f"{onboard.DATA}/visitor.py": (TOP / "tests/visitor.py").read_text(),
        f"{onboard.DATA}/history_testing.py": (
            TOP / "recipes/history/src/evenkeel_history/testing.py"
        ).read_text(),
    }
    for number, app in enumerate(APPS):
        found[f"/data/etc/1/upper/systemd/system/{app}.service"] = (
            f"[Unit]\nDescription=Load {number}\n\n[Service]\nSlice=evenkeel-apps.slice\n"
            f"ExecStart={_load(number)}\nStandardOutput=null\n"
        )
        found[f"/data/etc/1/upper/evenkeel/apps.d/{app}.toml"] = f'title = "{app}"\nunit = "{app}.service"\n'
    return found


def percentile(values: Iterable[float], percent: float) -> float:
    """The smallest of the values that at least `percent` of them do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(percent / 100 * len(ordered)) - 1)]


def _section(out: Output, name: str) -> Any:
    return json.loads(out.results[name])


def pages(out: Output) -> list[Figure]:
    found = _section(out, "pages")
    times = [ms for of_page in found.values() for ms in of_page]
    if set(found) != set(PAGES) or len(times) != len(PAGES) * PLAN["rounds"]:
        raise ValueError(f"{len(times)} times of {len(found)} pages")
    slowest = max(percentile(of_page, 50) for of_page in found.values())
    sizes = _section(out, "bytes").values()
    largest = {of: max(size[of] for size in sizes) for of in ("gzip", "sent")}
    return [
        *(Figure(f"p{p}", round(percentile(times, p), 1), "ms", "lower") for p in (50, 95)),
        Figure("max", round(max(times), 1), "ms", "lower"),
        Figure("slowest-p50", round(slowest, 1), "ms", "lower"),
        Figure("flash-busy", round(_section(out, "busy"), 1), "%"),
        *(Figure(of, round(size / 1e3, 1), "KB", "lower") for of, size in largest.items()),
    ]


def chart(out: Output) -> list[Figure]:
    """The slowest request of any chart: `ms` of the spans that a user can choose, `zoomed` of others.

    The panel reads in advance what it needs for the spans. `again` leaves out the first request of each.
    """
    found, zooms = _section(out, "charts"), _section(out, "zooms")
    if set(found) != set(CHARTS) or set(zooms) != set(ZOOMS):
        raise ValueError(f"{len(found)} charts and {len(zooms)} zooms")
    times = {
        "ms": [ms for of_chart in found.values() for ms in of_chart],
        "again": [ms for _, *later in found.values() for ms in later],
        "zoomed": [ms for of_chart in zooms.values() for ms in of_chart],
    }
    return [Figure(of, round(max(each), 1), "ms", "lower") for of, each in times.items()]


def memory(out: Output) -> list[Figure]:
    found = _section(out, "memory")
    sums = {kind: sum(found[unit][kind] for unit in SERVICES) for kind in ("Rss", "Pss")}
    return [
        *(Figure(kind.lower(), round(kb / 1024, 1), "MB", "lower") for kind, kb in sums.items()),
        *(Figure(f"{name}.pss", round(found[unit]["Pss"] / 1024, 1), "MB", "lower") for unit, name in SERVICES.items()),
    ]  # fmt: skip


def sampling(out: Output) -> list[Figure]:
    used = {SERVICES[unit]: 100 * s / PLAN["sampling_s"] for unit, s in _section(out, "sampling").items()}
    return [
        Figure("cpu", round(used["agent"] + used["history"], 2), "%", "lower"),
        *(Figure(f"{name}.cpu", round(used[name], 2), "%", "lower") for name in ("agent", "history")),
    ]


def live(out: Output) -> list[Figure]:
    one, many = (100 * s / PLAN["live_s"] for s in _section(out, "live"))
    return [
        Figure("cost", round(many - one, 2), "%", "lower"),
        Figure("one", round(one, 2), "%", "lower"),
        Figure("many", round(many, 2), "%", "lower"),
    ]


def exposure(out: Output) -> list[Figure]:
    return [Figure(SERVICES[unit], level, "", "lower") for unit, level in _section(out, "exposure").items()]


def experiment(name: str, about: str, figures: Callable[[Output], Sequence[Figure]]) -> Experiment:
    # All experiments have the same guest, so the lab starts the board only once.
    return onboard.experiment(
        f"panel.{name}", about, figures, of="panel", files=files(), device=onboard.flash("emmc51"), now=NOW
    )


EXPERIMENTS = [
    experiment("pages", "times and sizes of the panel's pages while 16 apps keep the flash busy", pages),
    experiment("chart", "the slowest chart of two years of history while 16 apps keep the flash busy", chart),
    experiment("memory", "memory of agent, history, panel and nginx", memory),
    experiment(
        "sampling",
        "processor time of agent and history with 16 apps, while nobody has the panel open",
        sampling,
    ),
    experiment("live", "processor time of 50 open pages compared with one", live),
    experiment("exposure", "exposure of the services by systemd, from 0 (safe) to 10", exposure),
]
