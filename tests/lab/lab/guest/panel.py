# SPDX-License-Identifier: Apache-2.0
"""Runs on the board: measures the panel on the board's own clock."""

from __future__ import annotations

import gzip
import http.client
import importlib.util
import json
import re
import shutil
import ssl
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from onboard import main, run, step  # type: ignore[import-not-found]  # noqa: E402
from visitor import Visitor  # type: ignore[import-not-found]  # noqa: E402

CGROUPS = Path("/sys/fs/cgroup")
HISTORY = Path("/var/lib/evenkeel-history")
UNITS = ("evenkeeld", "evenkeel-history", "evenkeel-panel", "nginx")
STATIC = re.compile(r'(?:src|href)="(/static/[^"]+)"')
HOUR, DAY, YEAR = 3600, 86400, 365 * 86400
# spans that a user can zoom to, each with nearly as many points as a chart can have: age and length
ZOOMED = {
    "hours_ago": (50 * HOUR, 3 * HOUR),
    "days_ago": (20 * DAY, 30 * HOUR),
    "months_ago": (100 * DAY, 8 * DAY),
    "year_ago": (400 * DAY, 95 * DAY),
}
SETTLE_S = 5  # between a change of the load and a measurement
PREPARED_S = 90  # time from the start of the panel until it has read the history in advance


class Answer(NamedTuple):
    """An answer of the panel. TAG: its ETag, "" without one."""

    body: bytes
    tag: str


class Client:
    """One connection to the panel, as a browser keeps it open. COOKIE: of a session."""

    def __init__(self, cookie: str) -> None:
        # the board made its own certificate
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        self._link = http.client.HTTPSConnection("127.0.0.1", 443, context=context, timeout=60)
        self._headers = {"Cookie": cookie, "Accept-Encoding": "gzip"}
        self._link.connect()

    def get(self, path: str, accepted: Iterable[int] = (200,), **headers: str) -> Answer:
        self._link.request("GET", path, headers={**self._headers, **headers})
        answer = self._link.getresponse()
        body = answer.read()
        if answer.status not in accepted:
            raise RuntimeError(f"{path}: status {answer.status}")
        return Answer(body, answer.headers.get("ETag", ""))


def timed(client: Client, path: str) -> tuple[float, bytes]:
    """The time from the request to the end of the answer, ms; the answer."""
    began = time.monotonic()
    answer = client.get(path)
    return (time.monotonic() - began) * 1000, answer.body


def folder(unit: str) -> Path:
    """The cgroup of a unit."""
    return CGROUPS / str(run("systemctl", "show", "-P", "ControlGroup", f"{unit}.service")).lstrip("/")


def cpu_s(units: Iterable[str]) -> float:
    """The processor time that the units have used, s."""
    found = 0
    for unit in units:
        text = (folder(unit) / "cpu.stat").read_text()
        found += int(dict(line.split() for line in text.splitlines())["usage_usec"])
    return found / 1e6


def memory() -> dict[str, dict[str, int]]:
    """Resident and proportional memory of each unit's processes, KiB."""
    found = {}
    for unit in UNITS:
        sums = {"Rss": 0, "Pss": 0}
        for pid in (folder(unit) / "cgroup.procs").read_text().split():
            for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
                key, _, rest = line.partition(":")
                if key in sums:
                    sums[key] += int(rest.split()[0])
        found[unit] = sums
    return found


def exposure(unit: str) -> float:
    """The exposure level of a unit by systemd, from 0 (safe) to 10."""
    text = run("systemd-analyze", "security", "--no-pager", f"{unit}.service")
    level = re.search(r"Overall exposure level for .*: ([0-9.]+)", text)
    if level is None:
        raise RuntimeError(f"systemd-analyze gives no level for {unit}: {text[-200:]}")
    return float(level[1])


def fill() -> int:
    """Give the board a history of two years. Returns its end."""
    from evenkeel_history.store import Store  # type: ignore[import-not-found,unused-ignore]
    from evenkeel_history.tiers import DAY, slot  # type: ignore[import-not-found,unused-ignore]

    # A module of the component's tests, which a board does not have.
    spec = importlib.util.spec_from_file_location("evenkeel_history.testing", HERE / "history_testing.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    end: int = slot(int(time.time()), 4 * DAY)
    run("systemctl", "stop", "evenkeel-history")
    for file in HISTORY.glob("history.db*"):
        file.unlink()
    store = Store(HISTORY)
    store.open()
    module.fill(store, end, kinds=3)  # as slow to read as 12 kinds of rows, and sooner made
    store.close()
    for file in HISTORY.glob("history.db*"):
        shutil.chown(file, "evenkeel-history", "evenkeel-history")
    run("systemctl", "start", "evenkeel-history")
    return end


def log_in() -> str:
    """Log in as the administrator. Returns the cookie."""
    visitor = Visitor(443)
    visitor.first_log_in(json.loads(run("ekctl", "first-password", "--json"))["password"])
    return str(visitor.cookies)


def sizes(client: Client, pages: Mapping[str, bytes]) -> dict[str, dict[str, int]]:
    """Bytes of each page with its static files: as the board sends them, and with the page compressed."""
    known: dict[str, int] = {}
    found = {}
    for path, page in pages.items():
        addresses = set(STATIC.findall(page.decode()))
        known |= {address: len(client.get(address).body) for address in addresses - known.keys()}
        static = sum(known[address] for address in addresses)
        found[path] = {"sent": len(page) + static, "gzip": len(gzip.compress(page, 6)) + static}
    return found


def busy_ms(device: str) -> int:
    """How long the device has had requests, ms."""
    return int(Path(f"/sys/block/{device}/stat").read_text().split()[9])


def polls(cookie: str, pages: int, seconds: int, live: str) -> float:
    """The processor time of all units while PAGES open pages poll each second, s."""
    clients = [Client(cookie) for _ in range(pages)]
    tags = [client.get(live).tag for client in clients]
    before, began = cpu_s(UNITS), time.monotonic()
    for tick in range(seconds):
        for number, client in enumerate(clients):
            time.sleep(max(0.0, began + tick + number / pages - time.monotonic()))
            headers = {"HX-Request": "true", "If-None-Match": tags[number]}
            tags[number] = client.get(live, (200, 304), **headers).tag
    time.sleep(max(0.0, began + seconds - time.monotonic()))
    return cpu_s(UNITS) - before


def views(
    client: Client, addresses: Mapping[str, str], rounds: int, pause_s: float = 0
) -> tuple[dict[str, list[float]], dict[str, bytes]]:
    """The times of each view, ms, the first request of all views first, and its last answer."""
    times: dict[str, list[float]] = {path: [] for path in addresses}
    bodies: dict[str, bytes] = {}
    for path, address in addresses.items():
        ms, bodies[path] = timed(client, address)
        times[path].append(ms)
    for _ in range(rounds):
        for path, address in addresses.items():
            time.sleep(pause_s)
            ms, bodies[path] = timed(client, address)
            times[path].append(ms)
    return times, bodies


def sampling(seconds: int) -> dict[str, float]:
    """The processor time of each unit in the next seconds, s."""
    before = {unit: cpu_s([unit]) for unit in UNITS}
    time.sleep(seconds)
    return {unit: cpu_s([unit]) - before[unit] for unit in UNITS}


def measure(plan: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The sections of the report by name, each as soon as it is measured."""
    step("fill the history")
    end = fill()
    moments = {
        "end": end, "hour": end - HOUR, "hours": end - 2 * HOUR, "middle": end - YEAR, "start": end - 2 * YEAR,
    }  # fmt: skip
    for name, (age, length) in ZOOMED.items():
        moments |= {name: end - age - length, f"{name}_end": end - age}
    own, charts, zooms = (
        {path: path.format(**moments) for path in plan[kind]} for kind in ("pages", "charts", "zooms")
    )
    # A panel that starts finds the history of a board that has been in use for two years.
    run("systemctl", "restart", "evenkeel-panel")
    time.sleep(PREPARED_S)
    step("log in")
    cookie = log_in()
    client = Client(cookie)
    step("start the apps")
    run("dd", "if=/dev/zero", f"of={HERE}/load", "bs=1M", f"count={plan['load_mb']}", "conv=fsync")
    run("systemctl", "start", *plan["apps"])
    time.sleep(SETTLE_S)
    step("pages")
    busy, began = busy_ms(plan["device"]), time.monotonic()
    times, bodies = views(client, own, plan["rounds"], plan["pause_s"])
    # the first request loads templates
    yield "pages", {path: later for path, (_, *later) in times.items()}
    yield "busy", (busy_ms(plan["device"]) - busy) / (time.monotonic() - began) / 10
    step("charts")
    times, more = views(client, charts, plan["repeats"])
    yield "charts", times
    step("zooms")
    yield "zooms", views(client, zooms, 1)[0]
    yield (
        "bytes",
        sizes(client, {path: body for path, body in (bodies | more).items() if ".csv?" not in path}),
    )
    yield "memory", memory()
    step("sampling")
    time.sleep(SETTLE_S)
    yield "sampling", sampling(plan["sampling_s"])
    step("open pages")
    yield "live", [polls(cookie, count, plan["live_s"], plan["live"]) for count in plan["live_pages"]]
    step("exposure")
    yield "exposure", {unit: exposure(unit) for unit in UNITS}


if __name__ == "__main__":
    main(measure)
