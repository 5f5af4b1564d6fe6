# SPDX-License-Identifier: Apache-2.0
"""The problems of evenkeel-history, from the state of its unit and from the file that it writes."""

import json
import time
from pathlib import Path

import pytest
from evenkeel_agent.history import SERVICE, STATUS, inspect
from evenkeel_agent.settings import Settings
from evenkeel_agent.systemd import Unit
from evenkeel_api.messages import Message

RUNNING = Unit("loaded", "active", "running")


def problems(root: Path, unit: Unit = RUNNING) -> list[str]:
    return [str(message) for message in inspect(Settings(root=str(root)), {SERVICE: unit})]


def write_status(root: Path, *found: Message, age_s: float = 0.5) -> None:
    path = root / STATUS.lstrip("/")
    path.parent.mkdir(parents=True, exist_ok=True)
    notes = [{"code": m.code, "parameters": m.parameters} for m in found]
    path.write_text(json.dumps({"monotonic_ns": time.monotonic_ns() - int(age_s * 1e9), "problems": notes}))


def test_a_history_that_works_is_off_or_has_just_started_is_no_problem(tmp_path: Path) -> None:
    assert inspect(Settings(root=str(tmp_path)), {}) == []
    assert problems(tmp_path) == []
    write_status(tmp_path)
    assert problems(tmp_path) == []
    assert problems(tmp_path, Unit("loaded", "inactive", "dead")) == []


def test_a_history_that_failed(tmp_path: Path) -> None:
    (problem,) = problems(tmp_path, Unit("loaded", "failed", "failed"))
    assert problem.startswith("the history has failed, so nothing is kept; look for evenkeel-history")
    (problem,) = problems(tmp_path, Unit("loaded", "activating", "auto-restart"))
    assert problem.startswith("the history has failed, and systemd restarts it")


def test_a_history_that_does_not_respond(tmp_path: Path) -> None:
    write_status(tmp_path, age_s=60)
    assert problems(tmp_path) == [
        f"the history has not responded for 60 s; restart the board on the page System,"
        f" or look for {SERVICE} on the page System, Journal, or see 'journalctl -u {SERVICE}'"
    ]


def test_what_the_history_reports(tmp_path: Path) -> None:
    damaged = Message(
        "history-damaged", date="2026-11-24", path="/var/lib/evenkeel-history/history.db.damaged"
    )
    full = Message("history-not-saved", reason="the disk is full")
    write_status(tmp_path, damaged, full, Message("external", text="buy now"))
    assert problems(tmp_path) == [str(damaged), str(full)]
    assert "was damaged on 2026-11-24" in str(damaged)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"monotonic_ns": 1, "problems": [3]}', "[" * 9999])
def test_rubbish_in_the_file_is_ignored(tmp_path: Path, text: str) -> None:
    write_status(tmp_path)
    (tmp_path / STATUS.lstrip("/")).write_text(text)
    assert problems(tmp_path) == []
