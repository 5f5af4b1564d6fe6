# SPDX-License-Identifier: Apache-2.0
"""ek-appstart as a process, on a real file system."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from harness import APPSTART, in_order, refused, run, summary


def prepare(app: Path, *args: str) -> None:
    out = run(APPSTART, "prepare", *args, str(app))
    assert (out.returncode, out.stderr) == (0, "")


def digest(app: Path) -> str:
    """Hash of all names and contents."""
    files = sorted(p for p in app.rglob("*") if p.is_file())
    return hashlib.sha256(
        b"".join(str(p.relative_to(app)).encode() + p.read_bytes() for p in files)
    ).hexdigest()


def test_a_seed_makes_the_same_application(disk: Path) -> None:
    for name, seed in (("a", "3"), ("b", "3"), ("c", "4")):
        prepare(disk / name, "--files", "60", "--seed", seed)
    assert digest(disk / "a") == digest(disk / "b") != digest(disk / "c")
    # The hash is the same on any machine. It may change only together with TREE_FORMAT in tree.c.
    assert digest(disk / "a") == "7a77b8facb51c842dae553e864f13f0b40ffb3981d880d6c8db1e6a717e493f5"


def test_files_have_the_given_number_and_total(disk: Path) -> None:
    prepare(disk / "app", "--files", "400", "--seed", "7", "--total", "40MB")
    sizes = {
        kind: [p.stat().st_size for p in (disk / "app" / kind).iterdir()] for kind in ("lib", "etc", "share")
    }
    every = [s for kind in sizes.values() for s in kind]
    assert (len(every), sum(every)) == (400, 40_000_000)
    assert 4096 <= min(every) < max(every) <= 512 << 10
    assert {kind: len(s) for kind, s in sizes.items()} == {"lib": 40, "etc": 120, "share": 240}
    assert max(sizes["etc"]) <= min(sizes["share"])
    assert max(sizes["share"]) <= min(sizes["lib"])


@pytest.mark.parametrize("threads", ["1", "4"])
def test_a_cold_run_reads_all_files(disk: Path, threads: str) -> None:
    app = disk / "app"
    prepare(app, "--files", "50")
    row = summary(APPSTART, "run", "--cold", "--threads", threads, "--buckets", str(app))
    total = sum(p.stat().st_size for p in app.glob("*/*"))
    assert (row["files"], row["bytes"], row["warm_bytes"]) == (50, total, 0)
    parts = row["libraries_ms"] + row["configuration_ms"] + row["assets_ms"]
    assert row["total_ms"] == pytest.approx(parts, abs=0.01)
    # one sample for each 64 KiB, or part of 64 KiB, of a file, and one for the head of each of the 5 libraries
    want = sum(-(-p.stat().st_size // 65536) for p in app.glob("*/*")) + 5
    assert row["reads"] == want == sum(count for _, count in row["read_us"])
    in_order(row, "read")
    warm = summary(APPSTART, "run", str(app))
    assert warm["read_p50_us"] < row["read_p50_us"]


def test_one_file_is_an_application_too(disk: Path) -> None:
    prepare(disk / "app", "--files", "1")
    assert summary(APPSTART, "run", str(disk / "app"))["files"] == 1


def test_a_changed_tree_is_refused(disk: Path) -> None:
    app = disk / "app"
    prepare(app, "--files", "20")
    manifest = (app / "manifest").read_text()
    victim = next((app / "share").iterdir())
    whole = victim.read_bytes()
    victim.write_bytes(whole[:-1])
    refused(run(APPSTART, "run", str(app)), 1, f"{victim} has changed since it was prepared")
    victim.unlink()
    refused(run(APPSTART, "run", str(app)), 1, f"cannot open {victim}: No such file")
    for text in ("", manifest[:20], manifest + "more\n", manifest.replace("seed ", "seed 0")):
        (app / "manifest").write_text(text)
        refused(run(APPSTART, "run", str(app)), 1, f"cannot read {app}/manifest: this is no manifest")
    (app / "manifest").unlink()
    refused(run(APPSTART, "run", str(app)), 1, "'ek-appstart prepare' writes it")


@pytest.mark.parametrize(
    ("args", "status", "message"),
    [
        (["prepare"], 2, "expected prepare or run, and one folder, but got 1"),
        (["start", "D"], 2, "'start' is not one of: prepare, run"),
        (["prepare", "--files", "0", "D"], 2, "--files: '0' is not a whole number"),
        (["prepare", "--total", "1G", "D"], 2, "cannot add up to that total"),
        (["prepare", "--files", "400", "--total", "1M", "D"], 2, "cannot add up to that total"),
        (["prepare", "--cold", "D"], 2, "are for run only"),
        (["run", "--seed", "3", "D"], 2, "are for prepare only"),
        (["run", "D"], 1, "cannot open"),
        (["run", "/"], 1, "cannot open //manifest"),
        (["prepare", "/nonexistent/d"], 1, "cannot create /nonexistent/d: No such file"),
        (["prepare", "."], 1, "cannot create .: File exists"),
    ],
)
def test_bad_input_is_refused_clearly(disk: Path, args: list[str], status: int, message: str) -> None:
    refused(run(APPSTART, *[str(disk / "d") if a == "D" else a for a in args]), status, message)
