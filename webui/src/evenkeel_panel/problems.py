# SPDX-License-Identifier: Apache-2.0
"""Problems as the pages show them: what is wrong, and what to do. The texts are in the catalogue."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from evenkeel_api.schema import Struct
from msgspec import Meta

from . import texts

if TYPE_CHECKING:
    from evenkeel_api.messages import Message, Note


class Problem(Struct, frozen=True):
    code: str
    reason: Annotated[str, Meta(description="a sentence")]
    remedy: Annotated[str, Meta(description="what to do: one or more sentences")]


def of_agent(note: Note) -> Problem:
    """A problem that the agent reports."""
    reason, remedy = texts.explained(note)
    return Problem(note.code, reason, remedy)


def of_message(message: Message) -> Problem:
    """A problem of which one part of the panel has a message."""
    return own(message.code, **message.parameters)


def own(code: str, **parameters: Any) -> Problem:
    """A problem that the panel has found."""
    return Problem(code, texts.text(code, **parameters), texts.remedy(code, **parameters))
