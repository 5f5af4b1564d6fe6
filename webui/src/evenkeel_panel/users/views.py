# SPDX-License-Identifier: Apache-2.0
"""Routes of the users page."""

from __future__ import annotations

from typing import Any

from evenkeel_api.features.accounts import User
from evenkeel_api.roles import ADMIN, ROLES
from flask import abort, render_template, request

from .. import texts
from ..agent import AgentError
from ..context import Nav, call
from ..tables import Table
from ..twins import Feature

blueprint = Feature("users", __name__, template_folder="templates")
NAV = Nav(320, "Users", "users.page", ADMIN)


@blueprint.get("/users")
def page() -> str:
    return _page()


@blueprint.twin("/users.json", list[User], "ListUsers")
def page_json() -> list[User]:
    """The users of the panel."""
    return _users()


@blueprint.twin("/users.csv", User, "ListUsers")
def page_csv() -> Table:
    """The users of the panel."""
    return Table(_users(), "users")


def _users() -> list[User]:
    found: list[User] = call("ListUsers")
    return found


def _page(**more: Any) -> str:
    return render_template("users/page.html", users=_users(), roles=ROLES, **more)


def _do(code: str, method: str, *values: str, typed: dict[str, str] | None = None) -> str | tuple[str, int]:
    """Call METHOD, then show the page with the message CODE, or with the reason of a failure and what was TYPED."""
    try:
        answer = call(method, *values)
    except AgentError as error:
        if error.about_user:
            raise
        return _page(message=str(error), kind="bad", typed=typed), error.http
    role = values[1] if len(values) > 1 else ""
    password = answer.password if answer else ""
    return _page(message=texts.text(code, user=values[0], role=role, password=password), kind="ok")


@blueprint.post("/users")
def add() -> str | tuple[str, int]:
    typed = {"name": request.form.get("name", "").strip()[:64], "role": request.form.get("role", "")}
    return _do("user-added", "AddUser", typed["name"], typed["role"], typed=typed)


@blueprint.post("/users/<name>/role")
def role(name: str) -> str | tuple[str, int]:
    return _do("role-set", "SetRole", name[:64], request.form.get("role", ""))


@blueprint.get("/users/<name>/reset")
def ask_reset(name: str) -> str:
    return _ask(name, "reset", "Reset the password of {name}", "Reset the password")


@blueprint.get("/users/<name>/remove")
def ask_remove(name: str) -> str:
    return _ask(name, "remove", "Remove {name}", "Remove")


def _ask(name: str, action: str, title: str, button: str) -> str:
    """The page that asks before ACTION."""
    if not any(user.name == name for user in _users()):
        abort(404, texts.text("unknown-user", name=name[:40]))
    text = texts.text(f"user-ask-{action}", user=name)
    return render_template(
        "users/ask.html", name=name, action=action, title=title.format(name=name), text=text, button=button
    )


@blueprint.post("/users/<name>/reset")
def reset(name: str) -> str | tuple[str, int]:
    return _do("password-reset", "ResetPassword", name[:64])


@blueprint.post("/users/<name>/remove")
def remove(name: str) -> str | tuple[str, int]:
    return _do("user-removed", "RemoveUser", name[:64])
