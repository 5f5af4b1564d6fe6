# SPDX-License-Identifier: Apache-2.0
"""The description of a method of the agent, from which its D-Bus interface, checks and documentation are made."""

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

    - ACTION: the polkit action for which the caller needs authorization.
    - ROLE: the lowest role that may call the method. None: no role is needed, so the panel may call it without a
      session.
    - ERRORS: the errors of this interface that the method may return, without the standard D-Bus errors.
    - CHANGES: whether the audit log gets a row for each call.
    - SECRET: names of the arguments that no log may contain.
    - PANEL: whether only the panel may call it, because it is about the account of a panel user, or undoes a change that the
      panel remembers.
    - NO_TOKEN: whether a program with an API token must not call it, because its answer or its argument is secret.
    - LOCAL: whether the panel must not call it.
    - FIRST: whether a user may call it who must first change the password.
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
    no_token: bool = False
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
        """The name of the Python function that serves the method, for example set_weight for SetWeight."""
        return "".join(f"_{c.lower()}" if c.isupper() else c for c in self.name).lstrip("_")
