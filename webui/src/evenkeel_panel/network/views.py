# SPDX-License-Identifier: Apache-2.0
"""Routes of the network page. /network/NAME is the page with the form of the interface NAME, so each form has a URL."""

from __future__ import annotations

from typing import Any

import msgspec
from evenkeel_api import schema
from evenkeel_api.features.network import Interface, Network, SetNetwork
from evenkeel_api.roles import ADMIN, includes
from flask import abort, render_template, request

from .. import texts
from ..agent import AgentError
from ..context import Nav, call, identity
from ..tables import Table
from ..twins import Feature
from . import model

blueprint = Feature("network", __name__, template_folder="templates")
NAV = Nav(210, "Network", "network.page")


def _page(
    status: int = 200, *, found: Network | None = None, chosen: str = "", **more: Any
) -> tuple[str, int]:
    """The page. FOUND: the network; without it, the agent is asked. CHOSEN: the interface whose form is shown."""
    network: Network = found if found is not None else call("GetNetwork")
    who = identity()
    interface = model.chosen(network, chosen)
    made = render_template(
        "network/page.html",
        network=network,
        interface=interface,
        trial=model.waiting(network),
        last=model.outcome(network),
        links=model.LINKS,
        modes=model.MODES,
        may_change=who is not None and includes(who.role, ADMIN),
        typed=more.pop("typed", None) or model.form_of(interface),
        **more,
    )
    return made, status


def _refused(error: AgentError, **more: Any) -> tuple[str, int]:
    """The page with the reason, and with what was typed. A refusal that is about the user is shown elsewhere."""
    if error.about_user:
        raise error
    return _page(error.http, message=str(error), kind="bad", field=model.field_of(error.note.code), **more)


def page_after_restore(message: str) -> tuple[str, int]:
    """The page after the restore of a backup has begun a change: it says how to confirm the change."""
    return _page(begun=True, message=message, kind="ok")


@blueprint.get("/network")
def page() -> tuple[str, int]:
    return _page()


@blueprint.get("/network/<name>")
def form(name: str) -> tuple[str, int]:
    network: Network = call("GetNetwork")
    if not any(interface.name == name for interface in network.interfaces):
        abort(404, texts.text("network-no-form", interface=name[:40]))
    return _page(found=network, chosen=name)


@blueprint.twin("/network.json", Network, "GetNetwork")
def page_json() -> Network:
    """The interfaces, their settings, and a change that waits for its confirmation."""
    found: Network = call("GetNetwork")
    return found


@blueprint.twin("/network.csv", Interface, "GetNetwork")
def page_csv() -> Table:
    """The interfaces and their settings."""
    return Table(page_json().interfaces, "network")


@blueprint.post("/network/<name>")
def change(name: str) -> tuple[str, int]:
    typed = {field: request.form.get(field, "").strip()[:200] for field in model.FIELDS}
    try:
        wanted: SetNetwork = schema.convert(model.arguments(name, typed), SetNetwork)
    except msgspec.ValidationError:
        return _page(422, message=texts.text("network-form-rule"), kind="bad", typed=typed, chosen=name)
    try:
        found: Network = call("SetNetwork", *(getattr(wanted, field) for field in wanted.__struct_fields__))
    except AgentError as error:
        return _refused(error, typed=typed, chosen=name)
    return _page(found=found, chosen=name, begun=True)


@blueprint.post("/network/confirm")
def confirm() -> tuple[str, int]:
    return _end("ConfirmNetwork", "network-confirmed")


@blueprint.post("/network/revert")
def revert() -> tuple[str, int]:
    return _end("RevertNetwork", "network-reverted")


def _end(method: str, code: str) -> tuple[str, int]:
    try:
        found: Network = call(method)
    except AgentError as error:
        return _refused(error)
    return _page(found=found, message=texts.text(code), kind="ok")
