# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: PTH208
"""The D-Bus interfaces of the agent, with all methods. Each module of `features` defines some of the methods.

There are two D-Bus interfaces. They have the same methods, except that some methods are in one of them only:

- NAME serves Unix users: root and administrators. It lacks the methods with Method.panel.
- SESSION serves the panel, which calls on behalf of a logged-in user. It lacks the methods with Method.local. Its
  methods have two more arguments in front: `session` (the secret of a session or API token; empty without one) and
  `address` (the address of the browser).
"""

import importlib
import os.path
from collections.abc import Mapping

from . import features
from .errors import NAME
from .method import Method

__all__ = [
    "ACTIONS",
    "METHODS",
    "NAME",
    "PATH",
    "SESSION",
    "SESSIONS_CHANGED",
    "SESSION_SIGNATURE",
    "introspection",
    "served",
]
PATH = "/org/evenkeel/Agent1"
SESSION = NAME + ".Session"
SESSION_SIGNATURE = "ss"
SESSIONS_CHANGED = "SessionsChanged"  # signal: a session, user or token has changed or ended, or may have


def _discover() -> tuple[dict[str, Method], dict[str, str]]:
    methods: dict[str, Method] = {}
    actions: dict[str, str] = {}
    for file in sorted(os.listdir(features.__path__[0])):
        if not file.endswith(".py") or file.startswith("_"):
            continue
        module = importlib.import_module(f"{features.__name__}.{file.removesuffix('.py')}")
        methods |= {method.name: method for method in module.METHODS}
        actions |= module.ACTIONS
    return methods, actions


METHODS, ACTIONS = _discover()


def served(interface: str, methods: Mapping[str, Method] = METHODS) -> list[Method]:
    """The methods of the D-Bus interface INTERFACE."""
    return [
        method for method in methods.values() if not (method.panel if interface == NAME else method.local)
    ]


def introspection(methods: Mapping[str, Method] = METHODS) -> str:
    """The answer to org.freedesktop.DBus.Introspectable.Introspect."""
    lines = [
        '<!DOCTYPE node PUBLIC "-//freedesktop//DTD D-BUS Object Introspection 1.0//EN"',
        ' "http://www.freedesktop.org/standards/dbus/1.0/introspect.dtd">',
        "<node>",
    ]
    for interface in (NAME, SESSION):
        lines.append(f' <interface name="{interface}">')
        for method in served(interface, methods):
            lines.append(f'  <method name="{method.name}">')
            before = [("session", "s"), ("address", "s")] if interface == SESSION else []
            inputs = [*before, *((field.name, field.signature) for field in method.inputs)]
            outputs = [(method.answer_name, method.out_signature)] if method.out_signature else []
            for direction, arguments in (("in", inputs), ("out", outputs)):
                lines += [
                    f'   <arg name="{name}" type="{kind}" direction="{direction}"/>'
                    for name, kind in arguments
                ]
            lines.append("  </method>")
        if interface == SESSION:
            lines.append(f'  <signal name="{SESSIONS_CHANGED}"/>')
        lines.append(" </interface>")
    return "\n".join([*lines, "</node>", ""])
