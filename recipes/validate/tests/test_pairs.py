# SPDX-License-Identifier: Apache-2.0
"""ek-pairs on a file, built with sanitizers: measurements and refusals."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

COMPONENT = Path(__file__).resolve().parent.parent
MIB = 1 << 20


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("pairs") / "ek-pairs"
    subprocess.run(
        ["gcc", "-std=gnu17", "-D_GNU_SOURCE", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-Wshadow",
         "-Wmissing-prototypes", "-Wstrict-prototypes", "-fsanitize=address,undefined",
         "-fno-sanitize-recover=all", "-o", str(out), str(COMPONENT / "src/ek_pairs.c"), "-laio"],
        check=True,
    )  # fmt: skip
    return out


@pytest.fixture(scope="module")
def file() -> Iterator[Path]:
    """A file in the clone, because a tmpfs may not support direct I/O."""
    path = COMPONENT / f".test-pairs-{os.getpid()}"
    path.write_bytes(bytes(MIB))
    yield path
    path.unlink()


def run(program: Path, *args: str | Path, plan: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run([program, *args], input=plan, capture_output=True, text=True, timeout=30)


def refused(done: subprocess.CompletedProcess[str], status: int, message: str) -> None:
    assert (done.returncode, done.stdout) == (status, ""), done.stderr
    assert message in done.stderr
    assert done.stderr.startswith("ek-pairs: ")
    assert done.stderr.count("\n") == 1


def test_a_time_for_each_line(program: Path, file: Path) -> None:
    done = run(program, file, plan="0\n4096 8192\n1044480 0")
    assert (done.returncode, done.stderr) == (0, "")
    answer = json.loads(done.stdout)
    assert answer["bytes"] == 4096
    assert len(answer["ns"]) == 3
    assert all(0 < ns < 10e9 for ns in answer["ns"])


def test_other_sizes_and_an_empty_plan(program: Path, file: Path) -> None:
    done = run(program, "--bytes", "16384", file, plan="16384 0\n")
    assert len(json.loads(done.stdout)["ns"]) == 1
    assert json.loads(run(program, file).stdout) == {"bytes": 4096, "ns": []}


def test_it_keeps_its_time_limit(program: Path, file: Path) -> None:
    done = run(program, "--seconds", "1", file, plan="0 8192\n" * 1_000_000)
    assert done.returncode == 0
    assert 0 < len(json.loads(done.stdout)["ns"]) < 1_000_000


def test_it_does_not_write(program: Path, file: Path) -> None:
    before = (file.read_bytes(), file.stat().st_mtime_ns)
    run(program, file, plan="0 4096\n")
    assert (file.read_bytes(), file.stat().st_mtime_ns) == before
    assert "O_RDONLY" in (COMPONENT / "src/ek_pairs.c").read_text()


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        ("\n", "line 1 of the plan is not one or two offsets"),
        ("0\nx\n", "line 2 of the plan is not one or two offsets"),
        ("0 4096 8192\n", "line 1 of the plan is not one or two offsets"),
        ("0  4096\n", "not one or two offsets"),
        ("0 \n", "not one or two offsets"),
        ("-4096\n", "not one or two offsets"),
        ("99999999999999999999999\n", "not one or two offsets"),
        ("18446744073709547520\n", "is beyond the end of the device"),
        ("1048576\n", "line 1 of the plan: 1048576 is beyond the end of the device"),
        ("0 1\n", "line 1 of the plan: 1 is not a multiple of 4096"),
    ],
)
def test_bad_plans(program: Path, file: Path, plan: str, message: str) -> None:
    refused(run(program, file, plan=plan), 2, message)


def test_a_plan_that_is_too_long(program: Path, file: Path) -> None:
    refused(run(program, file, plan="0\n" * 1_000_001), 2, "more than 1000000 lines")


def test_bad_usage(program: Path, file: Path) -> None:
    refused(run(program), 2, "expected one device, not 0")
    refused(run(program, file, file), 2, "expected one device, not 2")
    refused(run(program, "--yaml", file), 2, "is not an option")
    refused(run(program, file, "--bytes"), 2, "its value is missing")
    for text in ("0", "-1", "1k", "", "1048577", "99999999999999999999999"):
        refused(run(program, "--bytes", text, file), 2, f"--bytes: '{text}' is not a whole number")
    refused(run(program, "--bytes", "1000", file), 2, "--bytes: 1000 is not a multiple of 512")
    refused(
        run(program, "--seconds", "3601", file), 2, "--seconds: '3601' is not a whole number from 1 to 3600"
    )


def test_devices_that_cannot_be_read(program: Path, tmp_path: Path) -> None:
    refused(run(program, tmp_path / "none", plan="0\n"), 1, "No such file or directory")
    refused(run(program, tmp_path, plan="0\n"), 2, "does not support direct I/O")
    refused(run(program, "/dev/null", plan="0\n"), 2, "/dev/null ")


def test_output_that_cannot_be_written(program: Path, file: Path) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([program, file], input="0\n", stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1
    assert "writing the times" in done.stderr
