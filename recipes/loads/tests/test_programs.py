# SPDX-License-Identifier: Apache-2.0
"""ek-player and ek-loader as processes, on a real file."""

from __future__ import annotations

import json
import signal
import tempfile
import time
from pathlib import Path

import pytest
from harness import BUILD, LOADER, MIB, PLAYER, in_order, refused, run, running, stopped, summary, wait_for


def test_plays_without_a_stall(movie: str, tmp_path: Path) -> None:
    stats = tmp_path / "p.json"
    out = run(
        PLAYER,
        "--rate",
        "4MB",
        "--movie",
        "8M",
        "--titles",
        "4",
        "--offset",
        "1M",
        "--duration",
        "3.5",
        "--stats",
        str(stats),
        "--json",
        movie,
    )
    assert (out.returncode, out.stderr) == (0, "")
    summary = json.loads(out.stdout)
    assert summary["stalls"] == summary["stall_ms"] == 0
    assert summary["movies"] >= 1
    final = json.loads(stats.read_text())
    assert final["state"] == "stopped"
    wanted = {"state", "stalls", "stall_ms", "worst_stall_ms", "recent_stalls", "buffered_s", "mbps"}
    assert wanted <= set(final)
    assert not (tmp_path / "p.json.tmp").exists()


def test_a_disk_that_is_too_slow_stalls(movie: str) -> None:
    # no disk reads 10 GB/s in reads of 4 KiB, one at a time
    out = run(
        PLAYER,
        "--rate",
        "10GB",
        "--chunk",
        "4K",
        "--depth",
        "1",
        "--buffer",
        "16M",
        "--movie",
        "8M",
        "--pre-roll",
        "0.0001",
        "--rebuffer",
        "0.0001",
        "--duration",
        "1",
        "--json",
        movie,
    )
    assert out.returncode == 0, out.stderr
    summary = json.loads(out.stdout)
    assert summary["stalls"] > 0
    assert summary["recent_stalls"] > 0
    assert summary["stall_ms"] >= summary["worst_stall_ms"]


def test_through_the_page_cache(movie: str) -> None:
    out = run(PLAYER, "--buffered", "--rate", "8MB", "--duration", "0.5", movie)
    assert out.returncode == 0, out.stderr
    assert "0 stalls" in out.stdout


def test_plays_like_vlc(movie: str) -> None:
    """The movie of Hasegawa et al., 30 times as fast: through the page cache, a buffer of 300 ms, index reads.

    The player reads the movie up to its last byte.
    """
    started = time.monotonic()
    row = summary(
        *(PLAYER, "--movie", "41.9MB", "--movie-seconds", "2", "--movies", "1", "--buffered", "--cold"),
        *("--advise", "player", "--chunk", "32K", "--buffer-ms", "300", "--index", "16K"),
        *("--index-every", "0.5", "--buckets", movie),
    )
    assert time.monotonic() - started > 1.9
    assert (row["movies"], row["state"]) == (1, "stopped")
    assert row["reads"] == -(-41_900_000 // 32768)
    assert row["indexes"] == 4
    assert row["bytes"] == 41_900_000 + 4 * 16384
    assert row["start_ms"] > 0
    in_order(row, "read")
    in_order(row, "index")
    assert row["index_max_us"] < 30e6
    assert sum(count for _, count in row["read_us"]) == row["reads"]


def test_direct_play_of_an_odd_length(movie: str) -> None:
    """The last chunk of a movie may end within a page, and at the end of the file."""
    for args in (["--movie", "5000001"], ["--offset", "47M", "--movie", str(MIB + 3)]):
        row = summary(PLAYER, "--rate", "50MB", "--movies", "1", "--pre-roll", "0.01", *args, movie)
        assert row["movies"] == 1


def test_a_short_buffer_is_short(movie: str) -> None:
    """With a buffer of 100 ms, the player reads at most 100 ms of play-out and two chunks ahead."""
    row = summary(
        *(PLAYER, "--rate", "4MB", "--chunk", "16K", "--buffer-ms", "100", "--duration", "0.05", movie)
    )
    assert 400_000 <= row["bytes"] <= 400_000 + 2 * 16384 + 0.05 * 4e6 * 20


@pytest.mark.parametrize("program", [PLAYER, LOADER])
@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_cleanly(movie: str, tmp_path: Path, program: str, sig: signal.Signals) -> None:
    stats = tmp_path / "s.json"
    size = ["--size", "8M"] if program == LOADER else []
    with running(program, *size, "--stats", str(stats), "--json", movie) as proc:
        # The program writes the first report at once, and the second report a second later.
        wait_for(lambda: stats.exists() and json.loads(stats.read_text())["mbps"] > 0)
        live = json.loads(stats.read_text())
        assert live["state"] in ("playing", "buffering", "pre-roll", "running")
        begun = time.monotonic()
        assert stopped(proc, sig)["state"] == "stopped"
        assert time.monotonic() - begun < 5
    assert json.loads(stats.read_text())["state"] == "stopped"


def test_loader_reads_whole_ios(movie: str, tmp_path: Path) -> None:
    out = run(
        LOADER,
        "--size",
        "16M",
        "--depth",
        "2",
        "--offset",
        "4M",
        "--length",
        "40M",
        "--duration",
        "1",
        "--json",
        movie,
    )
    assert (out.returncode, out.stderr) == (0, "")
    summary = json.loads(out.stdout)
    assert summary["completions"] > 0
    assert summary["mbps"] > 0


def test_loader_writes_only_with_write_and_only_its_region(movie: str) -> None:
    with tempfile.NamedTemporaryFile(dir=BUILD) as f:
        f.write(b"\xa5" * (4 * MIB))
        f.flush()
        assert run(LOADER, "--size", "1M", "--duration", "0.2", f.name).returncode == 0
        assert Path(f.name).read_bytes() == b"\xa5" * (4 * MIB)
        out = run(
            LOADER, "--write", "--size", "1M", "--offset", "1M", "--length", "2M", "--duration", "0.5", f.name
        )
        assert out.returncode == 0, out.stderr
        now = Path(f.name).read_bytes()
        assert now == b"\xa5" * MIB + bytes(2 * MIB) + b"\xa5" * MIB


@pytest.mark.parametrize(
    ("args", "status", "message"),
    [
        ([PLAYER], 2, "expected one file"),
        ([PLAYER, "a", "b"], 2, "but got 2"),
        ([PLAYER, "--rate", "fast", "F"], 2, "--rate: 'fast' is not a number of bytes"),
        ([PLAYER, "--rate", "0", "F"], 2, "--rate: '0' is not between 1 and"),
        ([PLAYER, "--rate", "-1", "F"], 2, "--rate"),
        ([PLAYER, "--chunk", "5000", "F"], 2, "--chunk: must be a multiple of 4096"),
        ([PLAYER, "--chunk", "0", "F"], 2, "--chunk"),
        ([PLAYER, "--offset", "1", "F"], 2, "--offset: must be a multiple"),
        ([PLAYER, "--movie", "1.5", "F"], 2, "--movie: '1.5' is not a number of bytes"),
        ([PLAYER, "--movie", "0", "F"], 2, "--movie: must be greater than 0"),
        ([PLAYER, "--depth", "65", "F"], 2, "--depth: '65' is not a whole number from 1 to 64"),
        ([PLAYER, "--titles", "0", "F"], 2, "--titles"),
        ([PLAYER, "--duration", "1m", "F"], 2, "--duration: '1m' is not a time"),
        # more than 10^6 s
        ([PLAYER, "--duration", "1000001", "F"], 2, "--duration: '1000001' is not a time"),
        ([PLAYER, "--buffer", "8M", "F"], 2, "the buffer is too small"),
        ([PLAYER, "--pre-roll", "0", "F"], 2, "pre-roll and re-buffering must be longer"),
        ([PLAYER, "--nonsense", "F"], 2, "unknown option --nonsense"),
        ([PLAYER, "--rate"], 2, "--rate needs a value"),
        ([PLAYER, "--json=x", "F"], 2, "unknown option --json=x"),
        ([PLAYER, "--rate", "1MB", "--movie", "1M", "--movie-seconds", "1", "F"], 2, "exclude each other"),
        ([PLAYER, "--movie-seconds", "60", "F"], 2, "--movie-seconds needs --movie"),
        ([PLAYER, "--buffer", "8M", "--buffer-ms", "300", "F"], 2, "exclude each other"),
        ([PLAYER, "--cold", "F"], 2, "are for --buffered only"),
        (
            [PLAYER, "--buffered", "--advise", "well", "F"],
            2,
            "'well' is not one of: none, player, sequential",
        ),
        ([PLAYER, "--index", "1000", "F"], 2, "--index: must be a multiple of 4096"),
        ([PLAYER, "--index", "64K", "--movie", "64K", "F"], 2, "larger than half the movie"),
        ([PLAYER, "--stats", "", "F"], 2, "--stats: must not be empty"),
        ([PLAYER, "--offset", "1G", "F"], 1, "before --offset"),
        ([PLAYER, "--movie", "1G", "F"], 1, "is too short"),
        ([PLAYER, "/nonexistent"], 1, "No such file"),
        ([PLAYER, "/dev/null"], 1, "/dev/null"),
        ([PLAYER, "/"], 1, "cannot open /"),
        ([PLAYER, "--stats", "/nonexistent/s.json", "F"], 1, "cannot write /nonexistent/s.json: No such"),
        ([LOADER], 2, "expected one file"),
        ([LOADER, "--size", "1000", "F"], 2, "--size: must be a multiple of 4096"),
        ([LOADER, "--size", "2G", "F"], 2, "--size"),
        ([LOADER, "--offset", "7", "F"], 2, "--offset"),
        ([LOADER, "--length", "0", "F"], 2, "--length: must be greater than 0"),
        ([LOADER, "--force", "F"], 2, "--force is for --write"),
        ([LOADER, "--size", "4M", "--length", "1G", "F"], 1, "before the end of the region"),
        ([LOADER, "--size", "100M", "F"], 1, "less than one I/O"),
        ([LOADER, "/nonexistent"], 1, "No such file"),
        ([LOADER, "/dev/null"], 1, "/dev/null"),
        (
            [LOADER, "--size", "4M", "--stats", "/nonexistent/s.json", "F"],
            1,
            "cannot write /nonexistent/s.json",
        ),
    ],
)
def test_bad_input_is_refused_clearly(movie: str, args: list[str], status: int, message: str) -> None:
    refused(run(*[movie if a == "F" else a for a in args]), status, message)


@pytest.mark.parametrize("program", [PLAYER, LOADER])
def test_help_names_every_option(program: str) -> None:
    out = run(program, "--help")
    assert (out.returncode, out.stderr) == (0, "")
    assert "FILE|DEVICE" in out.stdout
    assert "--duration TIME" in out.stdout
