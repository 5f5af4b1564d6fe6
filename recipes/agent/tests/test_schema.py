# SPDX-License-Identifier: Apache-2.0
"""Structs as D-Bus values, and messages: every code has a text, and every text gets its parameters."""

import ast
import string
from pathlib import Path
from typing import Any

import msgspec
import pytest
from dbus_fast import Message as BusMessage
from dbus_fast import Variant
from dbus_fast._private.unmarshaller import Unmarshaller
from dbus_fast.unpack import unpack_variants
from evenkeel_agent.service import handlers
from evenkeel_api import interface, schema
from evenkeel_api.features.accounts import Entry
from evenkeel_api.features.apps import App, SetWeight
from evenkeel_api.features.board import Device, Snapshot, Status
from evenkeel_api.messages import Message, Note, render
from evenkeel_api.texts import TEXTS
from hypothesis import given
from hypothesis import strategies as st

SRC = Path(__file__).resolve().parent.parent / "src"
TEXT = st.text(max_size=30)
NUMBER = st.integers(0, (1 << 63) - 1)
PARAMETERS = st.dictionaries(
    st.from_regex(r"[a-z]{1,8}", fullmatch=True),
    st.one_of(TEXT, st.booleans(), st.integers(-(1 << 63), (1 << 63) - 1), st.floats(allow_nan=False)),
    max_size=4,
)
NOTE = st.builds(Note, TEXT, PARAMETERS, TEXT)
APP = st.builds(
    App, name=TEXT, weight=st.integers(1, 10000), share=st.floats(0, 1), fixed_share_problem=st.lists(NOTE)
)
DEVICE = st.builds(Device, TEXT, TEXT, TEXT, NUMBER)
STATUS = st.builds(
    Status,
    TEXT,
    TEXT,
    TEXT,
    TEXT,
    TEXT,
    st.booleans(),
    NUMBER,
    st.lists(DEVICE, max_size=2),
    st.lists(NOTE, max_size=2),
)
SNAPSHOT = st.builds(Snapshot, NUMBER, STATUS, st.lists(APP, max_size=2))


def sent(value: Any, annotation: Any) -> Any:
    """VALUE as a receiver on the bus gets it."""
    signature = schema.signature(annotation)
    message = BusMessage(
        path="/a",
        interface="a.b",
        member="C",
        signature=signature,
        body=[schema.pack(value, annotation, Variant)],
    )
    message.serial = 1
    import io

    received = Unmarshaller(io.BytesIO(message._marshall(False))).unmarshall()
    assert received
    return unpack_variants(received.body[0])


def clean(value: Any) -> Any:
    """VALUE with its texts changed to texts that D-Bus can carry."""
    return msgspec.convert(schema.cleaned(msgspec.to_builtins(value)), type(value))


@given(SNAPSHOT)
def test_what_the_agent_sends_is_what_the_panel_gets(snapshot: Snapshot) -> None:
    assert schema.convert(sent(snapshot, Snapshot), Snapshot) == clean(snapshot)


def test_unknown_fields_are_ignored_and_missing_ones_have_defaults() -> None:
    assert schema.convert({"name": "a", "later": 1}, App) == App("a")
    with pytest.raises(msgspec.ValidationError, match="name"):
        schema.convert({}, App)


@pytest.mark.parametrize("weight", [0, 10001, True, 1.5, "5", None])
def test_limits_are_those_of_the_schema(weight: object) -> None:
    with pytest.raises(msgspec.ValidationError):
        schema.convert({"name": "a", "weight": weight}, SetWeight)


def test_every_method_can_be_described() -> None:
    for method in interface.METHODS.values():
        msgspec.json.schema(method.request)
        if method.answer:
            msgspec.json.schema(method.answer)
    assert schema.signature(list[Entry]) == "aa{sv}"
    assert interface.introspection().count("<method ") > 40


def test_a_method_without_a_function_is_noticed() -> None:
    with pytest.raises(LookupError, match="LogIn"):
        handlers([])


def placeholders(text: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(text) if name}


def calls() -> list[tuple[str, str, set[str]]]:
    """Each message with a literal code in the sources, as (file and line, code, names of the parameters)."""
    found = []
    for path in SRC.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call) or not node.args or not isinstance(node.args[0], ast.Constant):
                continue
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            code = node.args[0].value
            known = name == "Message" or (isinstance(node.func, ast.Attribute) and name[:1].isupper())
            is_error = known and getattr(getattr(node.func, "value", None), "id", "") in ("errors", "")
            if (name in ("Message", "NotAuthorized") or is_error) and isinstance(code, str):
                found.append((f"{path.name}:{node.lineno}", code, {str(word.arg) for word in node.keywords}))
    return found


def test_every_message_has_a_text_and_its_parameters() -> None:
    found = calls()
    assert len(found) > 70
    for place, code, names in found:
        assert code in TEXTS, place
        assert placeholders(TEXTS[code]) == names, place


def test_every_text_is_a_sentence_without_its_full_stop() -> None:
    for code, text in TEXTS.items():
        assert not text.endswith("."), code
        assert "\n" not in text, code


def test_parameters_may_be_messages() -> None:
    inner = Message("no-unit", unit="{x}.service")
    message = Message("not-started", app="a", reason=inner)
    assert str(message) == "app a was not started: there is no unit {x}.service"
    note = schema.convert(sent(message.note(), Note), Note)
    assert note.parameters["reason"] == {"code": "no-unit", "parameters": {"unit": "{x}.service"}}
    assert render(TEXTS, note.code, note.parameters) == str(message)
    translated = {**TEXTS, "not-started": "{app}: {reason}", "no-unit": "{unit}?"}
    assert render(translated, note.code, note.parameters) == "a: {x}.service?"


def test_a_reader_that_does_not_know_the_code_shows_the_text() -> None:
    assert render(TEXTS, "of-tomorrow", {}, "the text") == "the text"
    assert render(TEXTS, "no-unit", {}, "the text") == "the text", "a parameter is missing"
