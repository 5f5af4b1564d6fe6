# SPDX-License-Identifier: Apache-2.0
"""Routes of the set-up, and its bar on the pages of the steps. Only administrators see both."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from evenkeel_api.roles import ADMIN, includes
from flask import abort, redirect, render_template, request, url_for

from .. import texts
from ..agent import AgentError
from ..context import call, identity, panel
from ..tables import Table
from ..twins import Feature
from . import model

if TYPE_CHECKING:
    from collections.abc import Callable

    from werkzeug.wrappers import Response as BaseResponse

blueprint = Feature("setup", __name__, template_folder="templates")


def _admin() -> bool:
    who = identity()
    return who is not None and includes(who.role, ADMIN)


def _check() -> None:
    if not _admin():
        abort(403, texts.text("setup-role"))


def _offered(state: str) -> bool:
    return state not in (model.ENDED, model.NOT_OFFERED)


def offer(user: str) -> bool:
    """USER has replaced a first password. Offer the set-up if the board is new. Returns whether it is offered."""
    if user != model.FIRST_USER:
        return False
    return _offered(model.state(panel().db.own_setting(model.KEY, model.OFFERED))[0])


@blueprint.app_context_processor
def _bar() -> dict[str, Any]:
    """SETUP_BAR for shell.html: the values of the bar; None where it is not shown."""
    pages = {"overview.page", *(step.url.strip("/").partition("#")[0] + ".page" for step in model.STEPS)}
    page = f"{request.blueprint}.page"
    if page not in pages or not _admin():
        return {"setup_bar": None}
    state, name = model.state(panel().db.setting(model.KEY))
    if not _offered(state) or (state == "new" and page != "overview.page"):
        return {"setup_bar": None}
    at = model.NAMES.index(name) if name else 0
    after = model.following(name) if name else ""
    step = model.STEPS[at] if name else None
    next_title = "" if after in ("", model.ENDED) else model.STEPS[model.NAMES.index(after)].title
    return {"setup_bar": {"step": step, "number": at + 1, "of": len(model.STEPS), "next": next_title}}


def _present() -> dict[str, str]:
    """What is set now, by the name of the step. What the agent does not answer is left out."""

    def system() -> dict[str, str]:
        found = call("GetSystem")
        clock = texts.text(f"clock-{found.clock}", server=found.server or "a time server")
        return {"name": found.name, "time": f"{found.zone or '?'}. {clock}"}

    def network() -> dict[str, str]:
        interfaces = call("GetNetwork").interfaces
        return {
            "network": ", ".join(address for interface in interfaces for address in interface.addresses[:1])
        }

    def alerts() -> dict[str, str]:
        found = call("GetAlerts")
        return {"alerts": ", ".join(filter(None, (found.webhook and "webhook", found.mail_to))) or "off"}

    found = {"code": "on" if identity().totp else "off"}
    sources: tuple[Callable[[], dict[str, str]], ...] = (system, network, alerts)
    for source in sources:
        try:
            found |= source()
        except AgentError as error:
            if getattr(error, "kind", "") in ("NotLoggedIn", "PasswordMustChange"):
                raise
    return found


def _data() -> model.SetUpPage:
    _check()
    state, step = model.state(panel().db.setting(model.KEY))
    present = _present()
    steps = [
        model.SetUpStep(step.name, step.title, step.url, present.get(step.name, "")) for step in model.STEPS
    ]
    return model.SetUpPage(state, step, steps)


@blueprint.get("/setup")
def page() -> str:
    return render_template(
        "setup/page.html",
        data=_data(),
        why={step.name: step.why for step in model.STEPS},
        changed=request.args.get("changed") == "1",
    )


@blueprint.twin("/setup.json", model.SetUpPage, role=ADMIN)
def page_json() -> model.SetUpPage:
    """The steps of the set-up, with the present settings."""
    return _data()


@blueprint.twin("/setup.csv", model.SetUpStep, role=ADMIN)
def page_csv() -> Table:
    """The steps of the set-up, with the present settings."""
    return Table(_data().steps, "set-up")


@blueprint.post("/setup/step")
def begin() -> BaseResponse:
    """Go to the step `step` of the form."""
    _check()
    name = request.form.get("step", "")
    if name not in model.NAMES:
        abort(422, texts.text("setup-step", steps=model.NAMES))
    return _go(name)


@blueprint.post("/setup/next")
def go_on() -> BaseResponse:
    """Go to the step after `step` of the form. The value makes a form that is sent twice harmless."""
    _check()
    name = request.form.get("step", "")
    if name not in model.NAMES:
        abort(422, texts.text("setup-step", steps=model.NAMES))
    return _go(model.following(name))


@blueprint.post("/setup/end")
def end() -> BaseResponse:
    _check()
    panel().db.set_setting(model.KEY, model.ENDED)
    return redirect(url_for("overview.page"))


def _go(name: str) -> BaseResponse:
    panel().db.set_setting(model.KEY, name)
    if name == model.ENDED:
        return redirect(url_for("setup.page"))
    return redirect(model.STEPS[model.NAMES.index(name)].url)
