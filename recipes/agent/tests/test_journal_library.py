# SPDX-License-Identifier: Apache-2.0
"""journal_library.py, with files that systemd-journald has written, compared with journalctl. Needs root."""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from evenkeel_agent import journal_helper
from evenkeel_agent.journal_helper import MAX_BYTES, MAX_TEXT, PRIORITIES, Search
from evenkeel_agent.journal_library import Journal

JOURNALD = "/usr/lib/systemd/systemd-journald"
# Writes lines with journald into the folder $1. All other files that journald writes disappear with the name space.
WRITE = """
mount -t tmpfs tmpfs /run
mkdir -p /run/systemd/journal /run/log/journal
echo 0123456789abcdef0123456789abcdef > /run/machine-id
mount --bind /run/machine-id /etc/machine-id
"$2" &
tries=0
while [ ! -S /run/systemd/journal/socket ] && [ $tries -lt 200 ]; do sleep 0.05; tries=$((tries + 1)); done
"$3" -c "$4"
kill $!
wait
cp -r /run/log/journal/*/. "$1"
"""
SEND = """
import socket, struct, time
with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as target:
    target.connect("/run/systemd/journal/socket")
    def send(**fields):
        parts = (name.encode() + b"\\n" + struct.pack("<Q", len(value)) + value + b"\\n" for name, value in fields.items())
        target.send(b"".join(parts))
    for n in range(300):
        send(MESSAGE=b"line %d" % n, PRIORITY=b"%d" % (n % 8), SYSLOG_IDENTIFIER=b"program-%d" % (n % 3), UNIT=b"u")
    time.sleep(1.2)
    send(MESSAGE=b"a" * 3000, PRIORITY=b"6")
    send(MESSAGE=b"b" * 20000, PRIORITY=b"6")
    send(MESSAGE="h\u00e4 \\n ".encode() + b"\\xff", PRIORITY=b"6")
    send(MESSAGE=b"no priority")
    send(PRIORITY=b"6", UNIT=b"no-message")
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files of a journal."""
    if os.geteuid() or not Path(JOURNALD).exists() or not shutil.which("journalctl"):
        pytest.skip("needs root, systemd-journald and journalctl")
    found = tmp_path_factory.mktemp("journal")
    command = ["unshare", "--mount", "sh", "-euc", WRITE, "sh", str(found), JOURNALD, sys.executable, SEND]
    made = subprocess.run(command, capture_output=True, text=True, timeout=60)
    if "unshare failed" in made.stderr or "permission denied" in made.stderr:
        pytest.skip(f"a mount is not possible here: {made.stderr.strip()}")
    assert list(found.glob("*.journal")), made.stderr
    return found


def search(**change: Any) -> Search:
    return Search.of({"unit": "", "priority": "info", "start": "", "end": "", "limit": 500, **change})


def read(folder: Path, wanted: Search) -> list[dict[str, Any]]:
    return journal_helper.find(wanted, lambda: Journal(MAX_BYTES, str(folder)))


def printed(folder: Path, *options: str) -> list[dict[str, Any]]:
    """The lines that journalctl prints."""
    command = [
        "journalctl",
        "--quiet",
        "--no-pager",
        "--all",
        "--output=json",
        f"--directory={folder}",
        *options,
    ]
    found = subprocess.run(command, capture_output=True, check=True)
    return [json.loads(line) for line in found.stdout.splitlines()]


def times(lines: Sequence[dict[str, Any]]) -> list[int]:
    return [int(line["__REALTIME_TIMESTAMP"]) for line in lines]


@pytest.mark.parametrize("priority", PRIORITIES)
def test_the_lines_are_those_of_journalctl(folder: Path, priority: str) -> None:
    for limit in (1, 7, 500):
        rows = read(folder, search(priority=priority, limit=limit))
        lines = printed(folder, f"--priority={priority}", f"--lines={limit}")
        assert [row["at_us"] for row in rows] == times(lines)
        assert [(row["priority"], row["pid"]) for row in rows] == [
            (line["PRIORITY"], line.get("_PID", "")) for line in lines
        ]
        names = [(row["unit"], row["program"]) for row in rows]
        assert names == [
            (
                line.get("UNIT", line.get("_SYSTEMD_UNIT", "")),
                line.get("SYSLOG_IDENTIFIER", line.get("_COMM", "")),
            )
            for line in lines
        ]
    assert len(rows) >= 300 // 8


def test_a_range_of_time_and_a_unit_are_those_of_journalctl(folder: Path) -> None:
    lines = printed(folder, "--priority=debug")
    second = times(lines)[-1] // 1_000_000
    text = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(second))
    for key, option in (("start", "since"), ("end", "until")):
        rows = read(folder, search(priority="debug", **{key: text}))
        assert [row["at_us"] for row in rows] == times(
            printed(folder, "--priority=debug", "--lines=500", f"--{option}=@{second}")
        )
        assert 0 < len(rows) < len(lines)
    for unit in ("systemd-journald", "none.service", "init.scope", "system.slice"):
        rows = read(folder, search(unit=unit))
        assert [row["at_us"] for row in rows] == times(
            printed(folder, "--priority=info", "--lines=500", f"--unit={unit}")
        )
    assert [row["at_us"] for row in read(folder, search(unit="kernel"))] == times(
        printed(folder, "--priority=info", "--lines=500", "_TRANSPORT=kernel")
    )


def test_alternatives_are_those_of_journalctl(folder: Path) -> None:
    """The lines of a unit are alternatives of several fields. No line of this journal belongs to a unit."""
    first = ["SYSLOG_IDENTIFIER=program-0", "PRIORITY=3", "PRIORITY=6"]
    second = ["SYSLOG_IDENTIFIER=program-1", "PRIORITY=1"]
    with Journal(MAX_BYTES, str(folder)) as journal:
        journal.require([first, second])
        journal.require([["UNIT=u"]])
        found = [at for at, _ in journal.newest_first(None)]
    wanted = times(printed(folder, "UNIT=u", *first, "+", "UNIT=u", *second))
    assert found == wanted[::-1]
    assert len(found) == 39


def test_texts_of_all_kinds(folder: Path) -> None:
    texts = [row["text"] for row in read(folder, search())]
    assert "a" * (MAX_TEXT - 1) + "…" in texts
    assert "b" * (MAX_TEXT - 1) + "…" in texts, "journald compresses a field of this length"
    assert "h\u00e4 \n \ufffd" in texts
    assert "" in texts
    assert "no priority" not in texts


def test_a_folder_that_is_missing_has_a_reason(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="No such file or directory"):
        Journal(MAX_BYTES, str(tmp_path / "missing"))


def test_an_empty_journal_has_no_lines(tmp_path: Path) -> None:
    assert read(tmp_path, search()) == []


def test_a_damaged_file_ends_no_search(folder: Path, tmp_path: Path) -> None:
    """The lines of the undamaged part may be missing, but there is an answer."""
    for file in folder.glob("*.journal"):
        content = bytearray(file.read_bytes())
        for at in range(200_000, len(content), 997):
            content[at] ^= 0xFF
        (tmp_path / file.name).write_bytes(content)
    read(tmp_path, search(priority="debug"))
