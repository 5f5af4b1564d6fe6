# SPDX-License-Identifier: Apache-2.0
"""The orders to ek-pool: what a hold guarantees, and what each refusal says."""

import time
from pathlib import Path

import pytest
from evenkeel_api.features.cache import Cache, HeldDirectory
from evenkeel_api.messages import Message
from evenkeel_validate import pagepool
from evenkeel_validate.errors import ValidateError
from fake_pool import MB, Pool

DIRECTORY = Path("/data/x")


def free(pool: Pool) -> None:
    """Asserts that nothing is held soon."""
    deadline = time.monotonic() + 5
    while pool.held and time.monotonic() < deadline:
        time.sleep(0.01)
    assert pool.held == []


def refused(pool: Pool, words: str) -> None:
    """Asserts that POOL does not protect the directory, with a reason that has WORDS."""
    with pytest.raises(ValidateError, match=words), pagepool.held(pool.path, DIRECTORY):
        pytest.fail("the directory counts as protected")


def test_a_directory_is_held_until_the_end(tmp_path: Path) -> None:
    with Pool(tmp_path / "pool") as pool:
        assert pagepool.problem(pool.path) == ""
        with pagepool.held(pool.path, DIRECTORY):
            pagepool.protected(pagepool.state(pool.path), DIRECTORY)
            assert pool.held == ["/data/x"]
        free(pool)
        with pytest.raises(RuntimeError), pagepool.held(pool.path, DIRECTORY):
            raise RuntimeError
        free(pool)


def test_a_refused_hold_has_its_reason(tmp_path: Path) -> None:
    refusal = {"error": "holds-full", "parameters": {"limit": 4}, "kind": "Conflict"}
    with Pool(tmp_path / "pool", refusal=refusal) as pool:
        refused(pool, "programs hold 4 directories already")
        assert pagepool.problem(pool.path) == ""


def test_a_directory_that_is_not_protected_is_released_at_once(tmp_path: Path) -> None:
    with Pool(tmp_path / "pool", directory_state="no-device") as pool:
        refused(pool, r"ek-pool does not protect /data/x: no-device$")
        free(pool)


def test_an_answer_that_is_none_is_an_error(tmp_path: Path) -> None:
    with Pool(tmp_path / "pool", refusal={"state": "sleeping"}) as pool:
        refused(pool, "sleeping")
        free(pool)


def test_a_service_that_does_not_run_is_named(tmp_path: Path) -> None:
    path = tmp_path / "pool"
    assert "systemctl status evenkeel-pool" in pagepool.problem(path)
    refused(Pool(path), "systemctl status evenkeel-pool")


def test_a_service_that_ends_before_its_answer_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Pool, "_answer", lambda self, connection: False)
    with Pool(tmp_path / "pool") as pool:
        refused(
            pool, r"cannot be reached at .*; restart the board .*, or see 'systemctl status evenkeel-pool'"
        )
        assert "cannot be reached" in pagepool.problem(pool.path)


def test_a_pool_that_is_off_says_why(tmp_path: Path) -> None:
    off = Cache("off", problem=[Message("pool-no-module").note()])
    with Pool(tmp_path / "pool", off, directory_state="off") as pool:
        assert "modprobe evenkeel_pagepool" in pagepool.problem(pool.path)
        refused(pool, r"does not protect /data/x: off, .*modprobe evenkeel_pagepool")


def test_a_hold_that_is_lost_is_noticed() -> None:
    with pytest.raises(ValidateError, match="no longer holds /data/x: it was restarted meanwhile"):
        pagepool.protected(Cache("on", held=[HeldDirectory("/data/y", "protected")]), DIRECTORY)


@pytest.mark.parametrize(
    ("state", "target", "size", "low", "covers"),
    [
        ("on", 32, 32, 32, True),
        ("on", 64, 40, 40, True),
        ("on", 31, 30, 30, False),  # the files do not fit
        ("on", 64, 70, 64, False),  # the pool has other files, too
        ("on", 64, 40, 0, False),  # memory.low was not set
        ("idle", 64, 0, 0, False),
        ("off", 64, 40, 40, False),
    ],
)
def test_what_the_pool_promises(state: str, target: int, size: int, low: int, covers: bool) -> None:
    found = Cache(state, target_bytes=target * MB, size_bytes=size * MB, cost_bytes=min(size, low) * MB)  # type: ignore[arg-type]
    assert pagepool.covers(found, 32 * MB) is covers
