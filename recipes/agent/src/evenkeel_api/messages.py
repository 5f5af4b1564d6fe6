# SPDX-License-Identifier: Apache-2.0
"""A message has a code and parameters. Its text comes from a catalogue, so that it can be translated.

The agent sends the code, the parameters and the English text. A program that does not know the code shows that text.
"""

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from .schema import Struct
from .texts import TEXTS


class Note(Struct, frozen=True):
    """A message as D-Bus and JSON carry it."""

    code: Annotated[str, Meta(description="code of the message; the catalogue has the text for it")]
    parameters: Annotated[
        dict[str, Any],
        Meta(
            description="values in the text, by name; a value that is a message has `code` and `parameters`"
        ),
    ] = msgspec.field(default_factory=dict)
    text: Annotated[str, Meta(description="the text in English, a sentence without its full stop")] = ""


class Message:
    """A code of the catalogue and its parameters. str() is the English text."""

    __slots__ = ("code", "parameters")

    def __init__(self, code: str, /, **parameters: Any) -> None:
        self.code = code
        self.parameters = parameters

    def __str__(self) -> str:
        return render(TEXTS, self.code, self.parameters)

    def __repr__(self) -> str:
        return f"Message({self.code!r}, **{self.parameters!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Message) and (self.code, self.parameters) == (other.code, other.parameters)

    def __hash__(self) -> int:
        return hash((self.code, str(self)))

    def note(self) -> Note:
        return Note(code=self.code, parameters=_plain(self.parameters), text=str(self))


def _plain(value: Any) -> Any:
    if isinstance(value, Message):
        return {"code": value.code, "parameters": _plain(value.parameters)}
    if isinstance(value, Mapping):
        return {key: _plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    return value if isinstance(value, str | int | float) else str(value)


def render(texts: Mapping[str, str], code: str, parameters: Mapping[str, Any], otherwise: str = "") -> str:
    """The text of CODE from TEXTS, with PARAMETERS. If TEXTS does not have CODE: OTHERWISE, or CODE itself."""
    values = {key: _shown(texts, value) for key, value in parameters.items()}
    try:
        return texts[code].format(**values)
    except (KeyError, ValueError, IndexError, TypeError, AttributeError):
        return otherwise or code


def _shown(texts: Mapping[str, str], value: Any) -> Any:
    if isinstance(value, Message):
        return render(texts, value.code, value.parameters)
    if isinstance(value, Mapping):
        return render(texts, str(value.get("code", "")), value.get("parameters") or {})
    if isinstance(value, list | tuple):
        return ", ".join(str(_shown(texts, entry)) for entry in value)
    return value
