# SPDX-License-Identifier: Apache-2.0
"""The catalogue of messages: each code once, and what to do next in each error."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING

from evenkeel_api.messages import Message
from evenkeel_api.texts import TEXTS as AGENT_TEXTS
from evenkeel_panel import texts
from evenkeel_panel.agent import AgentRefused, AgentUnreachable
from evenkeel_panel.testing import COMPONENT

if TYPE_CHECKING:
    from collections.abc import Iterator

RECIPES = COMPONENT.parent / "recipes"
# The sources that raise errors, or give the code of an error to a function that does
RAISERS = [
    *(RECIPES / "agent/src/evenkeel_agent").rglob("*.py"),
    *(RECIPES / "validate/src/evenkeel_validate").rglob("*.py"),
    COMPONENT / "src/evenkeel_panel/certificate_helper.py",
    COMPONENT / "src/evenkeel_panel/agent.py",
]
CODES = {*AGENT_TEXTS, *(code for code in texts.TEXTS if code.startswith(("agent-", "bus-")))}
# Messages that say what to enter or to do, so they need no second sentence
RULES = {"must-change", "code-required", "user-name"}
# Messages that are no error of a call: lists of changes, reasons inside another message, and texts of the preseed file, which
# has no user of the panel
PARTS = re.compile(
    r"restore-|weak-|preseed-|certificate-renew-|fixed-share-(full|capability|not-served|range)$|external$"
)


def codes(path: Path) -> Iterator[str]:
    """The codes of messages in a source, except for those of Message(...), which are reasons and problems."""
    tree = ast.parse(path.read_text())
    parts = {
        id(part)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("Message")
        for part in node.args
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and node.value in CODES and id(node) not in parts:
            yield str(node.value)


def test_every_refusal_says_what_to_do_next() -> None:
    found = {code for path in RAISERS for code in codes(path)}
    assert {
        "bundle-refused",
        "certificate-expired",
        "polkit-no",
        "agent-slow",
        "name-not-set",
    } <= found
    assert len(found) > 150
    missing = {
        code
        for code in found - RULES
        if not PARTS.match(code) and "; " not in texts.TEXTS[code] and code not in texts.REMEDIES
    }
    assert missing == set()


def test_a_refusal_shows_its_remedy_once() -> None:
    one = AgentRefused("Failed", Message("name-not-set", reason="no").note())
    assert str(one) == (
        "The name was not changed: no. Try again in a minute. If it fails again, restart the board on the page System."
    )
    inner = Message("system-unreachable", path="/run/x", reason="no", unit="ek-system")
    two = AgentRefused("Failed", Message("name-not-set", reason=inner).note())
    assert str(two).count("restart the board on the page System") == 1, "the reason says what to do"
    assert "switch the board off and on" in str(AgentUnreachable("agent-silent"))
    assert str(AgentRefused("Failed", Message("external", text="of tomorrow").note())) == "Of tomorrow."


def test_a_remedy_names_the_panel_before_a_command() -> None:
    """A board has no log-in for a shell, unless its owner enables one."""
    command = re.compile(r"'(systemctl|journalctl|echo|ekctl|lsmod|modprobe|grub-editenv|ek-health)\b")
    first = re.compile(r"\b(page [A-Z]|restart the board|stop the app|ask the maker)", re.IGNORECASE)
    seen = 0
    for code, text in {
        **texts.TEXTS,
        **{f"{code} (remedy)": one for code, one in texts.REMEDIES.items()},
    }.items():
        if shell := command.search(text):
            seen += 1
            told = first.search(text.rpartition("; ")[2])
            assert told, code
            assert first.search(text[: shell.start()]), code
    assert seen > 30


def test_every_remedy_is_of_a_message() -> None:
    assert texts.REMEDIES.keys() <= texts.TEXTS.keys()
    for code, remedy in texts.REMEDIES.items():
        assert not remedy.endswith("."), code


def test_no_code_has_two_texts() -> None:
    """A text of the panel would replace that of the agent, which has other parameters."""
    tree = ast.parse(Path(texts.__file__).read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.Dict):
            keys = [key.value for key in node.keys if isinstance(key, ast.Constant)]
            assert len(keys) == len(set(keys))
            if "agent-silent" in keys and "bus-unreachable" in keys and "weight-is" in keys:
                assert not AGENT_TEXTS.keys() & set(keys)
