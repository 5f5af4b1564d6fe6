# SPDX-License-Identifier: Apache-2.0
"""ek-validate channels with a fake sysfs of plain files and a fake ek-pairs."""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from evenkeel_validate import __main__ as cli
from evenkeel_validate import channels, lock, probe, runs
from evenkeel_validate.channels import BLOCK
from evenkeel_validate.errors import ValidateError
from evenkeel_validate.probe import Places

MIB = 1 << 20
GUIDE = Path(__file__).resolve().parents[3] / "docs/howto/probe-flash-channels.md"
# a fake ek-pairs: computes the times from a map and the time of a single read
TOOL = """#!{python}
import json, sys
sys.path.insert(0, {component!r})
from evenkeel_validate.channels import Map
same_channel = Map({map}).shares_channel({blocks})
ns = []
for line in sys.stdin:
    at = [int(word) // 4096 for word in line.split()]
    ns.append({single} if len(at) == 1 else {single} * 18 // 10 if same_channel(*at) else {single} * 11 // 10)
{extra}
print(json.dumps({{"bytes": 4096, "ns": ns}}))
"""


class Board:
    """A fake sysfs with one disk, 8:0, and a fake ek-pairs."""

    def __init__(self, top: Path) -> None:
        self.top = top
        self.places = Places(sys=str(top / "sys"), tool=str(top / "ek-pairs"))
        self.disk = top / "sys/devices/sda"
        self.blocks = 8192 * MIB // BLOCK
        self.numbers = {"/dev/sda": "8:0", "/dev/sda1": "8:1"}
        (top / "sys/dev/block").mkdir(parents=True)
        for name, text in {
            "size": str(self.blocks * 8),
            "stat": "0 0 0 0 0 0 0 0 0 0 0",
            "queue/rotational": "0",
            "queue/logical_block_size": "512",
            "queue/scheduler": "none mq-deadline [evenkeel]",
            "queue/iosched/channels": "1",
            "queue/iosched/chunk_kb": "0",
            "mq/0/nr_tags": "32",
        }.items():
            self.set(name, text)
        (top / "sys/dev/block/8:0").symlink_to(self.disk)
        self.times()

    def set(self, name: str, text: str) -> None:
        path = self.disk / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")

    def get(self, name: str) -> str:
        return (self.disk / "queue/iosched" / name).read_text().strip()

    def times(self, map_: str = "4, 16", single: int = 100_000, extra: str = "") -> None:
        tool = Path(self.places.tool)
        tool.write_text(
            TOOL.format(
                python=sys.executable, component=str(Path(probe.__file__).parents[1]), map=map_, blocks=self.blocks,
                single=single, extra=extra,
            )
        )  # fmt: skip
        tool.chmod(0o755)

    def run(self, path: str = "/dev/sda", **options: Any) -> dict[str, Any]:
        return probe.run(path, places=self.places, seed=1, **options)

    def refused(self, path: str = "/dev/sda", **options: Any) -> str:
        with pytest.raises(ValidateError) as caught:
            self.run(path, **options)
        assert "\n" not in str(caught.value)
        return str(caught.value)


@pytest.fixture
def board(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Board:
    made = Board(tmp_path)
    real: Callable[[str], str] = probe._number
    monkeypatch.setattr(probe, "_number", lambda path: made.numbers.get(path) or real(path))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    return made


def test_the_result(board: Board) -> None:
    answer = board.run(seconds=60)
    assert answer["finding"] == "16 channels, 16 KiB each in turn (sure: 0.99)"
    assert (answer["channels"], answer["chunk_kb"], answer["sure"]) == (16, 16, 0.99)
    assert (answer["usable"], answer["applied"], answer["others"]) == (True, False, 0)
    assert (answer["single_us"], answer["apart_us"], answer["together_us"]) == (100, 110, 180)
    assert (board.get("channels"), board.get("chunk_kb")) == ("1", "0")
    assert board.run("sda", seconds=10)["device"] == "/dev/sda"


def test_apply(board: Board) -> None:
    assert board.run(seconds=20, apply_result=True)["applied"] is True
    assert (board.get("channels"), board.get("chunk_kb")) == ("16", "16")
    board.times("0, 1, 8")
    answer = board.run(seconds=20, apply_result=True)
    assert (answer["kind"], answer["applied"]) == ("ranges", True)
    assert (board.get("channels"), board.get("chunk_kb")) == ("8", "0")


def test_an_unusable_result_is_not_applied(board: Board) -> None:
    board.times("0, 1, 1")
    board.set("queue/iosched/channels", "7")
    answer = board.run(seconds=20, apply_result=True)
    assert (answer["kind"], answer["usable"], answer["applied"]) == ("one", False, False)
    assert board.get("channels") == "7"


def test_apply_needs_evenkeel(board: Board) -> None:
    # the refusal comes before the measurement
    Path(board.places.tool).unlink()
    board.set("queue/scheduler", "none [mq-deadline] evenkeel")
    assert board.refused(apply_result=True) == (
        "--apply needs the scheduler evenkeel on /dev/sda, which has mq-deadline"
    )
    board.set("queue/scheduler", "[evenkeel]")
    (board.disk / "queue/iosched/channels").unlink()
    assert "has no tunable 'channels'" in board.refused(apply_result=True)


def test_a_tunable_that_is_refused(board: Board) -> None:
    (board.disk / "queue/iosched/chunk_kb").unlink()
    (board.disk / "queue/iosched/chunk_kb").mkdir()
    board.set("queue/iosched/channels", "7")
    assert "cannot set chunk_kb of /dev/sda to 16: " in board.refused(seconds=20, apply_result=True)
    # Channels are off, which is safe. Half of a map would not be safe.
    assert board.get("channels") == "1"


def test_disks_that_need_no_measuring(board: Board) -> None:
    Path(board.places.tool).unlink()
    board.set("queue/rotational", "1")
    assert board.run()["finding"] == "a rotating disk: it has no channels"
    board.set("queue/rotational", "0")
    board.set("mq/0/nr_tags", "2")
    assert board.run()["kind"] == "one"


def test_paths_that_are_not_a_disk(board: Board, tmp_path: Path) -> None:
    assert board.refused("/dev/none") == "cannot examine /dev/none: No such file or directory"
    assert board.refused("none") == "cannot examine /dev/none: No such file or directory"
    file = tmp_path / "image"
    file.write_text("")
    assert board.refused(str(file)) == f"{file} is not a disk but a file"
    assert board.refused(str(tmp_path)) == f"{tmp_path} is not a disk but a directory"
    assert board.refused("/dev/null") == "/dev/null is not a disk but something else"
    board.set("sda1/partition", "1")
    (board.top / "sys/dev/block/8:1").symlink_to(board.disk / "sda1")
    assert board.refused("/dev/sda1") == "/dev/sda1 is a partition; probe the whole disk, sda"
    board.set("slaves/sdb/size", "1")
    assert board.refused() == "/dev/sda consists of other devices; probe one of them: sdb"


def test_disks_that_cannot_be_probed(board: Board) -> None:
    board.set("size", str(63 * MIB // 512))
    assert board.refused() == "/dev/sda is too small for a probe: it has 63 MiB, and 64 MiB are needed"
    board.set("size", "0")
    assert "it has 0 MiB" in board.refused()
    board.set("size", str(64 * MIB // 512))
    board.set("queue/logical_block_size", "16384")
    assert "has sectors of 16384 bytes" in board.refused()
    (board.disk / "size").unlink()
    assert "does not report the size" in board.refused()


def test_root_is_needed(board: Board, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert board.refused() == "reading /dev/sda needs root; run ek-validate as root"


def test_too_slow_for_the_time(board: Board) -> None:
    board.times(single=3_000_000)
    message = board.refused(seconds=5)
    assert message.startswith("a pair of reads of /dev/sda takes 3")
    assert "us; allow at least --seconds " in message


def test_a_disk_that_becomes_busy(board: Board) -> None:
    board.times(extra="ns = ns if len(ns) < 1000 else ns[:1000]")
    assert "only 1000 of " in board.refused(seconds=20)


def test_requests_of_other_programs_are_counted(board: Board) -> None:
    # the probe reads the statistics twice, both times after the trial
    stat = f"p = {str(board.disk / 'stat')!r}; n = 10 ** 6 if len(ns) > 1000 else 0"
    board.times(extra=f"{stat}; n and open(p, 'w').write(f'{{n}} 0 0 0 0 0 0 0 0 0 0')")
    answer = board.run(seconds=20)
    assert answer["others"] > 500_000
    assert answer["finding"].endswith(f"; other programs made {answer['others']} requests meanwhile")


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        ("sys.exit('ek-pairs: reading /dev/sda at 0: Input/output error')", "reading /dev/sda at 0: Input/output error"),
        ("import os; os.kill(os.getpid(), 9)", "ek-pairs failed with status -9"),
        ("print('{'); sys.exit(0)", "ek-pairs printed something other than times"),
        ("print('[]'); sys.exit(0)", "ek-pairs printed something other than times"),
    ],
)  # fmt: skip
def test_a_tool_that_fails(board: Board, extra: str, message: str) -> None:
    board.times(extra=extra)
    assert message in board.refused()


def test_no_tool(board: Board) -> None:
    Path(board.places.tool).unlink()
    assert "cannot run " in board.refused()


# --- the command line --------------------------------------------------------


def test_the_command(
    board: Board, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    places = runs.Places(run=board.top / "run")
    real = probe.run
    monkeypatch.setattr(probe, "run", lambda path, **o: real(path, places=board.places, seed=1, **o))
    assert cli.main(["channels", "/dev/sda", "--seconds", "20"], places) == 0
    assert capsys.readouterr() == ("16 channels, 16 KiB each in turn (sure: 0.99)\n", "")
    assert cli.main(["channels", "/dev/sda", "--apply", "--seconds", "20"], places) == 0
    assert capsys.readouterr() == ("16 channels, 16 KiB each in turn (sure: 0.99); applied\n", "")
    board.set("queue/rotational", "1")
    assert cli.main(["channels", "/dev/sda", "--json"], places) == 0
    assert json.loads(capsys.readouterr().out)["kind"] == "disk"
    assert cli.main(["channels", "/dev/sda", "--apply"], places) == 1
    assert capsys.readouterr() == (
        "a rotating disk: it has no channels\n",
        "ek-validate: nothing was applied, because the result is not usable\n",
    )
    assert cli.main(["channels", "/dev/sdz"], places) == 1
    assert capsys.readouterr() == ("", "ek-validate: cannot examine /dev/sdz: No such file or directory\n")


def test_no_probe_while_a_validation_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """At its end, a validation restores the tunables that the probe would set."""
    places = runs.Places(run=tmp_path)
    with lock.held(places.lock, "20260131-120000"):
        assert cli.main(["channels", "/dev/sdz"], places) == 1
    assert "a validation is running" in capsys.readouterr().err


def test_no_validation_while_a_probe_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reads of the probe would be in the figures."""
    places = runs.Places(run=tmp_path)
    holders = []

    def probed(device: str, **_: object) -> dict[str, object]:
        holders.append(lock.holder(places.lock))
        with (
            pytest.raises(ValidateError, match="`ek-validate channels` is running"),
            lock.held(places.lock, "x"),
        ):
            pass
        return {"finding": "1 channel", "applied": False}

    monkeypatch.setattr(cli.probe, "run", probed)
    assert cli.main(["channels", "/dev/sdz"], places) == 0
    assert holders == [(os.getpid(), "channels")]
    assert lock.holder(places.lock) is None


@pytest.mark.parametrize(
    "arguments",
    [(), ("a", "b"), ("a", "--seconds", "0"), ("a", "--seconds", "x"), ("a", "--seconds", "3601"),
     ("a", "--seconds", "9" * 30), ("a", "--seconds", "1.5"), ("a", "--seconds", "-1"), ("a", "--write")],
)  # fmt: skip
def test_wrong_usage(arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        cli.main(["channels", *arguments])
    assert caught.value.code == 2
    assert "usage: ek-validate" in capsys.readouterr().err


@pytest.mark.skipif(not GUIDE.is_file(), reason="docs/howto is not part of this package")
def test_the_guide_has_all_results(board: Board) -> None:
    guide = GUIDE.read_text()
    for kind in ("stripes", "ranges", "none", "scattered", "one", "disk", "unsure"):
        assert f"`{kind}`" in guide
    for field in board.run(seconds=10):
        assert f"`{field}`" in guide
    assert f"Below {channels.ENOUGH} " in guide
