# SPDX-License-Identifier: Apache-2.0
"""The command line: what it prints, and its exit status."""

import contextlib
import errno
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fake_board as board
import pytest
from evenkeel_report.row import Row
from evenkeel_validate import __main__ as cli
from evenkeel_validate import lock, report, undo
from evenkeel_validate.report import Report
from evenkeel_validate.runs import Places
from evenkeel_validate.target import Target


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Places:
    sys_ = board.make_tree(tmp_path)
    (tmp_path / "data").mkdir()
    boot = tmp_path / "proc/sys/kernel/random/boot_id"
    boot.parent.mkdir(parents=True)
    boot.write_text("boot-1\n")
    target = Target("file", tmp_path / "data/.ek-validate/data", board.DISK, board.NUMBER, board.CAPACITY)
    monkeypatch.setattr(cli.target, "of_folder", lambda sys, folder, size: target)
    monkeypatch.setattr(cli, "_launcher", lambda: (board.Groups(tmp_path), True))
    return Places(sys_, tmp_path / "proc", tmp_path / "state", tmp_path / "run")


def stored(places: Places, id_: str = "20260131-120000", ratio: float = 2.0, **more: Any) -> Report:
    kernel = more.get("kernel", "6.12")
    row = Row("fair.read.1m.ratio", ratio, "", None, (1.9, 2.1), None, "host", kernel, "evenkeel", True)
    found = Report(
        id_,
        "1.0",
        "quick",
        "2026-01-31T12:00:00Z",
        **{"state": "complete", "subject": "evenkeel", "rows": [row], **more},
    )
    (places.runs / id_).mkdir(parents=True)
    report.save(found, places.runs / id_)
    return found


def test_a_run_from_start_to_end(places: Places, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["run", "--yes", "--only", "device.sequential-read.1m.qd1"]
    assert cli.main(arguments, places) == 0
    out = capsys.readouterr().out
    assert "They write 168 MB. This is" in out
    assert "Written: 168 MB of 168 MB announced." in out
    assert cli.main(["list"], places) == 0
    id_ = capsys.readouterr().out.split()[0]
    assert cli.main(["show", "--json"], places) == 0
    assert json.loads(capsys.readouterr().out)["id"] == id_


def test_the_size_of_the_test_file(places: Places, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["run", "--yes", "--only", "device.sequential-read.1m.qd1", "--file", "16"], places) == 0
    assert "Written: 17 MB of 17 MB announced." in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "words"),
    [(["--file", "15"], "'15' is not a whole number from 16 to 1000000000"),
     (["--budget", "-1"], "'-1' is not a whole number from 1 to"),
     (["--seed", "-1"], "'-1' is not a whole number from 0 to 4000000"),
     (["--seed", "4000001"], "'4000001' is not"), (["--seed", "1" * 50], "is not a whole number"),
     (["--compare-with", "bfq", "--no-compare"], "not allowed with argument")],
)  # fmt: skip
def test_options_that_make_no_sense_are_refused(
    places: Places, capsys: pytest.CaptureFixture[str], options: list[str], words: str
) -> None:
    with pytest.raises(SystemExit, match="2"):
        cli.main(["run", "--yes", *options], places)
    assert words in capsys.readouterr().err


def test_two_targets_are_refused(places: Places, capsys: pytest.CaptureFixture[str]) -> None:
    destroy = ["--destroy", "/dev/x", "--destroy", "/dev/x"]
    assert cli.main(["run", "--yes", "--folder", "/data", *destroy], places) == 1
    assert "--folder and --destroy name two targets" in capsys.readouterr().err


def test_a_dry_run_writes_nothing(places: Places, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["run", "--dry-run", "--json", "--profile", "full"], places) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["most_seconds"] == 2700
    assert any(c["case"] == "fair.read.100m" and c["scheduler"] == "bfq" for c in found["cases"])
    assert found["announcement"][1].startswith("They write")
    assert list((tmp_path / "data").iterdir()) == []
    assert not places.state.exists()


def test_an_exclusive_run_is_announced(places: Places, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["run", "--dry-run", "--exclusive"], places) == 0
    assert "All apps are paused for up to 2 min." in capsys.readouterr().out
    only = ["--only", "device.sequential-read.1m.qd1"]
    assert cli.main(["run", "--yes", "--exclusive", *only], places) == 0
    assert "All apps were paused" in capsys.readouterr().out


def test_without_a_terminal_a_run_needs_yes(
    places: Places, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", open("/dev/null"))  # noqa: SIM115, PTH123
    assert cli.main(["run"], places) == 1
    assert "give --yes" in capsys.readouterr().err


def test_an_answer_other_than_yes_starts_nothing(
    places: Places, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cli.sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr("builtins.input", lambda question: "")
    assert cli.main(["run"], places) == 1
    assert "nothing was started" in capsys.readouterr().err
    assert not places.state.exists()


@pytest.mark.parametrize("ends", [EOFError, KeyboardInterrupt])
def test_no_answer_starts_nothing(
    places: Places,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    ends: type[BaseException],
) -> None:
    def asked(question: str) -> str:
        raise ends

    monkeypatch.setattr(cli.sys.stdin, "isatty", lambda: True, raising=False)
    monkeypatch.setattr("builtins.input", asked)
    assert cli.main(["run"], places) == 1
    assert "nothing was started" in capsys.readouterr().err


def test_a_run_after_a_killed_one_measures_the_scheduler_of_the_board(
    places: Places, capsys: pytest.CaptureFixture[str]
) -> None:
    """A killed run leaves `none` active. The next one restores evenkeel first, and plans and measures that."""
    scheduler = places.sys / "block" / board.DISK / "queue/scheduler"
    places.state.mkdir()
    undo.set_scheduler(undo.Journal(places.journal, "boot-1"), scheduler.parent, "none")
    arguments = ["run", "--only", "fair.read.1m"]
    assert cli.main([*arguments, "--dry-run", "--json"], places) == 0
    assert {c["scheduler"] for c in json.loads(capsys.readouterr().out)["cases"]} == {"evenkeel"}
    assert scheduler.read_text() == "none\n"
    cli.main([*arguments, "--yes", "--json"], places)
    found = json.loads(capsys.readouterr().out)
    assert (found["state"], found["subject"]) == ("complete", "evenkeel")
    assert "fair.read.1m.ratio" in {row["id"] for row in found["rows"]}
    assert scheduler.read_text() == "evenkeel\n"


@pytest.mark.parametrize("options", [[], ["--no-guard"]])
def test_a_run_has_a_guard_unless_a_unit_restores_the_board(
    places: Places, monkeypatch: pytest.MonkeyPatch, options: list[str]
) -> None:
    entered: list[bool] = []

    @contextlib.contextmanager
    def watching() -> Iterator[None]:
        entered.append(True)
        yield

    monkeypatch.setattr(cli.guard, "watching", watching)
    assert cli.main(["run", "--yes", "--only", "device.sequential-read.1m.qd1", *options], places) == 0
    assert entered == ([] if options else [True])


def test_a_report_that_cannot_be_saved_is_printed(
    places: Places, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    real = report.save

    def full(found: Report, folder: Path) -> None:
        if found.ended:
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))
        real(found, folder)

    monkeypatch.setattr(cli.session.report, "save", full)
    assert cli.main(["run", "--yes", "--only", "device.sequential-read.1m.qd1"], places) == 1
    text = capsys.readouterr()
    assert "At best, this device reads" in text.out
    assert "the report could not be saved in" in text.err
    assert "Read-only file system" in text.err


def test_compare_names_both_devices(places: Places, capsys: pytest.CaptureFixture[str]) -> None:
    firmware = {"title": report.FIRMWARE, "value": "0x2", "source": "", "reason": ""}
    first = stored(places, target={"model": "BJTD4R", "where": "the file /data/x", "kind": "file"})
    second = stored(
        places, "20260201-120000", target={"model": "BJTD4R", "where": "the partition /dev/p", "kind": "partition"},
        facts=[firmware],
    )  # fmt: skip
    assert cli.main(["compare", first.id, second.id], places) == 0
    out = capsys.readouterr().out
    assert "First report: 20260131-120000, BJTD4R, the file /data/x\n" in out
    assert "The model is BJTD4R in the first report, and BJTD4R with firmware 0x2 in the second one." in out
    assert "The target is file in the first report, and partition in the second one." in out


def test_no_case_with_such_a_name(places: Places, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["run", "--yes", "--only", "absent"], places) == 1
    assert "no case can run. No case has such a name" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("more", "status"),
    [({}, 0), ({"ratio": 1.0}, cli.BROKEN), ({"state": "partial", "reason": "cancelled"}, cli.PARTIAL),
     ({"not_restored": ["x"]}, 1), ({"ratio": 1.0, "state": "partial"}, cli.BROKEN)],
)  # fmt: skip
def test_the_status_says_how_the_run_ended(places: Places, more: Any, status: int) -> None:
    assert cli._status(stored(places, **more)) == status


def test_show_names_what_is_partial_and_what_is_broken(
    places: Places, capsys: pytest.CaptureFixture[str]
) -> None:
    stored(places, ratio=1.0, state="partial", reason="cancelled", skipped={"a": "b"}, not_restored=["c"])
    assert cli.main(["show"], places) == 0
    out = capsys.readouterr().out
    assert "PARTIAL: cancelled" in out
    assert "MISS Bandwidth follows the weights" in out
    assert "Left out: a: b" in out
    assert "NOT RESTORED: c." in out


def test_show_calls_nothing_a_miss_that_was_not_promised(
    places: Places, capsys: pytest.CaptureFixture[str]
) -> None:
    stored(places, ratio=1.0, subject="none")
    assert cli.main(["show"], places) == 0
    out = capsys.readouterr().out
    assert "-    Bandwidth follows the weights. Not judged: this device has the scheduler none" in out
    assert "fair.read.1m.ratio is 1, bound 1.9 … 2.1" in out
    assert "MISS" not in out


def test_show_writes_a_page(places: Places, tmp_path: Path) -> None:
    found = stored(places)
    assert cli.main(["show", found.id, "--html", str(tmp_path / "x.html")], places) == 0
    assert (tmp_path / "x.html").read_text().startswith("<!doctype html>")


def test_without_a_validation_there_is_nothing_to_show(
    places: Places, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["list"], places) == 0
    assert "no validation yet" in capsys.readouterr().out
    assert cli.main(["show"], places) == 1
    assert "start one with `ek-validate run`" in capsys.readouterr().err
    assert cli.main(["cancel"], places) == 1
    assert "no validation is running" in capsys.readouterr().err


def test_cancel_names_what_it_ends(
    places: Places, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lock also has the name of a command that is no validation, and makes no report."""
    for name, line in (
        ("20260131-120000", "The validation 20260131-120000 ends now. Its report will be marked partial."),
        ("channels", "The command `ek-validate channels` ends now."),
    ):
        monkeypatch.setattr(lock, "stop", lambda path, name=name: name)
        assert cli.main(["cancel"], places) == 0
        assert capsys.readouterr().out == line + "\n"


def test_show_reports_the_progress_of_a_run(places: Places, capsys: pytest.CaptureFixture[str]) -> None:
    with lock.held(places.lock, "20260131-120000"):
        places.progress.write_text(
            json.dumps(
                {"id": "20260131-120000", "index": 2, "count": 9, "about": "reads", "seconds_left": 61}
            )
        )
        assert cli.main(["show"], places) == 0
        assert (
            capsys.readouterr().out
            == "Validation 20260131-120000 is running: 3 of 9, reads. About 61 s left.\n"
        )
        places.progress.unlink()
        assert cli.main(["show"], places) == 0
        assert "preparing" in capsys.readouterr().out
    with lock.held(places.lock, lock.RESTORE):
        assert cli.main(["show"], places) == 0
        assert "has ended, and what it changed is being restored" in capsys.readouterr().out
        assert cli.main(["cancel"], places) == 1
        assert "has ended, and what it changed is being restored" in capsys.readouterr().err


def test_another_command_is_no_validation(places: Places, capsys: pytest.CaptureFixture[str]) -> None:
    """The progress of the last validation is still there."""
    places.progress.parent.mkdir(parents=True)
    places.progress.write_text(
        json.dumps({"id": "20260131-120000", "index": 2, "count": 9, "seconds_left": 61})
    )
    stored(places)
    with lock.held(places.lock, "channels"):
        assert cli.main(["show"], places) == 0
        out = capsys.readouterr().out
        assert out.startswith("The command `ek-validate channels` is running. The latest report:\n")
        assert "Validation 20260131-120000, quick, : complete" in out
        assert cli.main(["show", "--json"], places) == 0
        assert json.loads(capsys.readouterr().out)["id"] == "20260131-120000"
    # a validation that has not reported its progress yet
    with lock.held(places.lock, "20260201-120000"):
        assert cli.main(["show"], places) == 0
        assert "Validation 20260201-120000 is running: 1 of ?, preparing." in capsys.readouterr().out


def test_two_devices_are_compared(places: Places, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stored(places, "20260101-000000")
    other = stored(places, "20260102-000000", 1.0, state="partial", reason="cancelled")
    file = str(places.runs / other.id / "report.json")
    assert cli.main(["compare", "20260101-000000", file], places) == 1
    out = capsys.readouterr().out
    assert "Note: the report 20260102-000000 is partial: cancelled" in out
    assert "worse, target no longer met" in out
    assert cli.main(["compare", "20260101-000000", "20260101-000000"], places) == 0


def test_two_versions_of_firmware_are_compared(places: Places, capsys: pytest.CaptureFixture[str]) -> None:
    """An update may bring another kernel. Its figures have the same ids."""
    stored(places, "20260101-000000", kernel="6.12.30")
    stored(places, "20260102-000000", kernel="6.12.31")
    assert cli.main(["compare", "20260101-000000", "20260102-000000"], places) == 0
    out = capsys.readouterr().out
    assert "Note: The kernel is 6.12.30 in the first report, and 6.12.31 in the second one.\n" in out
    assert "1 figure compared: 0 worse" in out


def test_restore(places: Places, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    places.state.mkdir()
    path = places.sys / "block" / board.DISK / "queue/nr_requests"
    undo.Journal(places.journal, "boot-1").set(path, "64")
    assert cli.main(["restore"], places) == 0
    assert path.read_text() == "128\n"
    journal = undo.Journal(places.journal, "boot-1")
    monkeypatch.setattr(undo, "file_system", lambda path: "1")
    journal.file(places.state / "data")
    monkeypatch.setattr(undo, "file_system", lambda path: "2")
    assert cli.main(["restore"], places) == 1
    assert "its file system is not mounted" in capsys.readouterr().err
    assert cli.main(["restore", "--forget"], places) == 0
    assert not places.journal.exists()
    places.journal.write_text("{")
    assert cli.main(["restore"], places) == 1
    assert "Reboot the board" in capsys.readouterr().err


def test_a_device_is_refused_if_the_mounts_cannot_be_read(
    places: Places, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["run", "--yes", "--device", "/dev/mmcblk0p4"], places) == 1
    assert "self/mountinfo: No such file or directory. Nothing was written" in capsys.readouterr().err


def test_a_kernel_without_swap_has_no_swap_space(places: Places, capsys: pytest.CaptureFixture[str]) -> None:
    (places.proc / "self").mkdir(parents=True)
    (places.proc / "self/mountinfo").write_text("")
    assert cli.main(["run", "--yes", "--device", "/dev/no-such-device"], places) == 1
    assert "cannot examine /dev/no-such-device" in capsys.readouterr().err
