# SPDX-License-Identifier: Apache-2.0
"""A method of the agent as data."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from .errors import AgentError, Failed, NotAuthorized
from .roles import Role
from .schema import Field, Struct, fields, signature

ANY = (NotAuthorized, Failed)  # errors of every method


class Nothing(Struct, frozen=True):
    """No arguments."""


@dataclass(frozen=True)
class Method:
    """A method. The fields of REQUEST are its arguments in order.

    ACTION: the polkit action that the caller needs. ROLE: the lowest role that may call it; None: everybody, so
    that a panel without a session may. CHANGES: each call is an entry of the audit log. ERRORS: only errors of this
    interface. SECRET: arguments that no log may contain. PANEL: only the panel may call it, because it is about the
    account of its user. LOCAL: the panel may not call it. FIRST: a user who must change the password may call it.
    """

    name: str
    action: str
    role: Role | None
    meaning: str
    request: type[Struct] = Nothing
    answer: Any = None
    answer_name: str = ""
    errors: tuple[type[AgentError], ...] = ANY
    changes: bool = False
    secret: tuple[str, ...] = ()
    panel: bool = False
    local: bool = False
    first: bool = False

    @cached_property
    def inputs(self) -> tuple[Field, ...]:
        return fields(self.request)

    @cached_property
    def in_signature(self) -> str:
        return "".join(field.signature for field in self.inputs)

    @cached_property
    def out_signature(self) -> str:
        return "" if self.answer is None else signature(self.answer)

    @cached_property
    def handler(self) -> str:
        """The name of the Python function that serves it: SetWeight is set_weight."""
        return "".join(f"_{c.lower()}" if c.isupper() else c for c in self.name).lstrip("_")
