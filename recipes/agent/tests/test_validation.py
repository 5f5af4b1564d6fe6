# SPDX-License-Identifier: Apache-2.0
"""The methods about validations, with a fake ek-validation (recipes/validate has the real one)."""

import asyncio
import json
import socket
import tempfile
from collections.abc import Container
from pathlib import Path
from typing import Any

import msgspec
import pytest
from agent_harness import ERROR, Harness, on_board
from evenkeel_agent.settings import Settings
from evenkeel_agent.validation import Validations
from evenkeel_api import errors
from evenkeel_api.features.validation import Validation, ValidationOrder
from evenkeel_common.packets import CONTENT_BYTES
from packet_helper import PacketHelper

ID = "20260131-120000"
PLAN = {
    "where": "the file /data/.ek-validate/data on mmcblk0",
    "cases": 12,
    "written_bytes": 800_000_000,
    "endurance_percent": 0.004,
    "takes_s": 110,
    "most_s": 120,
    "schedulers": ["evenkeel", "bfq"],
    "exclusive": False,
    "groups": True,
    "discards": True,
    "left_out": [{"case": "stall.x", "reason": "no player"}],
    "evicts": True,
    "proven": False,
}
RUNNING = {
    "state": "running",
    "id": ID,
    "index": 2,
    "count": 12,
    "about": "reads",
    "scheduler": "evenkeel",
    "ran_s": 20,
    "left_s": 90,
    "written_bytes": 7,
    "exclusive": True,
    "groups": True,
}
ROW = {
    "id": ID,
    "profile": "quick",
    "state": "complete",
    "reason": "",
    "subject": "evenkeel",
    "started": "2026-01-31T12:00:00Z",
    "ended": "2026-01-31T12:01:50Z",
    "where": "the file",
    "model": "BJTD4R",
    "held": 3,
    "broken": 1,
}
REPORT = {
    "row": ROW,
    "kernel": "6.12",
    "written_bytes": 7,
    "announced_bytes": 8,
    "sentences": ["At best, this device reads 98 MB/s over 1.5 s."],
    "promises": [{"title": "A", "verdict": "held", "words": "Held.", "evidence": ""}],
    "figures": [{"id": "fair.read.1m.ratio", "value": "2", "wanted": "1.9 to 2.1", "verdict": "held"}],
    "left_out": [],
    "not_restored": [],
    "notes": [{"case": "promise.three", "text": "It is not judged."}],
}
COMPARED = {
    "changed": [{"id": "a", "before": "2", "after": "1", "change": "-50 %", "verdict": "worse"}],
    "only_before": [],
    "only_after": ["b"],
    "same": 4,
    "worse": 1,
    "notes": ["The profile is quick in the first report, and full in the second one."],
}
ANSWERS = {
    "plan": PLAN,
    "start": RUNNING,
    "state": RUNNING,
    "cancel": RUNNING,
    "list": [ROW],
    "show": REPORT,
    "compare": COMPARED,
}
FILE = b"x" * (3 * CONTENT_BYTES + 5)


def helper(board: Harness) -> PacketHelper:
    return PacketHelper(board.root / "run/evenkeel/validate", ANSWERS, FILE)


@on_board
async def test_each_method_is_an_order(board: Harness) -> None:
    with helper(board) as fake:
        await board.agent_up()
        assert await board.call("PlanValidation", "full", "fair", True, False) == PLAN
        assert await board.call("StartValidation", "quick", "", False, True) == RUNNING
        assert await board.call("GetValidation") == RUNNING
        assert await board.call("CancelValidation") == RUNNING
        assert await board.call("ListValidations") == [ROW]
        assert await board.call("ShowValidation", ID) == REPORT
        assert await board.call("CompareValidations", ID, "20260201-120000-2") == COMPARED
        assert fake.orders == [
            {"order": "plan", "profile": "full", "topic": "fair", "compare": True, "exclusive": False},
            {"order": "start", "profile": "quick", "topic": "", "compare": False, "exclusive": True},
            {"order": "state"},
            {"order": "cancel"},
            {"order": "list"},
            {"order": "show", "id": ID},
            {"order": "compare", "first": ID, "second": "20260201-120000-2"},
        ]
        rows = await board.call("ListAudit", 0, 10)
        assert [row["action"] for row in rows] == ["CancelValidation", "StartValidation"]


@on_board
async def test_a_value_outside_the_lists_reaches_no_helper(board: Harness) -> None:
    with helper(board) as fake:
        await board.agent_up()
        for method, values in (
            ("StartValidation", ("quick --destroy /dev/sda", "", True, False)),
            ("StartValidation", ("quick", "../x", True, False)),
            ("PlanValidation", ("", "", True, False)),
            ("ShowValidation", ("../../etc",)),
            ("CompareValidations", (ID, ID + "\n")),
            ("OpenValidation", (ID, "pdf")),
        ):
            assert (await board.refused(method, *values)).name == ERROR + "InvalidArgument", (method, values)
        assert fake.orders == []


@on_board
async def test_a_refusal_has_its_reason(board: Harness) -> None:
    with helper(board) as fake:
        await board.agent_up()
        fake.answers["start"] = {"error": "validation-runs", "parameters": {}, "kind": "Conflict"}
        error = await board.refused("StartValidation", "quick", "", True, False)
        assert error.name == ERROR + "Conflict"
        assert error.text == "a validation is running; wait for its end, or cancel it"
        reason = {"reason": "/data has 5 MB free"}
        fake.answers["plan"] = {"error": "validation-impossible", "parameters": reason, "kind": "Conflict"}
        text = (await board.refused("PlanValidation", "quick", "", True, False)).text
        assert text == "a validation cannot start: /data has 5 MB free"
        fake.answers["state"] = {"state": "walking"}
        assert "the request about a validation failed" in (await board.refused("GetValidation")).text
        fake.cut = True
        assert "it ended without an answer" in (await board.refused("ListValidations")).text


class BusyHelper(PacketHelper):
    """ek-validation on a busy board. It keeps the connections of the orders in `silent` open, without an answer."""

    def __init__(self, path: Path, answers: dict[str, Any], silent: Container[str]) -> None:
        self.silent = silent
        self.kept: list[socket.socket] = []
        super().__init__(path, answers)

    def reply(self, connection: socket.socket, order: dict[str, Any]) -> None:
        if order["order"] in self.silent:
            self.kept.append(connection.dup())
        else:
            super().reply(connection, order)


def start(answers: dict[str, Any], silent: Container[str] = ("start",)) -> Validation:
    """The answer of the agent to StartValidation, with a busy helper."""
    request = ValidationOrder("quick", "", False, False)
    # the path of a socket may not be long
    with tempfile.TemporaryDirectory(prefix="ek") as folder:
        settings = Settings(root=folder)
        with BusyHelper(Path(settings.validate_socket), answers, silent) as fake:
            validations = Validations(settings, answer_s=0.3, state_s=0.3)
            found = asyncio.run(validations.start_validation(request, None))  # type: ignore[arg-type]
            assert [order["order"] for order in fake.orders] == ["start", "state"]
    return found


@pytest.mark.parametrize("state", [{"state": "starting"}, {**RUNNING, "ran_s": 0}, {**RUNNING, "ran_s": 1}])
def test_a_start_without_an_answer_is_answered_by_the_state(state: dict[str, Any]) -> None:
    assert start({"state": state}) == msgspec.convert(state, Validation)


@pytest.mark.parametrize(
    "state", [{"state": "idle"}, {"state": "running", "id": "", "about": "ek-validate channels"}]
)
def test_a_start_without_an_answer_that_started_nothing_says_so(state: dict[str, Any]) -> None:
    with pytest.raises(errors.Failed) as caught:
        start({"state": state})
    assert "it did not answer in time; no validation is running, so you can try again" in str(caught.value)


def test_an_older_validation_is_not_taken_for_the_one_that_was_started() -> None:
    with pytest.raises(errors.Conflict, match="a validation is running"):
        start({"state": RUNNING})


def test_without_any_answer_the_start_is_not_called_a_failure() -> None:
    with pytest.raises(errors.Failed) as caught:
        start({}, ("start", "state"))
    assert "it may have done what you asked for" in str(caught.value)
    assert "unreachable" not in caught.value.message.code


@on_board
async def test_an_order_that_the_helper_did_not_answer_may_have_worked(board: Harness) -> None:
    with helper(board) as fake:
        await board.agent_up()
        fake.cut = True
        for method, values in (("StartValidation", ("quick", "", True, False)), ("CancelValidation", ())):
            text = (await board.refused(method, *values)).text
            assert "it ended without an answer; it may have done what you asked for" in text
        assert "can be neither started nor shown" in (await board.refused("GetValidation")).text


@on_board
async def test_without_the_helper_the_error_names_it(board: Harness) -> None:
    await board.agent_up()
    text = (await board.refused("GetValidation")).text
    assert "No such file or directory" in text
    assert "systemctl status evenkeel-validate" in text


@on_board
async def test_ekctl(board: Harness) -> None:
    with helper(board) as fake:
        await board.agent_up()
        answer = await board.ekctl("validate", "plan", "--profile", "full")
        assert answer.out.splitlines() == [
            "where       the file /data/.ek-validate/data on mmcblk0",
            "cases       12",
            "writes      800 MB, 0.004 % of the endurance",
            "            less if the device is slow; the next run of the profile knows the exact amount",
            "time        about 110 s, at most 120 s",
            "schedulers  evenkeel bfq",
            "meanwhile   apps keep their share; updates, backups and apps without a weight are slower",
            "            free space is discarded; no file loses data, but apps may stall on an eMMC",
            "            while another scheduler is active, weights of apps are not enforced",
            "afterwards  programs must read their files from the flash again",
            "left out    stall.x: no player",
        ]
        assert fake.orders[-1] == {
            "order": "plan",
            "profile": "full",
            "topic": "",
            "compare": True,
            "exclusive": False,
        }
        answer = await board.ekctl("validate", "start", "--topic", "device", "--no-compare", "--exclusive")
        assert (
            answer.out
            == f"validation {ID} is running, 3 of 12: reads; about 90 s left; all apps are paused\n"
        )
        assert fake.orders[-1] == {
            "order": "start", "profile": "quick", "topic": "device", "compare": False, "exclusive": True
        }  # fmt: skip
        fake.answers["state"] = {"state": "idle"}
        assert (await board.ekctl("validate", "state")).out == "no validation is running\n"
        assert "is running" in (await board.ekctl("validate", "cancel")).out
        fake.answers["state"] = {"state": "running", "id": "", "about": "ek-validate channels"}
        assert (await board.ekctl("validate", "state")).out == (
            "the command `ek-validate channels` is running, and no validation\n"
        )
        assert ID in (await board.ekctl("validate", "list")).out
        assert json.loads((await board.ekctl("validate", "list", "--json")).out) == [ROW]


@on_board
async def test_a_report_is_saved_whole_or_not_at_all(board: Harness) -> None:
    with helper(board) as fake:
        await board.agent_up()
        path = board.root / "report.html"
        answer = await board.ekctl("validate", "fetch", ID, str(path))
        assert answer.status == 0, answer.err
        assert path.read_bytes() == FILE
        assert fake.orders[-1] == {"order": "open", "id": ID, "format": "html"}
        other = board.root / "report.json"
        unknown = {"error": "validation-unknown", "parameters": {"id": ID}, "kind": "InvalidArgument"}
        fake.answers["show"] = unknown
        answer = await board.ekctl("validate", "fetch", ID, str(other))
        assert answer.status == 1
        assert f"there is no validation {ID}" in answer.err
        fake.answers["show"], fake.cut = REPORT, False
        answer = await board.ekctl("validate", "fetch", ID, str(path))
        assert "File exists" in answer.err
        assert not other.exists()
