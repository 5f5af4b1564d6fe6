# SPDX-License-Identifier: Apache-2.0
"""Loads in groups: the commands for systemd, windows, and what a failed load means."""

import shlex
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import fake_board as board
import pytest
from evenkeel_validate import loads
from evenkeel_validate.errors import DeviceGone, Stopped, ValidateError
from evenkeel_validate.loads import Load, Runner, Scopes, Ungrouped


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    return board.make_tree(tmp_path) / "block" / board.DISK


def program(text: str) -> list[str]:
    return [sys.executable, "-S", "-c", text]


class Counted(Ungrouped):
    """Loads whose counters are files that they write themselves, in group/NAME."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def group(self, load: Load) -> Path | None:
        return self.root / load.name


def counting(path: Path, rate: float, block: int = 1) -> list[str]:
    """A program that writes RATE bytes per second. The group PATH submits them in blocks of BLOCK."""
    path.mkdir(parents=True, exist_ok=True)
    return program(
        f"""
import os, time
begin = time.monotonic()
while True:
    moved = int((time.monotonic() - begin) * {rate})
    for name, count in (("io.evenkeel.stat", moved), ("io.stat", (moved // {block} + 1) * {block})):
        with open({str(path)!r} + "/new", "w") as file:
            file.write(f"{board.NUMBER} rbytes=0 wbytes={{count}}\\n")
        os.replace({str(path)!r} + "/new", {str(path)!r} + "/" + name)
    time.sleep(0.001)
"""
    )


def runner(tmp_path: Path, disk: Path, launcher: Any, check: Callable[[], None] = lambda: None) -> Runner:
    (tmp_path / "scratch").mkdir(exist_ok=True)
    return Runner(launcher, disk, board.NUMBER, tmp_path / "scratch", check)


@pytest.mark.parametrize(("scheduler", "dispatched"), [("[evenkeel] bfq", True), ("evenkeel [bfq]", False)])
def test_the_window_has_what_the_scheduler_dispatched(
    tmp_path: Path, disk: Path, scheduler: str, dispatched: bool
) -> None:
    """One I/O is larger than all that is moved in the window, so the submitted bytes do not change."""
    (disk / "queue/scheduler").write_text(scheduler)
    load = Load("a", counting(tmp_path / "a", 1e6, 10**9), moves=True)
    window = runner(tmp_path, disk, Counted(tmp_path)).run([load], settle=0.5, seconds=0.5)
    assert window.dispatched == dispatched
    assert (window.written["a"] > 0) == dispatched
    assert window.total_written == 10**9


def test_a_load_that_ends_keeps_its_bytes(tmp_path: Path, disk: Path) -> None:
    """Its group disappears. The other load counts far less, and the window ends with the first one."""
    counted, long_ = Counted(tmp_path), Load("b", counting(tmp_path / "b", 1e3))
    ends = counting(tmp_path / "a", 1e6)[-1] + "    if moved > 1_000_000:\n        break\n"
    gone = f"import shutil\nshutil.rmtree({str(tmp_path / 'a')!r})\n"
    short = Load("a", program(ends + gone), lasting=False, moves=True)
    window = runner(tmp_path, disk, counted).run([short, long_], settle=0.1, seconds=60, limit=10**9)
    assert not (tmp_path / "a").exists()
    assert window.written["a"] > 0
    # without the bytes of the first load, it would take the other one minutes
    assert window.total_written > 300_000


def test_each_load_is_a_scope_with_a_weight(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commands: list[Sequence[str]] = []
    monkeypatch.setattr(loads, "_start", lambda command, log: commands.append(command))
    scopes, load = Scopes(tmp_path), Load("a", ["fio", "x"], 200)
    for _ in range(2):
        scopes.start(load, tmp_path / "log")
        unit = commands[-1][4].removeprefix("--unit=")
        assert scopes.group(load) == tmp_path / "evenkeel.slice" / loads.SLICE / unit
    first, second = commands
    assert first[:2] == ["systemd-run", "--scope"]
    assert {
        "--slice=evenkeel-validate.slice",
        "--property=IOWeight=200",
        "--property=IOAccounting=yes",
    } <= set(first)
    assert list(first[-3:]) == ["--", "fio", "x"]
    # systemd may still have the scope of the first start
    assert first[4] != second[4]


class Systemd:
    """A fake systemctl. `watchdogs`: WatchdogUSec by unit."""

    def __init__(self, watchdogs: Mapping[str, str], active: str = "active") -> None:
        self.calls: list[tuple[str, ...]] = []
        self.watchdogs, self.active = watchdogs, active

    def __call__(self, *arguments: str) -> str:
        self.calls.append(arguments)
        if arguments[0] == "is-active":
            return f"{self.active}\n"
        return "\n".join(f"Id={u}\nWatchdogUSec={w}\n" for u, w in self.watchdogs.items() if u in arguments)


def test_apps_with_a_watchdog_are_not_paused(tmp_path: Path) -> None:
    apps = tmp_path / "evenkeel.slice/evenkeel-apps.slice"
    systemd = Systemd({"a.service": "infinity", "b.service": "10s", "c.service": "0", "inner.service": "1s"})
    scopes = Scopes(tmp_path, systemd)
    assert scopes.obstacle("evenkeel-apps.slice") == ""
    assert systemd.calls == []
    # an app may have services of its own inside, which are no units of the board
    for name in ("a.service/inner.service", "evenkeel-apps-x.slice/c.service", "d.scope/inner.service"):
        (apps / name).mkdir(parents=True)
    assert scopes.obstacle("evenkeel-apps.slice") == ""
    assert systemd.calls == [("show", "--property=Id,WatchdogUSec", "--", "a.service", "c.service")]
    (apps / "evenkeel-apps-x.slice/b.service").mkdir()
    assert "WatchdogSec= of b.service" in scopes.obstacle("evenkeel-apps.slice")


@pytest.mark.parametrize("order", ["freeze", "thaw"])
def test_a_slice_that_has_no_unit_needs_no_order(tmp_path: Path, order: str) -> None:
    for active, orders in (("active", [(order, "x.slice")]), ("inactive", [])):
        systemd = Systemd({}, active)
        getattr(Scopes(tmp_path, systemd), order)("x.slice")
        assert systemd.calls == [("is-active", "x.slice"), *orders]


def test_without_systemd_apps_are_not_paused() -> None:
    assert "needs systemd and root" in Ungrouped().obstacle("x.slice")


def test_a_window_counts_what_each_group_moves(tmp_path: Path, disk: Path) -> None:
    both = [
        Load("a", counting(tmp_path / "a", 20e6), 200, moves=True),
        Load("b", counting(tmp_path / "b", 10e6), moves=True),
    ]
    window = runner(tmp_path, disk, Counted(tmp_path)).run(both, settle=0.3, seconds=0.7)
    assert window.seconds == pytest.approx(0.7, abs=0.1)
    assert window.mbps("a") == pytest.approx(20, rel=0.25)
    assert window.mbps("b") == pytest.approx(10, rel=0.25)
    assert window.total_written >= 30e6 * 0.6
    assert not window.early


def test_a_window_waits_for_a_load_that_starts_late(
    tmp_path: Path, disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a busy board, a program takes seconds to start. A window without it would have no figures."""
    late = Load("a", ["sh", "-c", f"sleep 1; exec {shlex.join(counting(tmp_path / 'a', 20e6))}"], moves=True)
    window = runner(tmp_path, disk, Counted(tmp_path)).run([late], settle=0.1, seconds=0.5)
    assert window.written["a"] > 0
    monkeypatch.setattr(loads, "START_S", 0.5)
    silent = Load("b", program("import time; time.sleep(60)"), moves=True)
    with pytest.raises(ValidateError, match="no I/O of b within 0 s: the board is too busy"):
        runner(tmp_path, disk, Counted(tmp_path)).run([silent], settle=0.1, seconds=0.5)


def test_a_window_knows_what_other_programs_move(tmp_path: Path, disk: Path) -> None:
    load = Load("a", counting(tmp_path / "a", 20e6))
    run = runner(tmp_path, disk, Counted(tmp_path))
    assert not run.run([load], settle=0.1, seconds=0.3).disturbed
    stat = "0 0 100000 0 0 0 100000 0 0 0 0\n"  # 102 MB
    other = threading.Timer(2, (disk / "stat").write_text, (stat,))
    other.start()
    window = run.run([load], settle=0.1, seconds=4)
    assert window.others == pytest.approx(102.4e6 - window.written["a"], rel=0.01)
    assert window.disturbed


def test_a_window_ends_at_its_bytes(tmp_path: Path, disk: Path) -> None:
    """Settling takes a quarter of the bytes at most, or a fast device would leave no window."""
    # slow loads, so that the few milliseconds by which a busy host is late are few bytes
    both = [Load("a", counting(tmp_path / "a", 5e6)), Load("b", counting(tmp_path / "b", 5e6))]
    window = runner(tmp_path, disk, Counted(tmp_path)).run(both, settle=60, seconds=60, limit=40_000_000)
    assert window.total_written == pytest.approx(40e6, rel=0.03)
    # On a busy host, it notices up to a quarter of a second late that the loads have settled.
    assert window.written["a"] + window.written["b"] == pytest.approx(30e6, rel=0.25)


def test_a_series_has_the_rate_of_each_second(tmp_path: Path, disk: Path) -> None:
    """It is that of the writes: a reader alongside them does not count."""
    reads = [
        word.replace("rbytes=0 wbytes={count}", "rbytes={count} wbytes=0")
        for word in counting(tmp_path / "b", 20e6)
    ]
    both = [Load("a", counting(tmp_path / "a", 20e6), moves=True), Load("b", reads, moves=True)]
    window = runner(tmp_path, disk, Counted(tmp_path)).run(both, settle=0.2, seconds=2.3, series=True)
    assert window.read["b"] > 0
    assert [round(at) for at, _ in window.series] == [1, 2, 2]
    assert all(rate == pytest.approx(20, rel=0.15) for _, rate in window.series)


def test_without_groups_the_device_counts(tmp_path: Path, disk: Path) -> None:
    """What other programs moved before does not count."""
    (disk / "stat").write_text("0 0 1000 0 0 0 2000 0 0 0 0\n")
    load = Load(
        "a",
        program(
            f"open({str(disk / 'stat')!r}, 'w').write('0 0 1010 0 0 0 2030 0 0 0 0'); import time; time.sleep(9)"
        ),
    )
    window = runner(tmp_path, disk, Ungrouped()).run([load], settle=0, seconds=3)
    assert (window.read["a"], window.total_written) == (10 * 512, 30 * 512)


def test_a_load_that_ends_early_ends_the_window(tmp_path: Path, disk: Path) -> None:
    short, long = program("import time; time.sleep(0.2)"), program("import time; time.sleep(60)")
    run = runner(tmp_path, disk, Ungrouped())
    window = run.run([Load("a", long), Load("b", short)], settle=0, seconds=30)
    assert window.early
    assert window.seconds < 5
    # A player ends by itself, as planned. Without it, the other load would be alone.
    window = run.run([Load("a", long), Load("b", short, lasting=False)], settle=0, seconds=30)
    assert not window.early
    assert window.seconds < 5


@pytest.mark.parametrize(
    ("text", "error", "words"),
    [
        ("fio: error=No space left on device", Stopped, "the target is full"),
        ("fio: error=Read-only file system", Stopped, "became read-only"),
        ("fio: error=Input/output error", DeviceGone, "returned an I/O error"),
        ("fio: bad option <x>", ValidateError, "a ended with status 1: fio: bad option <x>"),
        ("", ValidateError, "it printed nothing"),
    ],
)
def test_a_load_that_fails(tmp_path: Path, disk: Path, text: str, error: type[Exception], words: str) -> None:
    load = Load("a", program(f"import sys; sys.stdout.write({text!r}); sys.exit(1)"))
    with pytest.raises(error, match=words):
        runner(tmp_path, disk, Ungrouped()).run([load], settle=0, seconds=9)


def test_a_load_that_fails_after_the_device_is_gone(tmp_path: Path, disk: Path) -> None:
    load = Load(
        "a", program(f"import os, sys; os.rename({str(disk)!r}, {str(tmp_path / 'gone')!r}); sys.exit(1)")
    )
    with pytest.raises(DeviceGone, match="the device was removed"):
        runner(tmp_path, disk, Ungrouped()).run([load], settle=0, seconds=9)


def test_a_load_that_does_not_end_means_a_dead_device(
    tmp_path: Path, disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loads, "END_S", 0.5)
    load = Load(
        "a",
        program(
            "import signal, time; signal.signal(15, signal.SIG_IGN); print(1, flush=True); time.sleep(60)"
        ),
    )
    with pytest.raises(DeviceGone, match="did not end within"):
        runner(tmp_path, disk, Ungrouped()).run([load], settle=0.5, seconds=0.1)


def test_a_program_that_is_missing(tmp_path: Path, disk: Path) -> None:
    with pytest.raises(ValidateError, match="cannot run ek-absent: No such file or directory; install it"):
        runner(tmp_path, disk, Ungrouped()).run([Load("a", ["ek-absent"])], settle=0, seconds=1)


def test_no_load_outlives_an_exception(tmp_path: Path, disk: Path) -> None:
    begin = time.monotonic()
    started: list[subprocess.Popen[bytes]] = []

    class Kept(Ungrouped):
        def start(self, load: Load, log: Path) -> subprocess.Popen[bytes]:
            started.append(super().start(load, log))
            return started[-1]

    def check() -> None:
        if time.monotonic() > begin + 0.3:
            raise Stopped("cancelled")

    load = Load("a", program("import time; time.sleep(60)"))
    with pytest.raises(Stopped, match="cancelled"):
        runner(tmp_path, disk, Kept(), check).run([load], settle=0, seconds=60)
    assert [p.returncode for p in started] == [-9]


def test_a_fixed_share_that_the_kernel_refuses(tmp_path: Path, disk: Path) -> None:
    (tmp_path / "a/io.evenkeel.fixed").mkdir(parents=True)
    load = Load("a", program("import time; time.sleep(60)"), fixed=30)
    with pytest.raises(ValidateError, match="cannot set a fixed share of 30 %"):
        runner(tmp_path, disk, Counted(tmp_path)).run([load], settle=0, seconds=1)
