# SPDX-License-Identifier: Apache-2.0
"""The real service on a fake cgroup tree: what it samples, what it keeps, and how it starts and stops."""

import errno
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from disks import fill_up, small_disk
from evenkeel_agent.settings import Settings
from evenkeel_common.iostat import time_of
from evenkeel_common.reading import read_text
from evenkeel_history import live
from evenkeel_history import sampler as sampler_module
from evenkeel_history.attribution import Blame
from evenkeel_history.period import READ, SYSTEM, WRITE, Sum
from evenkeel_history.reader import Reader
from evenkeel_history.sampler import LOOKUP, Sampler
from evenkeel_history.schema import DAMAGED, FILE, FOLDER
from evenkeel_history.service import SAVE_S, History
from evenkeel_history.tiers import MINUTE
from test_store import damage_pages

LIMIT = 2500  # the maximum number of calls that a second of 16 apps may cost
APPS = "sys/fs/cgroup/evenkeel.slice/evenkeel-apps.slice"


class Board:
    """The files of a fake board below the folder ROOT."""

    def __init__(self, root: Path) -> None:
        self.root = root
        for folder in ("etc/evenkeel/apps.d", APPS, "sys/dev/block/8:0", "sys/block/mmcblk0/device", "run/p"):
            (root / folder).mkdir(parents=True)
        (root / "sys/dev/block/8:0/uevent").write_text("MAJOR=8\nDEVNAME=mmcblk0\n")
        for name in ("player", "loader"):
            (root / f"etc/evenkeel/apps.d/{name}.toml").write_text(
                f'title = "{name}"\nunit = "{name}.service"\nstats = "/run/p/{name}.json"\n'
            )
            self.stat(f"{APPS}/{name}.service")
        self.stat("sys/fs/cgroup")

    def stat(self, folder: str, **values: object) -> None:
        (self.root / folder).mkdir(parents=True, exist_ok=True)
        text = " ".join(f"{key}={value}" for key, value in values.items())
        (self.root / folder / "io.evenkeel.stat").write_text(f"8:0 weight=100 {text}\n")


@pytest.fixture
def board(tmp_path: Path) -> Board:
    return Board(tmp_path)


def test_bytes_waits_and_who_slows_whom(board: Board) -> None:
    sampler = Sampler(Settings(root=str(board.root)))
    assert sampler.sample(0) == Sum()
    player = (board.root / APPS / "player.service").stat().st_ino
    (board.root / APPS / "loader.service/child").mkdir()
    child = (board.root / APPS / "loader.service/child").stat().st_ino
    waits = f"7:5,{child}:300,{player}:1"
    board.stat(
        f"{APPS}/player.service", rbytes=4096, rios=1, rwait="40:1", rtotal="41:1", waited_us=350, waited_for=waits
    )  # fmt: skip
    board.stat(
        f"{APPS}/loader.service/child", wbytes=8192, wios=2, wserv="60:2", wtotal="60:2", wgate="50:1",
        waited_us=90, waited_for=f"{player}:60",
    )  # fmt: skip
    board.stat("sys/fs/cgroup/system.slice/journald.service", wbytes=512, wios=1)
    found = sampler.sample(1000)
    assert found.flows["player", "mmcblk0", READ].bytes == 4096
    assert found.flows["player", "mmcblk0", READ].latency == {41: 1}
    for _ in range(5):  # the new cgroups are found at the next look-up
        found.add(sampler.sample(1000))
    loader = found.flows["loader", "mmcblk0", WRITE]
    assert (loader.bytes, loader.ios, loader.gates) == (8192, 2, 1)
    assert loader.wait_us == loader.gate_us == time_of({50: 1})
    assert found.flows[SYSTEM, "mmcblk0", WRITE].bytes == 512
    assert found.blame == {
        ("player", "loader"): 300,
        ("player", SYSTEM): 5,
        ("player", "player"): 45,
        ("loader", "player"): 60,
        ("loader", "loader"): 30,
    }
    assert found.ms == 6000


def test_an_apps_stalls_are_counted_from_its_own_file(board: Board) -> None:
    file = board.root / "run/p/player.json"
    file.write_text('{"stalls": 5, "stall_ms": 900}')
    sampler = Sampler(Settings(root=str(board.root)))
    sampler.sample(0)
    file.write_text('{"stalls": 7, "stall_ms": 1000}')
    assert sampler.sample(1000).stalls == {"player": (2, 100)}
    file.write_text('{"stalls": 1, "stall_ms": 20}')  # restarted
    assert sampler.sample(1000).stalls == {"player": (1, 20)}
    for bad in (
        '{"stalls": -1}',
        '{"stalls": true}',
        '{"stalls": 1e9}',
        "[]",
        "{",
        '{"stalls": 99999999999999999999}',
    ):
        file.write_text(bad)
        assert sampler.sample(1000).stalls == {}


def test_an_app_never_stalls_longer_than_time_passes(board: Board) -> None:
    """It alternates between two large numbers, so each second looks like a restart with as many new stalls."""
    file = board.root / "run/p/player.json"
    largest = (1 << 53) - 1
    file.write_text(json.dumps({"stalls": largest, "stall_ms": largest}))
    sampler, found = Sampler(Settings(root=str(board.root))), Sum()
    sampler.sample(0)
    for second in range(60):
        number = largest - 1 + second % 2
        file.write_text(json.dumps({"stalls": number, "stall_ms": number}))
        found.add(sampler.sample(1000))
    # a reading may be up to a second old, so each one may add a second more than has passed
    assert all(0 < number <= 2 * 60_000 for number in found.stalls["player"])


def test_an_app_that_rarely_writes_its_file_loses_no_stalls(board: Board) -> None:
    file = board.root / "run/p/player.json"
    sampler, found = Sampler(Settings(root=str(board.root))), Sum()
    for second in range(31):
        if second % 10 == 0:  # it has stalled all the time, and once more just before it writes
            file.write_text(json.dumps({"stalls": second, "stall_ms": 1000 * second + 900 * (second == 30)}))
        found.add(sampler.sample(1000 if second else 0))
    assert found.stalls == {"player": (30, 30_900)}


def test_a_restart_of_a_unit_counts_from_zero(board: Board) -> None:
    board.stat(f"{APPS}/player.service", rbytes=10_000, rios=3)
    sampler = Sampler(Settings(root=str(board.root)))
    sampler.sample(0)
    board.stat(f"{APPS}/player.service", rbytes=512, rios=1)
    assert sampler.sample(1000).flows["player", "mmcblk0", READ].bytes == 512


def test_a_file_in_an_unknown_format_is_reported_and_the_others_count(board: Board) -> None:
    sampler = Sampler(Settings(root=str(board.root)))
    sampler.sample(0)
    (board.root / APPS / "loader.service/io.evenkeel.stat").write_text("8:0 rbytes=many\n")
    board.stat(f"{APPS}/player.service", rbytes=512, rios=1)
    assert sampler.sample(1000).flows["player", "mmcblk0", READ].bytes == 512
    assert sampler.problem is not None
    assert sampler.problem.code == "counters-unknown"


def eventually(condition: Callable[[], bool], seconds: float = 20) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


class Service:
    def __init__(
        self, board: Board, *options: str, program: tuple[str, str] = ("-m", "evenkeel_history")
    ) -> None:
        self.board = board
        self.notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        address = str(board.root / "notify")
        Path(address).unlink(missing_ok=True)
        self.notify.bind(address)
        self.notify.settimeout(20)
        self.process = subprocess.Popen(
            [sys.executable, *program, "--root", str(board.root), *options],
            env={**os.environ, "PYTHONPATH": ":".join(sys.path), "NOTIFY_SOCKET": address, "WATCHDOG_USEC": "1000000"},
            stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self.notify.recv(100) == b"READY=1"

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(20)

    def status(self) -> list[str]:
        path = self.board.root / "run/evenkeel-history/status.json"
        if not path.exists():
            return ["no status yet"]
        return [problem["code"] for problem in json.loads(path.read_text())["problems"]]

    @property
    def reader(self) -> Reader:
        root = self.board.root
        return Reader(root / FOLDER.lstrip("/"), root / live.SOCKET.lstrip("/"))


@pytest.fixture
def service(board: Board) -> Iterator[Service]:
    found = Service(board)
    yield found
    found.process.kill()
    found.process.communicate()


def amount(reader: Reader) -> int:
    now = int(time.time())
    found = reader.read(now - 3600, now + 60)
    return sum(flow.bytes for (app, _, _), flow in found.total.flows.items() if app == "player")


def total(reader: Reader) -> int:
    found = reader.totals()
    return found.flows["player", "mmcblk0", READ].bytes if found else 0


def test_history_is_readable_at_once_and_after_a_restart(service: Service) -> None:
    board = service.board
    board.stat(f"{APPS}/player.service", rbytes=4096, rios=1, rtotal="40:1")
    eventually(lambda: amount(service.reader) == 4096)
    now = int(time.time())
    by_second = service.reader.read(now - 300, now + 1)
    assert by_second.step == 1
    assert sum(flow.bytes for flow in by_second.total.flows.values()) == 4096
    assert service.notify.recv(100) == b"WATCHDOG=1"
    eventually(lambda: (board.root / "run/evenkeel-history/status.json").exists())
    assert service.status() == []
    assert service.stop() == 0
    # the service has stopped, so the reader uses the database alone
    assert amount(service.reader) == 4096
    again = Service(board)
    board.stat(f"{APPS}/player.service", rbytes=6096, rios=2, rtotal="40:2")
    try:
        eventually(lambda: amount(again.reader) == 6096)
        eventually(lambda: total(again.reader) == 6096)  # 4096 before the restart, 2000 after it
    finally:
        again.stop()


def test_a_power_cut_loses_at_most_five_minutes() -> None:
    """The complete minutes since the last save, and the minute that is running."""
    assert SAVE_S + MINUTE <= 300


# the service with minutes of two seconds
SHORT_MINUTES = """
import sys
from evenkeel_history import __main__, live
live.MINUTE = 2
sys.exit(__main__.main(sys.argv[1:]))
"""


def test_a_kill_loses_what_was_sampled_since_the_last_save_and_in_this_minute(board: Board) -> None:
    """The last minutes are in the log. The service saves them in the database when it starts again."""
    minute_s, save_s, run_s = 2, 1, 12
    service = Service(board, "--save", str(save_s), program=("-c", SHORT_MINUTES))
    begin = time.time()
    time.sleep(run_s)
    service.process.kill()
    end = time.time()
    service.process.communicate()
    time.sleep(minute_s)
    again = Service(board)
    eventually(lambda: again.reader.read(int(begin) - 60, int(end) + 1).total.ms > 0)
    assert again.stop() == 0
    saved = again.reader.read(int(begin) - 60, int(end) + 1)
    assert saved.problem_code == "history-live-silent"
    lost_s = end - begin - saved.total.ms / 1000
    print(f"{lost_s:.1f} s lost")
    # a second since the last sample, and three for a busy host
    assert lost_s <= minute_s + save_s + 1 + 3


def test_a_service_that_is_ready_has_replaced_the_old_status(board: Board) -> None:
    """The file survives a stop of the service. By its age, the agent would report that the service does not respond."""
    status = board.root / "run/evenkeel-history/status.json"
    status.parent.mkdir()
    status.write_text('{"monotonic_ns": 0, "problems": []}')
    service = Service(board)
    found = json.loads(status.read_text())
    service.process.kill()
    service.process.communicate()
    assert found["monotonic_ns"] > 0


def test_wear_is_saved_at_the_start_and_at_the_end(service: Service) -> None:
    """The counter of written bytes begins at 0 with each boot, so its last value must not be lost."""
    stat = service.board.root / "sys/block/mmcblk0/stat"
    stat.write_text("0 0 0 0 0 0 100 0")
    service.board.stat(f"{APPS}/player.service", rbytes=4096, rios=1)
    eventually(lambda: amount(service.reader) == 4096)
    stat.write_text("0 0 0 0 0 0 900 0")
    assert service.stop() == 0
    (states,) = service.reader.wear().values()
    assert states[-1][1].written_bytes == 900 * 512


def test_only_owner_and_group_may_read(service: Service) -> None:
    root = service.board.root
    eventually(lambda: (root / FOLDER.lstrip("/") / FILE).exists())
    eventually(lambda: (root / FOLDER.lstrip("/") / FILE).stat().st_mode & 0o777 == 0o640)
    assert (root / live.SOCKET.lstrip("/")).stat().st_mode & 0o777 == 0o660


def test_a_damaged_database_is_reported(board: Board) -> None:
    folder = board.root / FOLDER.lstrip("/")
    folder.mkdir(parents=True)
    (folder / FILE).write_bytes(b"rubbish" * 1000)
    service = Service(board)
    try:
        eventually(lambda: (folder / DAMAGED).exists())
        eventually(lambda: service.status() == ["history-damaged"])
        board.stat(f"{APPS}/player.service", rbytes=4096, rios=1)
        eventually(lambda: amount(service.reader) == 4096)
    finally:
        assert service.stop() == 0


def test_saving_goes_on_after_a_damaged_database_and_a_full_disk(board: Board) -> None:
    """The disk is full when the service replaces the damaged database. All minutes in RAM are saved once there is space."""
    folder = board.root / FOLDER.lstrip("/")
    folder.mkdir(parents=True)
    with small_disk(folder, "1m"):
        history = History(Settings(root=str(board.root)), save_s=0.05)

        def sample(minute: int) -> None:
            history._live.add(60 * minute, Sum(ms=1000))

        def saved() -> int:
            return Reader(folder, board.root / "no-socket").read(0, 3600).total.ms

        for minute in range(3):
            sample(minute)
        history._saver.start()
        try:
            eventually(lambda: saved() == 2000)
            filler = fill_up(folder)
            damage_pages(folder / FILE)
            eventually(
                lambda: (
                    {problem.code for problem in history._problems}
                    == {"history-damaged", "history-not-saved"}
                )
            )
            sample(3)
            filler.unlink()
            eventually(lambda: saved() == 3000)
            eventually(lambda: [problem.code for problem in history._problems] == ["history-damaged"])
        finally:
            history._ended.set()
            history._saver.join()


def test_rubbish_on_the_socket_ends_nothing(service: Service) -> None:
    path = service.board.root / live.SOCKET.lstrip("/")
    for text in (b"", b"rubbish\n", b"{}\n", b'{"after": "x"}\n', b"x" * 10_000):
        with socket.socket(socket.AF_UNIX) as link:
            link.connect(str(path))
            try:
                link.sendall(text)
                link.shutdown(socket.SHUT_WR)
                assert link.recv(10) == b""
            except (BrokenPipeError, ConnectionResetError):
                pass
    assert live.ask(path, live.Request(0), 5).seconds == []


def test_a_second_of_16_apps_costs_few_calls(board: Board) -> None:
    """The number of calls, of Python and of C, per second: it does not depend on the host.

    Every app has 20 requests in each second, and its histograms have 40 used buckets. Most numbers stay the same.
    """
    names = [f"app-{number:02}" for number in range(16)]
    for name in names:
        (board.root / f"etc/evenkeel/apps.d/{name}.toml").write_text(
            f'title = "x"\nunit = "{name}.service"\n'
        )
    keys = [f"{letter}{what}" for letter in "rw" for what in ("wait", "serv", "total")]
    inodes = []

    def move(n: int) -> None:
        for number, name in enumerate(names):
            # each second, one request in each of ten buckets
            counts = {30 + index: 100 + (n + index + number) // 4 for index in range(40)}
            histogram = ",".join(f"{index}:{count}" for index, count in counts.items())
            board.stat(
                f"{APPS}/{name}.service", rbytes=n, wbytes=n, rios=n, wios=n, rgate="-", wgate="-",
                **dict.fromkeys(keys, histogram), waited_us=99 * n, waited_for=",".join(f"{i}:{5 * n}" for i in inodes) or "-",
            )  # fmt: skip

    sampler, memory, calls = Sampler(Settings(root=str(board.root))), live.Live(), 0

    def count(_: object, event: str, __: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    move(0)
    inodes += [(board.root / APPS / f"{name}.service").stat().st_ino for name in names]
    sampler.sample(0)
    seconds = 20
    for second in range(1, seconds + 1):
        move(second)
        sys.setprofile(count)
        try:
            memory.add(second, sampler.sample(1000))
        finally:
            sys.setprofile(None)
    print(f"{calls / seconds:.0f} calls a second")
    assert calls / seconds < LIMIT


def test_a_cgroup_that_is_removed_and_created_again(board: Board, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel fails to read the open file. The counters of the new cgroup begin at 0, and all its I/O counts."""
    board.stat(f"{APPS}/player.service", rbytes=4096, rios=1)
    sampler = Sampler(Settings(root=str(board.root)))
    sampler.sample(0)
    folder = board.root / APPS / "player.service"
    removed = (folder / "io.evenkeel.stat").stat().st_ino

    def read(file: int) -> bytes:
        if os.fstat(file).st_ino == removed:
            raise OSError(errno.ENODEV, os.strerror(errno.ENODEV))
        return read_text(file)

    monkeypatch.setattr(sampler_module, "read_text", read)
    folder.rename(board.root / "old")  # so that the file system does not use the inodes again
    board.stat(f"{APPS}/player.service", rbytes=9000, rios=2)
    assert sampler.sample(1000).flows == {}
    assert sampler.problem is None
    assert (
        sampler.sample(1000).flows["player", "mmcblk0", READ].bytes == 9000
    )  # without the wait for a look-up
    assert sampler.sample(1000).flows == {}


def test_a_cgroup_that_slows_others_is_found_in_time(board: Board) -> None:
    sampler = Sampler(Settings(root=str(board.root)))

    def blame() -> Blame:
        """Of the next LOOKUP seconds, in the last of which the waiting times are read."""
        found = Sum()
        for _ in range(LOOKUP):
            found.add(sampler.sample(1000))
        return found.blame

    sampler.sample(0)
    blame()
    child = board.root / APPS / "loader.service/child"
    child.mkdir()
    board.stat(f"{APPS}/loader.service/child", wios=1)
    board.stat(f"{APPS}/player.service", rios=1, waited_us=50, waited_for=f"{child.stat().st_ino}:40")
    # the cgroup is found at the look-up in which its blame is read
    assert blame() == {("player", "loader"): 40, ("player", "player"): 10}
    other = board.root / APPS / "loader.service/other"
    board.stat(f"{APPS}/loader.service/other", wios=1)
    waits = f"0:9,{child.stat().st_ino}:40,{other.stat().st_ino}:5"
    board.stat(f"{APPS}/player.service", rios=4, waited_us=200, waited_for=waits)
    # the cgroup 0, which stands for many others, is never found
    assert blame() == {("player", SYSTEM): 9, ("player", "loader"): 5, ("player", "player"): 136}


def test_a_removed_cgroup_is_forgotten_at_the_look_up(board: Board) -> None:
    sampler = Sampler(Settings(root=str(board.root)))
    sampler.sample(0)
    files = len(list(Path("/proc/self/fd").iterdir()))
    (board.root / APPS / "player.service").rename(board.root / "old")
    for _ in range(LOOKUP):
        sampler.sample(1000)
    assert len(list(Path("/proc/self/fd").iterdir())) == files - 1
    assert sampler.problem is None


def test_a_file_that_cannot_be_opened_is_reported_until_it_can(
    board: Board, monkeypatch: pytest.MonkeyPatch
) -> None:
    allowed, opened = False, os.open

    def restricted(path: str, flags: int) -> int:
        if "player.service" in path and not allowed:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return opened(path, flags)

    monkeypatch.setattr(os, "open", restricted)
    sampler = Sampler(Settings(root=str(board.root)))
    for _ in range(LOOKUP):
        sampler.sample(1000)
        assert str(sampler.problem).endswith("cannot be read: Too many open files")
    allowed = True
    sampler.sample(1000)
    assert sampler.problem is None


def test_an_app_that_is_listed_later_gets_its_io(board: Board) -> None:
    sampler = Sampler(Settings(root=str(board.root)))
    board.stat(f"{APPS}/other.service", rbytes=1, rios=1)
    sampler.sample(0)
    (board.root / "etc/evenkeel/apps.d/other.toml").write_text('title = "x"\nunit = "other.service"\n')
    board.stat(f"{APPS}/other.service", rbytes=5, rios=2)
    assert sampler.sample(1000).flows[SYSTEM, "mmcblk0", READ].bytes == 4
    for _ in range(LOOKUP):
        sampler.sample(1000)
    board.stat(f"{APPS}/other.service", rbytes=7, rios=3)
    assert sampler.sample(1000).flows["other", "mmcblk0", READ].bytes == 2


def test_the_status_is_written_at_a_change_and_each_five_seconds(
    board: Board, monkeypatch: pytest.MonkeyPatch
) -> None:
    history, now_s = History(Settings(root=str(board.root))), 1000.0
    monkeypatch.setattr(time, "monotonic", lambda: now_s)
    path = board.root / "run/evenkeel-history/status.json"
    path.parent.mkdir()
    written = []
    for second in range(12):
        now_s = 1000.0 + second
        history._live.lost = int(second >= 8)  # a problem
        history._report()
        if path.exists():
            written.append((second, len(json.loads(path.read_text())["problems"])))
            path.unlink()
    assert written == [(0, 0), (5, 0), (8, 1)]
