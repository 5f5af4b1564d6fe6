# SPDX-License-Identifier: Apache-2.0
"""The history of a booted board: it is recorded, the panel's user can read it, and it recovers from faults."""

import base64
import json
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from boards import Board, power_on, until
from visitor import Visitor

UNIT = "evenkeel-history.service"
RSS_KB = 60_000  # largest resident memory of evenkeel-history. Agent, history, panel and nginx together may have 140 MB
APPS = "/sys/fs/cgroup/evenkeel.slice/evenkeel-apps.slice"
FOLDER = "/var/lib/evenkeel-history"
# A Python program that reads the history as the panel does. It runs with the rights of the panel's service.
READ = """
import json, sys, time
from evenkeel_history.reader import Reader
now = int(time.time())
found = Reader().read(now - int(sys.argv[1]), now + 2)
sums = {}
for (app, _, _), flow in found.total.flows.items():
    sums[app] = sums.get(app, 0) + flow.bytes
blame = [[*pair, us] for pair, us in found.total.blame.items()]
print(json.dumps([sums, blame, found.problem_code, found.total.ms]))
"""


@pytest.fixture(scope="module")
def board() -> Iterator[Board]:
    yield from power_on("boot-history", credentials=("evenkeel.demo=1", "evenkeel.console=1"))


def read(board: Board, seconds: int = 3600) -> tuple[dict[str, int], dict[tuple[str, str], int], str, int]:
    """What the history has of the last `seconds`.

    Returns the bytes of each app, the µs that each app (victim) waited for each other app (cause), the code of
    a problem or "", and the sampled time in ms.
    """
    script = base64.b64encode(READ.encode()).decode()
    user = "setpriv --reuid=evenkeel-panel --regid=evenkeel-panel --groups=evenkeel-history"
    board.run(f"echo {script} | base64 -d > /run/read.py && chmod 644 /run/read.py")
    sums, blame, problem, ms = json.loads(board.run(f"{user} python3 /run/read.py {seconds}"))
    return sums, {(victim, cause): us for victim, cause, us in blame}, problem, ms


def test_history_runs_and_is_no_problem(board: Board) -> None:
    board.health()
    until("active", lambda: board.try_run(f"systemctl is-active {UNIT}")[1] == "active")
    assert not [code for code in board.problems() if code.startswith(("history", "counters"))]


def test_the_apps_are_in_the_history(board: Board) -> None:
    """The demo's player and loader read from one device."""
    until("I/O of both apps", lambda: {"player", "loader"} <= read(board)[0].keys())
    board.wait(10)
    sums, blame, problem, ms = read(board)
    assert min(sums["player"], sums["loader"]) > 1_000_000
    assert problem == ""
    assert ms > 5000
    assert blame["player", "loader"] > 0


def test_the_page_has_the_figures_of_the_apps(board: Board) -> None:
    visitor = Visitor(board.port)
    visitor.first_log_in(board.first_password())
    page = visitor.get("/history")
    assert re.search(r"Loader cost Player <b>[0-9]", page), page
    # throughput, latency, heat map
    assert page.count('class="plot') == 3
    started = time.monotonic()
    found = json.loads(visitor.get("/history.json?span=1h"))
    print(f"/history.json: {time.monotonic() - started:.2f} s")
    amounts = {(row["app"], row["direction"]): row["bytes"] for row in found["totals"]}
    assert amounts["loader", "read"] > 1_000_000
    assert amounts["player", "read"] > 1_000_000
    assert visitor.get("/history.csv").startswith("at,app,direction,")


def test_the_figures_are_those_of_the_scheduler(board: Board) -> None:
    """In 20 s the history and the scheduler's counters grow by nearly the same number of bytes."""
    path = f"{APPS}/evenkeel-loader.service/io.evenkeel.stat"

    def counted() -> int:
        return sum(int(n) for n in re.findall(r"[rw]bytes=(\d+)", board.run(f"cat {path}")))

    first, before = counted(), read(board)[0]["loader"]
    board.wait(20)
    second, after = counted(), read(board)[0]["loader"]
    assert after - before == pytest.approx(second - first, rel=0.25)


def test_only_the_panel_may_read(board: Board) -> None:
    as_nobody = "setpriv --reuid=nobody --regid=nogroup --clear-groups"
    for path in (f"{FOLDER}/history.db", "/run/evenkeel-history/live"):
        board.run(f"test -e {path}")
        assert board.try_run(f"{as_nobody} test -r {path}")[0] != 0
    assert board.run(f"stat -c %U:%G:%a {FOLDER}") == "evenkeel-history:evenkeel-history:750"
    assert "evenkeel-history" in board.run("systemctl show -p SupplementaryGroups evenkeel-panel.service")


def test_the_service_has_no_privileges(board: Board) -> None:
    pid = board.run(f"systemctl show -P MainPID {UNIT}")
    status = dict(line.split(":", 1) for line in board.run(f"cat /proc/{pid}/status").splitlines())
    assert int(status["CapEff"], 16) == int(status["CapBnd"], 16) == 0
    assert status["Uid"].split()[0] == board.run("id -u evenkeel-history") == "903"
    memory = int(status["VmRSS"].split()[0])
    print(f"evenkeel-history: {memory / 1024:.0f} MB")
    assert memory <= RSS_KB


def test_a_killed_history_comes_back(board: Board) -> None:
    board.run(f"systemctl kill -s KILL {UNIT}")
    until("active", lambda: board.try_run(f"systemctl is-active {UNIT}")[1] == "active")
    until("no problem", lambda: not [code for code in board.problems() if code.startswith("history")])


def test_a_stop_saves_what_is_in_ram(board: Board) -> None:
    board.wait(5)
    sums = read(board)[0]
    board.run(f"systemctl stop {UNIT}")
    saved, _, problem, _ = read(board)
    assert problem == "history-live-silent"
    assert saved["loader"] >= sums["loader"]
    board.run(f"systemctl start {UNIT}")


def test_a_damaged_database_is_set_aside_and_reported(board: Board) -> None:
    board.run(f"systemctl stop {UNIT}")
    board.run(f"dd if=/dev/urandom of={FOLDER}/history.db bs=1k count=8 conv=notrunc")
    board.run(f"systemctl start {UNIT}")
    until("set aside", lambda: board.try_run(f"test -e {FOLDER}/history.db.damaged")[0] == 0)
    until("reported", lambda: "history-damaged" in board.problems())
    until("a new history", lambda: "loader" in read(board, 60)[0])
    board.run(f"rm {FOLDER}/history.db.damaged* && systemctl restart {UNIT}")
    until("no problem", lambda: "history-damaged" not in board.problems())
