# SPDX-License-Identifier: Apache-2.0
"""ek-validation: what it accepts, what it orders of systemd, and what it sends."""

import json
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import fake_board as board
import pytest
from evenkeel_common.packets import CONTENT_BYTES, PACKET_BYTES, End, parse
from evenkeel_report.row import Row
from evenkeel_validate import __main__ as cli
from evenkeel_validate import cases, lock, plan, report, report_page, runs, service
from evenkeel_validate.errors import ValidateError
from evenkeel_validate.report import Report
from evenkeel_validate.runs import Places
from evenkeel_validate.service import ORDER, RUN_CGROUP, RUN_UNIT, Service
from evenkeel_validate.target import Target
from fake_pool import Pool
from hypothesis import given
from hypothesis import strategies as st

ID, OTHER = "20260131-120000", "20260201-120000"
PLAN = {"profile": "quick", "topic": "", "compare": False, "exclusive": False}


class Systemd:
    """A fake systemctl. `starts`: what happens when the unit is started. A unit that is not inactive has the folder CGROUP."""

    def __init__(self, cgroup: Path) -> None:
        self.calls: list[tuple[str, ...]] = []
        self.asked = 0  # number of questions whether the unit is active
        self.starts = lambda: None
        self.shown = ""  # what `show` prints
        self._cgroup = cgroup
        self._active = "inactive"

    @property
    def active(self) -> str:
        return self._active

    @active.setter
    def active(self, state: str) -> None:
        self._active = state
        if state != "inactive":
            self._cgroup.mkdir(parents=True, exist_ok=True)
        elif self._cgroup.exists():
            self._cgroup.rmdir()

    def __call__(self, *arguments: str) -> str:
        if arguments[0] == "is-active":
            self.asked += 1
            return self.active
        self.calls.append(arguments)
        if arguments[0] == "start":
            self.starts()
        return self.shown if arguments[0] == "show" else ""


@pytest.fixture
def systemd(tmp_path: Path) -> Systemd:
    return Systemd(tmp_path / "sys" / RUN_CGROUP)


@pytest.fixture
def helper(tmp_path: Path, systemd: Systemd) -> Service:
    sys_ = board.make_tree(tmp_path)
    places = Places(sys_, tmp_path / "proc", tmp_path / "state", tmp_path / "run")
    where = Target("file", tmp_path / "data/.ek-validate/data", board.DISK, board.NUMBER, board.CAPACITY)
    return Service(places, "1.0", systemd, lambda _, __: where, begin_s=0.3)


def ask(helper: Service, order: str, **more: Any) -> Any:
    return json.loads(helper.answer(json.dumps({"order": order, **more}).encode()))


def stored(helper: Service, id_: str = ID, ratio: float = 2.0, **more: Any) -> Report:
    ratio_row = Row("fair.read.1m.ratio", ratio, "", None, (1.9, 2.1), None, "host", "6.12", "evenkeel", True)
    rows = [
        ratio_row,
        Row("device.read.mbps", 98.0, "MB/s", "higher", None, None, "host", "6.12", "evenkeel"),
    ]
    fields = {
        "state": "complete", "subject": "evenkeel", "rows": rows, "started": "2026-01-31T12:00:00Z", **more,
    }  # fmt: skip
    found = Report(id_, "1.0", "quick", **fields)
    (helper.places.runs / id_).mkdir(parents=True)
    report.save(found, helper.places.runs / id_)
    return found


def test_a_plan_says_what_a_validation_would_do(helper: Service, systemd: Systemd, tmp_path: Path) -> None:
    found = ask(helper, "plan", **PLAN)
    assert found["where"] == f"the file {tmp_path}/data/.ek-validate/data on mmcblk0"
    assert found["written_bytes"] <= 10**9
    assert (found["most_s"], found["schedulers"], found["groups"]) == (120, ["evenkeel", "none"], True)
    assert 0 < found["endurance_percent"] < 1
    assert (found["discards"], found["proven"]) == (False, False)
    assert systemd.calls == []
    topic = ask(helper, "plan", **{**PLAN, "topic": "device"})
    assert 0 < topic["cases"] < found["cases"]
    compared = ask(helper, "plan", profile="full", topic="fair", compare=True, exclusive=False)
    assert compared["schedulers"][:2] == ["evenkeel", "bfq"]


def test_a_plan_says_that_files_leave_the_page_cache(helper: Service, tmp_path: Path) -> None:
    assert ask(helper, "plan", **PLAN)["evicts"] is False
    helper.places = replace(helper.places, pool=tmp_path / "pool")
    with Pool(tmp_path / "pool"):
        found = ask(helper, "plan", profile="full", topic="pool", compare=False, exclusive=False)
    assert (found["evicts"], found["cases"]) == (True, 1)


def test_each_topic_names_cases_and_each_case_has_a_topic() -> None:
    names = [c.name for c in (*cases.quick(), *cases.full(), *cases.soak())]
    for topic in service.TOPICS:
        assert any(name.startswith(f"{topic}.") for name in names) or topic == "", topic
    assert {name.partition(".")[0] for name in names} <= set(service.TOPICS)


def test_without_a_validation_no_program_is_started(helper: Service, systemd: Systemd) -> None:
    assert ask(helper, "state") == {"state": "idle"}
    assert systemd.asked == 0
    systemd.active = "activating"
    assert ask(helper, "state") == {"state": "starting"}
    assert systemd.asked == 1


def test_the_order_is_a_command_line_that_ek_validate_accepts(helper: Service, systemd: Systemd) -> None:
    assert tuple(plan.PROFILES) == service.PROFILES
    for profile in plan.PROFILES:
        for topic in service.TOPICS:
            for compare in (False, True):
                systemd.active = "inactive"
                systemd.starts = lambda: setattr(systemd, "active", "active")
                found = ask(
                    helper, "start", profile=profile, topic=topic, compare=compare, exclusive=not compare
                )
                if found.get("error") == "validation-no-case":
                    continue
                assert found == {"state": "starting"}
                line = (helper.places.run / ORDER).read_text()
                name, _, options = line.rstrip("\n").partition("=")
                assert name == "OPTIONS"
                args = cli._parser().parse_args(["run", "--yes", *options.split()])
                assert (args.profile, args.no_compare, args.exclusive) == (profile, not compare, not compare)
                assert args.only == ([f"{topic}."] if topic else [])
                assert (args.device, args.destroy, args.folder) == (None, [], None)
    assert set(systemd.calls) == {("start", "--no-block", RUN_UNIT)}


def test_a_start_answers_with_the_state(helper: Service, systemd: Systemd) -> None:
    held = lock.held(helper.places.lock, ID)
    systemd.starts = held.__enter__  # type: ignore[assignment]
    found = ask(helper, "start", **PLAN)
    assert (found["state"], found["id"]) == ("running", ID)
    try:
        assert ask(helper, "start", **PLAN) == {
            "error": "validation-runs",
            "parameters": {},
            "kind": "Conflict",
        }
        assert len(systemd.calls) == 1
    finally:
        held.__exit__(None, None, None)


def test_a_validation_that_ends_at_once_is_an_error(helper: Service, systemd: Systemd) -> None:
    found = ask(helper, "start", **PLAN)
    assert (found["error"], found["kind"], found["parameters"]) == (
        "validation-not-begun", "Failed", {"unit": RUN_UNIT},
    )  # fmt: skip


def test_a_sender_that_waits_no_longer_starts_nothing(helper: Service, systemd: Systemd) -> None:
    """The agent has told its user that no validation is running."""
    order = json.dumps({"order": "start", **PLAN}).encode()
    assert json.loads(helper.answer(order, lambda: False))["error"] == "validation-not-begun"
    assert systemd.calls == []
    assert ask(helper, "state") == {"state": "idle"}


def test_a_closed_connection_is_noticed() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours:
        with theirs:
            assert service._waits(ours)
        assert not service._waits(ours)


def test_a_start_that_takes_long_is_a_state(helper: Service, systemd: Systemd) -> None:
    """The sender may ask for the state before systemd has the order."""
    seen: list[Any] = []
    systemd.starts = lambda: seen.append(ask(helper, "state"))
    ask(helper, "start", **PLAN)
    assert seen == [{"state": "starting"}]
    # it has ended
    assert ask(helper, "state") == {"state": "idle"}


def test_a_cancel_follows_the_start_that_is_being_ordered(helper: Service, systemd: Systemd) -> None:
    answers: list[Any] = []
    cancel = threading.Thread(target=lambda: answers.append(ask(helper, "cancel")))

    def slow() -> None:
        cancel.start()
        cancel.join(0.2)
        assert cancel.is_alive()
        assert len(systemd.calls) == 1
        systemd.active = "activating"

    systemd.starts = slow
    ask(helper, "start", **PLAN)
    cancel.join(10)
    assert systemd.calls == [("start", "--no-block", RUN_UNIT), ("stop", "--no-block", RUN_UNIT)]
    assert answers == [{"state": "starting"}]


def test_an_order_that_systemd_took_without_an_answer_counts(helper: Service, systemd: Systemd) -> None:
    def slow() -> None:
        raise OSError("systemctl did not end within 15 s")

    systemd.starts = slow
    assert ask(helper, "start", **PLAN)["error"] == "validation-failed"
    assert ask(helper, "state") == {"state": "idle"}

    def taken() -> None:
        systemd.active = "activating"
        slow()

    systemd.starts = taken
    assert ask(helper, "start", **PLAN) == {"state": "starting"}


def test_a_start_that_cannot_work_orders_nothing(helper: Service, systemd: Systemd) -> None:
    def full(places: Places, size: int) -> Target:
        raise ValidateError("/data has 5 MB free")

    helper.find_target = full
    found = ask(helper, "start", **PLAN)
    assert (found["error"], found["parameters"]) == (
        "validation-impossible",
        {"reason": "/data has 5 MB free"},
    )
    assert systemd.calls == []
    assert not (helper.places.run / ORDER).exists()


def test_apps_that_cannot_be_paused_are_named_before_the_start(
    helper: Service, systemd: Systemd, tmp_path: Path
) -> None:
    assert ask(helper, "plan", **{**PLAN, "exclusive": True})["exclusive"] is True
    assert ask(helper, "plan", **PLAN)["exclusive"] is False
    (tmp_path / "sys/fs/cgroup/evenkeel.slice/evenkeel-apps.slice/app.service").mkdir(parents=True)
    systemd.shown = "Id=app.service\nWatchdogUSec=10s"
    for order in ("plan", "start"):
        found = ask(helper, order, **{**PLAN, "exclusive": True})
        assert (found["error"], found["kind"]) == ("validation-impossible", "Conflict")
        assert "WatchdogSec= of app.service" in found["parameters"]["reason"]
    assert not (helper.places.run / ORDER).exists()


@pytest.mark.parametrize(
    "bad",
    [
        {"profile": "quick --destroy /dev/sda"}, {"profile": 1}, {"topic": "../x"}, {"topic": None}, {"compare": 1},
        {"exclusive": "yes"}, {"profile": ""}, {"topic": "device\nX=1"},
    ],
)  # fmt: skip
def test_an_order_outside_the_lists_is_refused(
    helper: Service, systemd: Systemd, bad: dict[str, Any]
) -> None:
    for order in ("plan", "start"):
        found = ask(helper, order, **{**PLAN, **bad})
        assert (found["error"], found["kind"]) == ("external", "Failed")
    assert systemd.calls == []
    assert not (helper.places.run / ORDER).exists()


@given(
    st.one_of(
        st.binary(max_size=200),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.text(max_size=20),
            lambda inner: (
                st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner, max_size=3)
            ),
        ).map(lambda value: json.dumps(value).encode()),
        st.fixed_dictionaries(
            {"order": st.sampled_from([*service.ORDERS, "open", "answer", "__init__", "file"])},
            optional={
                name: st.text(max_size=20)
                for name in ("profile", "topic", "compare", "id", "first", "format")
            },
        ).map(lambda value: json.dumps(value).encode()),
    )
)
def test_any_packet_has_an_answer_and_starts_nothing(packet: bytes) -> None:
    systemd = Systemd(Path("/nonexistent") / RUN_CGROUP)
    root = Path("/nonexistent")
    helper = Service(Places(root, root, root, root), "1.0", systemd, begin_s=0)
    found = json.loads(helper.answer(packet))
    assert found == [] or "error" in found or found["state"] == "idle"
    assert systemd.calls == []


def test_progress_and_cancel(helper: Service, systemd: Systemd, monkeypatch: pytest.MonkeyPatch) -> None:
    assert ask(helper, "state") == {"state": "idle"}
    assert ask(helper, "cancel")["error"] == "validation-none"
    ended: list[int] = []
    monkeypatch.setattr(service.lock.signal, "pidfd_send_signal", lambda fd, number: ended.append(number))
    with lock.held(helper.places.lock, ID):
        progress = {
            "id": ID,
            "index": 3,
            "count": 9,
            "about": "reads",
            "seconds": 12,
            "seconds_left": 80,
            "written": 7,
            "exclusive": True,
            "groups": True,
        }
        helper.places.progress.write_text(json.dumps(progress))
        found = ask(helper, "state")
        assert (found["state"], found["id"], found["index"], found["count"]) == ("running", ID, 3, 9)
        assert (found["ran_s"], found["left_s"], found["written_bytes"]) == (12, 80, 7)
        assert (found["exclusive"], found["groups"]) == (True, True)
        assert ask(helper, "cancel")["state"] == "running"
    assert len(ended) == 1
    systemd.active = "activating"
    assert ask(helper, "cancel") == {"state": "starting"}
    assert systemd.calls == [("stop", "--no-block", RUN_UNIT)]


def test_another_command_is_no_validation(helper: Service, systemd: Systemd) -> None:
    """The progress of the last validation is still there."""
    helper.places.progress.parent.mkdir(parents=True)
    helper.places.progress.write_text(json.dumps({"id": ID, "index": 3, "count": 9, "about": "reads"}))
    with lock.held(helper.places.lock, "channels"):
        assert ask(helper, "state") == {"state": "running", "id": "", "about": "ek-validate channels"}
        found = ask(helper, "start", **PLAN)
        assert found["error"] == "validation-impossible"
        assert found["parameters"]["reason"].startswith("`ek-validate channels` is running; wait for its end")
    assert systemd.calls == []


def test_a_validation_that_ends_cannot_be_cancelled_and_does_not_start(
    helper: Service, systemd: Systemd
) -> None:
    """Its process has released the lock, and has not ended yet; or systemd runs `ek-validate restore`."""
    helper.places.progress.parent.mkdir(parents=True)
    helper.places.progress.write_text(json.dumps({"id": ID, "ending": True}))
    for active in ("active", "deactivating"):
        systemd.active = active
        assert ask(helper, "state") == {"state": "ending"}
        assert ask(helper, "cancel") == {"state": "ending"}
        assert ask(helper, "start", **PLAN)["error"] == "validation-runs"
    with lock.held(helper.places.lock, lock.RESTORE):
        found = ask(helper, "state")
        assert (found["state"], found["id"]) == ("ending", ID)
        assert ask(helper, "cancel")["state"] == "ending"
    assert systemd.calls == []
    systemd.active = "inactive"
    assert ask(helper, "state") == {"state": "idle"}
    systemd.starts = lambda: setattr(systemd, "active", "active")
    assert ask(helper, "start", **PLAN) == {"state": "starting"}


def test_the_list_is_bounded_and_a_damaged_report_hides_no_other(
    helper: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ask(helper, "list") == []
    stored(helper)
    stored(helper, OTHER, 1.5, state="running")
    (helper.places.runs / "20990101-000000").mkdir()
    (helper.places.runs / "20990101-000000/report.json").write_text("{")
    found = ask(helper, "list")
    assert [(r["id"], r["state"], r["held"], r["broken"]) for r in found] == [
        (OTHER, "partial", 0, 1),
        (ID, "complete", 1, 0),
    ]
    assert found[0]["reason"] == runs.ENDED_SILENTLY
    monkeypatch.setattr(runs, "MOST_KEPT", 1)
    assert len(ask(helper, "list")) == 1


def test_a_report_in_short(helper: Service) -> None:
    stored(helper, ratio=1.5, skipped={"stall.x": "no player"}, written=7, announced={"written": 9})
    found = ask(helper, "show", id=ID)
    assert (found["row"]["id"], found["written_bytes"], found["announced_bytes"]) == (ID, 7, 9)
    assert found["promises"][0]["verdict"] == "broken"
    assert {p["verdict"] for p in found["promises"][1:]} == {"open"}
    assert found["figures"][0]["verdict"] == "broken"
    assert found["figures"][1]["value"] == "98 MB/s"
    assert found["figures"][1]["wanted"] == ""
    assert found["left_out"] == [{"case": "stall.x", "reason": "no player"}]
    assert "does not hold the ratio 2:1" in " ".join(found["sentences"])


def test_a_scheduler_that_promises_nothing_breaks_nothing(helper: Service) -> None:
    """Its figures miss the bounds of evenkeel. They are shown, but no verdict is."""
    missed = Row("fair.read.1m.ratio", 1.0, "", None, (1.9, 2.1), None, "host", "6.12", "none", False)
    stored(helper, subject="none", rows=[missed])
    assert [(r["held"], r["broken"]) for r in ask(helper, "list")] == [(0, 0)]
    found = ask(helper, "show", id=ID)
    assert {p["verdict"] for p in found["promises"]} == {"open"}
    assert [(f["wanted"], f["verdict"]) for f in found["figures"]] == [("1.9 … 2.1", "open")]


def test_two_reports_are_compared(helper: Service) -> None:
    stored(helper)
    stored(helper, OTHER, 1.5)
    found = ask(helper, "compare", first=ID, second=OTHER)
    assert found["changed"] == [
        {"id": "fair.read.1m.ratio", "before": "2", "after": "1.5", "change": "-25.0 %",
         "verdict": "worse, target no longer met"},
    ]  # fmt: skip
    assert (found["same"], found["worse"], found["notes"]) == (1, 1, [])
    stored(helper, "20260202-120000", subject="none")
    assert ask(helper, "compare", first=ID, second="20260202-120000")["notes"] == [
        "The scheduler is evenkeel in the first report, and none in the second one."
    ]


@pytest.mark.parametrize("id_", ["", "../x", "20260131", OTHER, 7, None, f"{ID}/.."])
def test_an_id_that_does_not_exist_is_refused(helper: Service, id_: Any) -> None:
    stored(helper)
    for order in ("show", "open"):
        found = ask(helper, order, id=id_, format="json")
        assert (found["error"], found["kind"]) == ("validation-unknown", "InvalidArgument")
    assert ask(helper, "compare", first=ID, second=id_)["error"] == "validation-unknown"


def test_the_page_of_an_old_report_has_reports_that_are_older(helper: Service) -> None:
    """More later ones than the page shows must not hide them."""
    for day in range(1, 9):
        rows = [
            Row("device.a.mbps", 40.0 + day / 4, "MB/s", "higher", None, None, "host", "6.12", "evenkeel")
        ]
        stored(helper, f"2026010{day}-120000", device="A", rows=rows, started=f"2026-01-0{day}T12:00:00Z")
    content = helper.answer(json.dumps({"order": "open", "id": "20260102-120000", "format": "html"}).encode())
    assert b"<td>40.25</td>" in content
    assert b"2026-01-03" not in content


def test_the_page_has_earlier_reports_of_the_same_device_only(
    helper: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report_page, "MOST_EARLIER", 2)
    given: list[list[str]] = []
    monkeypatch.setattr(
        report_page, "html", lambda _, earlier: given.append([one.id for one in earlier]) or ""
    )
    for day in range(1, 6):
        stored(helper, f"2026010{day}-120000", device="A" if day != 4 else "B")
    for day in (5, 4):
        helper.answer(json.dumps({"order": "open", "id": f"2026010{day}-120000", "format": "html"}).encode())
    assert given == [["20260103-120000", "20260102-120000"], []]


def test_the_files_of_a_report(helper: Service) -> None:
    found = stored(helper)
    content = helper.answer(json.dumps({"order": "open", "id": ID, "format": "json"}).encode())
    assert Report.from_json(json.loads(content)) == found
    content = helper.answer(json.dumps({"order": "open", "id": ID, "format": "html"}).encode())
    assert content.startswith(b"<!doctype html>")
    assert b"fair.read.1m" in content
    assert ask(helper, "open", id=ID, format="pdf")["error"] == "external"


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    # the path of a socket may not be long
    with (
        tempfile.TemporaryDirectory(prefix="ek") as folder,
        socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as found,
    ):
        found.bind(f"{folder}/s")
        found.listen()
        yield found


def test_a_large_report_goes_in_packets_and_the_process_ends(
    helper: Service, listener: socket.socket
) -> None:
    stored(helper, notes={str(n): "x" * 1000 for n in range(500)})
    thread = threading.Thread(target=service.serve, args=(listener, helper, 0.5))
    thread.start()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as mine:
        mine.connect(listener.getsockname())
        mine.sendall(json.dumps({"order": "open", "id": ID, "format": "json"}).encode())
        content = b""
        while not isinstance(part := parse(mine.recv(PACKET_BYTES)), End):
            assert len(part) <= CONTENT_BYTES
            content += part
    assert (part.status, len(content) > 500_000) == (0, True)
    assert json.loads(content)["id"] == ID
    thread.join(10)
    assert not thread.is_alive()


def test_a_look_at_a_validation_loads_nothing_that_measures() -> None:
    code = (
        "import sys, evenkeel_validate.service; print([m for m in sys.modules if m.rpartition('.')[2] in "
        "('session', 'measure', 'loads', 'fio', 'probe', 'page', 'plots', 'msgspec')])"
    )
    done = subprocess.run(
        (sys.executable, "-c", code),
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": ":".join(sys.path)},
    )
    assert done.stdout == "[]\n"
