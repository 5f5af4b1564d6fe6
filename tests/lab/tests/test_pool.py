# SPDX-License-Identifier: Apache-2.0
"""The experiments pool.*: the site and its requests, the simulation of the same requests, and figures from a report."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from lab import initramfs, python
from lab.experiments import pool
from lab.experiments.pool import simulator
from lab.guest import pool_web
from lab.model import LabError, Output

SMALL = 0.05


def requests(seed: int, count: int, scale: float = 1.0) -> list[tuple[str, pool_web.File]]:
    one = pool_web.Requests(seed, pool_web.site(seed, scale))
    return [one.next() for _ in range(count)]


def test_the_site_has_the_papers_shape() -> None:
    files = pool_web.site(1, 1.0)
    megabytes = {kind: sum(file.size for file in listed) / 1e6 for kind, listed in files.items()}
    assert len(files["top"]) == 118
    assert len(files["top"]) + len(files["priority"]) == 877
    assert megabytes["top"] == pytest.approx(0.7, rel=0.3)
    assert megabytes["top"] + megabytes["priority"] == pytest.approx(11.1, rel=0.1)
    # a part of the paper's 588.9 MB
    assert megabytes["other"] == pytest.approx(0.15 * 588.9, rel=0.1)


def test_priority_files_lie_directly_in_fourteen_directories_and_no_others_do() -> None:
    files = pool_web.site(1, SMALL)
    folders = {kind: {file.path.rpartition("/")[0] for file in listed} for kind, listed in files.items()}
    own = folders["top"] | folders["priority"]
    assert len(own) == 14
    assert all(folder.startswith("priority") and "/" not in folder for folder in own)
    assert not own & folders["other"]
    paths = [file.path for listed in files.values() for file in listed]
    assert len(set(paths)) == len(paths)


def test_a_seed_gives_the_same_requests_and_another_seed_others() -> None:
    assert requests(3, 200, SMALL) == requests(3, 200, SMALL)
    wanted = [[file.path for _, file in requests(seed, 200, SMALL)] for seed in (3, 4)]
    assert wanted[0] != wanted[1]


def test_requests_are_spread_as_in_the_paper() -> None:
    found = requests(1, 20_000)
    parts = {kind.name: sum(name == kind.name for name, _ in found) / len(found) for kind in pool_web.KINDS}
    assert parts == pytest.approx({"top": 0.214, "priority": 0.381, "other": 0.405}, abs=0.02)
    files = pool_web.site(1, 1.0)

    def times(kind: str, rank: int) -> int:
        return sum(file == files[kind][rank] for _, file in found)

    assert times("priority", 0) > 10 * times("priority", 100)
    assert times("top", 0) < 2 * times("top", 100)


def test_the_simulator_gets_the_same_requests_with_each_method() -> None:
    """In a cache for the whole site, all methods have the same hits. In a small one, the basic method favours top pages."""
    whole = [
        pool.simulate(cache, 1, SMALL, 500, 500)
        for cache in (simulator.Lru(1_000_000), simulator.Basic(1_000_000))
    ]
    assert whole[0] == whole[1]
    lru, basic = (
        pool.simulate(cache, 1, SMALL, 500, 500) for cache in (simulator.Lru(80), simulator.Basic(80))
    )
    assert basic["top"] > lru["top"] + 20
    assert basic["other"] <= lru["other"]
    assert lru["top"] < whole[0]["top"]


def test_the_size_of_a_backup_has_the_files_that_rsync_has_listed() -> None:
    assert pool_web.listed_size("cd+++++++++ 4096\n<f+++++++++ 100\n<f+++++++++ 20\n<f+++++++++ 7") == 120


def report(**changes: float) -> Output:
    """A guest's report in which each figure is 10, unless METHOD_KIND sets the mean time of a kind, or METHOD_backup."""
    results = {"seed": "1"}
    for method in pool.METHODS:
        one: dict[str, object] = {
            "backup_s": changes.get(f"{method}_backup", 10.0),
            "cache_kib": 12500,
            "pool_kib": 8000,
        }
        for kind in pool_web.KINDS:
            one[kind.name] = {"n": 150, "mean_ms": changes.get(f"{method}_{kind.name}", 10.0)}
        results[method] = json.dumps(one)
    return Output(results)


def test_the_figures_compare_the_pool_with_lru_and_with_the_basic_method(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pool, "simulated", lambda *_: ())
    (web,) = (e for e in pool.EXPERIMENTS if e.name == "pool.web")
    found = {f.metric: f for f in web.figures(report(ek_top=2.0, lru_other=1.0, ek_other=8.0, ek_backup=9.9))}
    assert found["top-over-lru_pct"].value == -80
    assert found["other-over-basic_pct"].value == -20
    assert found["backup-over-basic_pct"].value == -1
    assert (found["low.top"].value, found["ek.backup"].value, found["ek.cache"].value) == (10, 9.9, 12.8)


def test_a_mean_of_few_requests_is_no_figure() -> None:
    out = report()
    few = json.loads(out.results["basic"])
    few["top"]["n"] = 99
    with pytest.raises(ValueError, match="basic: only 99 requests of top files"):
        pool.EXPERIMENTS[0].figures(Output({**out.results, "basic": json.dumps(few)}))


# ---- Python in a guest


def test_the_guest_gets_the_interpreter_and_the_files_of_the_modules_only() -> None:
    found = python.files(["pool_service"])
    assert found[Path("/usr/bin/python3")] == Path("/usr/bin/python3")
    assert found[Path("/guest/pool_service.py")] == python.TOP / "tests/lab/lab/guest/pool_service.py"
    assert Path("/python/pagepool/evenkeel_pagepool/service.py") in found
    assert Path("/guest/pool_web.py") not in found
    # a path of the clone in an archive would change the key of the cache
    assert not any(where.is_relative_to(python.TOP) for where in found)
    assert all(file.is_file() for file in found.values())


def test_a_module_that_cannot_be_imported_is_named() -> None:
    with pytest.raises(LabError, match="no_such_module"):
        python.files(["no_such_module"])


def test_an_archive_has_the_copied_files_with_their_libraries(tmp_path: Path) -> None:
    out = tmp_path / "archive"
    text = tmp_path / "text.py"
    text.write_text("x = 1\n")
    copies = {Path("/usr/bin/python3"): Path("/usr/bin/python3"), Path("/guest/x.py"): text}
    initramfs.build(out, programs=(), modules=(), files={"/init": "#!/bin/sh\n"}, copies=copies)
    with out.open("rb") as archive:
        listed = subprocess.run(
            ["cpio", "-t", "--quiet"], stdin=archive, capture_output=True, text=True, check=True
        )
    names = listed.stdout.split()
    assert {"usr/bin/python3", "guest/x.py", "init"} <= set(names)
    assert any("libc.so" in name for name in names)
