# SPDX-License-Identifier: Apache-2.0
"""tests/run-stages: the order of stages, two at a time, and the effect of a failure."""

from __future__ import annotations

import os
import re
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from project import TOP, clean_environment, load

run_stages = load(TOP / "tests/run-stages")
PATIENCE_S = 120  # only for a hang: on a busy host, a program needs long to start or to end
TABLE = """
root  10 1 -
kernel 300 2 root
unit  100 1 root
lint   20 1 kernel
image  60 1 kernel
boot  200 1 image
"""


def test_the_projects_table_is_right() -> None:
    stages = run_stages.parse((TOP / "tests/stages").read_text())
    targets = (TOP / "Makefile").read_text() + (TOP / "mk/test.mk").read_text()
    for name in stages:
        if name.startswith("boot-"):  # mk/test.mk takes these targets from the table
            assert (TOP / f"tests/boot/test_{name[5:].replace('-', '_')}.py").exists(), name
        else:
            assert f"{name}:" in targets or f"{name} " in targets, f"no target {name}"
    # The table has these public targets of the Makefile as stages. The targets unit and boot are there in parts.
    for name in ("lint", "kunit", "torture", "lab", "browser", "pages"):
        assert name in stages
    # The most that a run can draw takes an hour, with two stages at a time: one stage of each kind, and what it needs.
    always = {stage.name for stage in stages.values() if not stage.kind}
    needs = {name: run_stages.chosen(stages, [name]).keys() - always for name in stages.keys() - always}
    worst: dict[str, int] = {}
    for name, more in needs.items():
        if (kind := stages[name].kind) not in ("build", "deep"):
            worst[kind] = max(worst.get(kind, 0), sum(stages[other].budget for other in more))
    assert worst.keys() == {"kernel", "board", "panel"}
    assert sum(stages[name].budget for name in always) + sum(worst.values()) < 2 * 60 * 60


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("a 10 1", r"expected STAGE BUDGET CPUS AFTER \[KIND\]"),
        ("a ten 1 -", r"expected STAGE BUDGET CPUS AFTER \[KIND\]"),
        ("a 10 1 b", "a needs b, which is no stage above it"),
        ("a 10 1 -\na 10 1 -", "stage a is there twice"),
    ],
)
def test_a_wrong_table_is_refused_with_the_line(line: str, complaint: str) -> None:
    with pytest.raises(run_stages.TableError, match=complaint):
        run_stages.parse(line)


def kinds() -> dict[str, Any]:
    """Stages by name: those of TABLE, five of one kind, and two of another, of which one needs a build of its own."""
    boards = "".join(f"boot{n} 100 1 image board\n" for n in range(5))
    return run_stages.parse(
        f"{TABLE}{boards}debug 300 2 kernel build\ntorture 100 1 debug test\nguests 100 1 kernel test\nlong 900 1 image deep\n"
    )


def waiting(stages: dict[str, Any]) -> set[str]:
    return {stage.name for stage in stages.values() if stage.state == "waiting"}


def test_one_stage_of_each_kind_is_drawn_and_the_others_may_follow() -> None:
    firsts = set()
    for seed in range(50):
        stages = kinds()
        later = run_stages.draw(stages, str(seed))
        first = waiting(stages) - run_stages.parse(TABLE).keys()
        assert len({name for name in first if name.startswith("boot")}) == 1
        assert len(first & {"torture", "guests"}) == 1
        assert ("debug" in first) == ("torture" in first), "a build runs only for a stage that needs it"
        assert waiting(stages) >= run_stages.parse(TABLE).keys()
        assert set(later) == stages.keys() - waiting(stages) - {"long", "debug"}
        assert {later[0][:4], later[1][:4]} & {"tort", "gues"}, "one of each kind in turn"
        assert later == run_stages.draw(kinds(), str(seed))
        firsts |= first
    assert firsts == {f"boot{n}" for n in range(5)} | {"torture", "guests", "debug"}, (
        "each stage is drawn sometimes"
    )


def test_a_stage_that_was_left_out_runs_only_if_time_is_left() -> None:
    table = "a 1000 1 -\nb 600 1 a k\nc 600 1 a k\n"

    def added(began: float, end: float, *, pace: float = 1.0) -> bool:
        stages = run_stages.parse(table)
        (name,) = run_stages.draw(stages, "1")
        stages["a"].state, stages["a"].seconds = "passed", 1000 * pace
        (first,) = waiting(stages)
        stages[first].state, stages[first].began = "running", 0.0
        done: bool = run_stages.add_left_out(stages, [name], 2, began, end)
        assert (stages[name].state == "waiting") == done
        return done

    assert added(100, 700)
    assert not added(100, 699)
    assert not added(100, 1200, pace=2.0), "the machine is half as fast as the budgets say"
    assert added(100, 1300, pace=2.0)
    assert added(100, 700, pace=0.03), (
        "a stage that found its results in the cache says nothing about the machine"
    )
    assert not added(100, 699, pace=0.03)


def test_a_stage_that_was_left_out_comes_with_the_build_that_it_needs() -> None:
    stages = kinds()
    seed = next(str(n) for n in range(50) if "torture" in run_stages.draw(kinds(), str(n)))
    later = run_stages.draw(stages, seed)
    for name in TABLE.split("\n"):
        if name:
            stages[name.split()[0]].state = "passed"
    assert not run_stages.add_left_out(stages, ["torture"], 2, 0, 399), "the build and the stage need 400 s"
    assert run_stages.add_left_out(stages, ["torture"], 2, 0, 10_000)
    assert {"debug", "torture"} <= waiting(stages)
    assert "long" not in later


def test_a_stage_that_was_left_out_waits_for_a_free_core() -> None:
    stages = run_stages.parse("a 10 1 -\nb 10 1 -\nc 10 1 - k\nd 10 1 - k\n")
    later = run_stages.draw(stages, "1")
    stages["a"].state = stages["b"].state = "running"
    assert not run_stages.add_left_out(stages, later, 2, 0, 10_000)
    stages["a"].state = "passed"
    assert run_stages.add_left_out(stages, later, 2, 0, 10_000)


@pytest.mark.parametrize("seed", ["0", "1", "2", "3"])
def test_a_run_of_all_stages_says_what_it_left_out(
    project: Path, seed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run of four hours has no time for a second stage of a kind; one of ten seconds has."""
    table, makefile = "a 10 1 - k\nb 10 1 - k\nc 15000 1 - k\n", "a b c:\n"
    stages = run_stages.parse(table)
    run_stages.draw(stages, seed)
    monkeypatch.setenv("EVENKEEL_TEST_SEED", seed)
    out = run(project, table, makefile)
    assert re.search(r"^run only if that takes at most 45 min in all: \w+ \w+$", out.stdout, re.MULTILINE), (
        out.stdout
    )
    if stages["c"].state == "waiting":  # drawn first; then there is time for the others
        assert out.stdout.rstrip().endswith("stages: 3 passed, 0 failed")
    else:
        assert re.search(r"^left out: c$", out.stdout, re.MULTILINE), out.stdout
        assert out.stdout.rstrip().endswith("stages: 2 passed, 0 failed")
    assert run(project, table, makefile, "a", "b", "c").stdout.rstrip().endswith("stages: 3 passed, 0 failed")


def test_the_longest_chain_starts_first() -> None:
    stages = run_stages.parse(TABLE)
    assert run_stages.next_stage(stages, 2).name == "root"
    stages["root"].state = "passed"
    assert run_stages.next_stage(stages, 2).name == "kernel"
    stages["kernel"].state = "running"
    assert run_stages.next_stage(stages, 2).name == "unit"
    stages["unit"].state = "running"
    assert run_stages.next_stage(stages, 2) is None


def test_two_stages_that_use_all_cores_do_not_run_at_once() -> None:
    stages = run_stages.parse("a 10 2 -\nb 10 2 -\nc 5 1 -\n")
    stages["a"].state = "running"
    assert run_stages.next_stage(stages, 2).name == "c"
    assert run_stages.next_stage(stages, 4).name == "b"


def test_a_stage_alone_runs_on_any_machine() -> None:
    stages = run_stages.parse("a 10 8 -\n")
    assert run_stages.next_stage(stages, 1).name == "a"


def test_named_stages_bring_what_they_need() -> None:
    assert list(run_stages.chosen(run_stages.parse(TABLE), ["boot"])) == ["root", "kernel", "image", "boot"]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with run-stages, and a Makefile whose stages are shell lines."""
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/run-stages").write_bytes((TOP / "tests/run-stages").read_bytes())
    return tmp_path


def run(project: Path, table: str, makefile: str, *args: str) -> subprocess.CompletedProcess[str]:
    (project / "tests/stages").write_text(table)
    (project / "Makefile").write_text(makefile)
    return subprocess.run(
        ["python3", project / "tests/run-stages", *args],
        env=clean_environment(), capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


def test_a_failure_is_shown_and_spares_what_does_not_need_it(project: Path) -> None:
    out = run(
        project,
        "a 10 1 -\nb 10 1 a\nc 10 1 b\nd 0 1 a\n",
        "a:\n\t@echo made\nb:\n\t@echo what went wrong; exit 3\nc:\n\t@touch c\nd:\n\t@sleep 0.1\n",
    )
    assert out.returncode == 1
    assert "b | what went wrong" in out.stdout
    assert "c: skipped, because a stage that it needs has failed" in out.stdout
    assert not (project / "c").exists()
    assert "d: passed in 0 s, over its budget of 0 s" in out.stdout
    assert out.stdout.rstrip().endswith("stages: 2 passed, 2 failed")
    # CI keeps only the end of the output
    assert "b failed:\n  what went wrong\n" in out.stdout[out.stdout.index("all stages in") :]
    assert "what went wrong" in (project / "build/stages/b.log").read_text()


def test_independent_stages_run_two_at_a_time(project: Path) -> None:
    began = time.monotonic()
    out = run(project, "a 10 1 -\nb 10 1 -\n", "a b:\n\t@sleep 2\n")
    assert out.returncode == 0
    assert out.stdout.rstrip().endswith("stages: 2 passed, 0 failed")
    if (os.cpu_count() or 1) > 1:
        assert time.monotonic() - began < 3.8


def test_the_processor_time_of_a_stage_is_shown(project: Path) -> None:
    """Other load on the machine changes the wall time of a stage, but hardly its processor time, including children."""
    burn = "python3 -c 'import time; [None for _ in iter(time.process_time, 0) if time.process_time() > 1.2 and exit()]'"
    out = run(project, "a 10 1 -\n", f'a:\n\t@sh -c "{burn}; true"\n')
    assert out.returncode == 0, out.stdout
    (row,) = [line for line in out.stdout.splitlines() if re.match(r"a +\d+ +10 +\d+$", line)]
    assert int(row.split()[3]) >= 1, out.stdout
    assert re.search(r"with 0\.\d min of processor time", out.stdout)


def test_all_stages_get_the_same_seed(project: Path) -> None:
    """A stage may continue what another one has measured (tests/sample.py)."""
    makefile = "a b:\n\t@echo seed $$EVENKEEL_TEST_SEED\n"
    out = run(project, "a 10 1 -\nb 10 1 -\n", makefile)
    found = set(re.findall(r"[ab] \| seed (\d+)", out.stdout))
    assert len(found) == 1, out.stdout
    assert f"samples of seed {found.pop()}; DEEP=1 runs all tests" in out.stdout


def test_an_unknown_stage_is_named_with_the_known_ones(project: Path) -> None:
    out = run(project, "a 10 1 -\n", "a:\n", "nothing")
    assert out.returncode == 2
    assert "there is no stage nothing; known: a" in out.stderr


def runs(pid: int) -> bool:
    """Whether the process PID runs. A zombie does not."""
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_an_end_from_outside_ends_the_stages(project: Path) -> None:
    (project / "tests/stages").write_text("a 10 1 -\n")
    (project / "Makefile").write_text("a:\n\t@echo $$$$ > pid; exec sleep 100\n")
    with subprocess.Popen(
        ["python3", project / "tests/run-stages"], env=clean_environment(), stdout=subprocess.DEVNULL
    ) as running:
        deadline = time.monotonic() + PATIENCE_S
        while not (project / "pid").exists() or not (project / "pid").read_text():
            assert time.monotonic() < deadline
            time.sleep(0.05)
        running.terminate()
        running.wait(timeout=PATIENCE_S)
    pid = int((project / "pid").read_text())
    deadline = time.monotonic() + PATIENCE_S
    while runs(pid):
        assert time.monotonic() < deadline, "the stage outlived run-stages"
        time.sleep(0.05)


def test_a_run_that_takes_too_long_ends_and_shows_where_it_was(project: Path) -> None:
    script = project / "tests/run-stages"
    text = script.read_text()
    assert "\nEND = 80\n" in text
    script.write_text(text.replace("\nEND = 80\n", "\nEND = 0.03\n"))
    hangs = "import time\ntry:\n    time.sleep(50)\nexcept KeyboardInterrupt:\n    print('it hung here')\n"
    (project / "hangs.py").write_text(hangs)
    began = time.monotonic()
    out = run(
        project, "a 10 1 -\nb 10 1 -\nc 10 1 b\n", "a:\n\t@true\nb:\n\t@python3 -u hangs.py\nc:\n\t@touch c\n"
    )
    assert time.monotonic() - began < 40
    assert out.returncode == 1
    assert "0.03 min are over: what still runs is interrupted" in out.stdout
    assert re.search(r"^b failed:\n.*it hung here$", out.stdout, re.M | re.S)
    assert re.search(r"^c .* skipped$", out.stdout, re.M)
    assert out.stdout.rstrip().endswith("stages: 1 passed, 2 failed")
    assert not (project / "c").exists()
