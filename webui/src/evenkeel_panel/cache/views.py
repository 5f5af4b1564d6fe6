# SPDX-License-Identifier: Apache-2.0
"""Routes of the page of the page cache."""

from __future__ import annotations

from typing import Any

from evenkeel_api.features.cache import Cache, CacheMinute, PriorityDirectory
from evenkeel_api.roles import ADMIN
from flask import render_template, request

from .. import texts
from ..agent import AgentError, AgentRefused
from ..context import Nav, call, view
from ..tables import Table
from ..twins import Feature

blueprint = Feature("cache", __name__, template_folder="templates")
NAV = Nav(120, "Cache", "cache.page")
# state of the page pool → class of its pill, and what the page calls it
POOL_STATES = {"on": ("ok", "on"), "idle": ("off", "no directory to protect"), "off": ("bad", "off")}
# state of a directory → class of its pill, what the page calls it, and what it means or what to do
DIRECTORY_STATES = {
    "protected": ("ok", "protected", ""),
    "shared": ("ok", "protected", "Another entry names the same directory."),
    "absent": ("wait", "does not exist", "It is protected as soon as it appears."),
    "not-a-directory": ("bad", "no directory", "Choose the directory of the file."),
    "overlay": ("bad", "not protected", "It lies on overlayfs: choose the directories of the layers."),
    "no-device": (
        "bad",
        "not protected",
        "Its file system has no device, such as tmpfs, so its pages cannot be lost.",
    ),
    "too-many": ("bad", "not protected", "The board protects 256 directories at most: remove others."),
    "failed": ("bad", "not protected", "The board tries again every 30 s."),
    "off": ("off", "not protected", "The page pool is off."),
}


@blueprint.app_template_filter("hit_ratio")
def hit_ratio(percent: float) -> str:
    return f"{percent:.1f} %" if percent >= 0 else "no accesses"


def _cache() -> Cache:
    """The page pool. A pool that the agent cannot reach is off, and the reason is its problem."""
    try:
        found: Cache = call("GetCache")
    except AgentRefused as error:
        if error.kind != "Failed":
            raise
        found = Cache("off", problem=[error.note])
    return found


def _page(status: int = 200, **more: Any) -> tuple[str, int]:
    """The page. MORE may have a message with its kind, and what was typed."""
    made = render_template(
        "cache/page.html",
        cache=_cache(),
        apps={app.name: app.title for app in view().apps},
        pool_states=POOL_STATES,
        directory_states=DIRECTORY_STATES,
        role=ADMIN,
        **more,
    )
    return made, status


@blueprint.get("/cache")
def page() -> tuple[str, int]:
    return _page()


@blueprint.twin("/cache.json", Cache, "GetCache")
def page_json() -> Cache:
    """The pools of the page cache, and the priority directories."""
    return _cache()


@blueprint.twin("/cache.csv", PriorityDirectory, "GetCache")
def page_csv() -> Table:
    """The priority directories."""
    return Table(_cache().directories, "priority-directories")


@blueprint.twin("/cache/minutes.csv", CacheMinute, "GetCache")
def minutes_csv() -> Table:
    """The last minutes of the pools of the page cache."""
    return Table(_cache().minutes, "cache-minutes")


@blueprint.get("/cache/live")
def live() -> str:
    """The figures of the page, which it requests every five seconds."""
    return render_template("cache/live.html", cache=_cache(), pool_states=POOL_STATES)


def _change(code: str, method: str) -> tuple[str, int]:
    app, path = request.form.get("app", "")[:64], request.form.get("directory", "").strip()
    if not app or not path:
        return _page(422, message=texts.text("directory-missing"), kind="bad", app=app, path=path)
    # A path that ends with "/" is the same directory.
    path = path.rstrip("/") or "/"
    try:
        call(method, app, path[:4096])
    except AgentError as error:
        if error.about_user:
            raise
        return _page(error.http, message=str(error), kind="bad", app=app, path=path)
    return _page(message=texts.text(code, app=app, path=path), kind="ok")


@blueprint.post("/cache/add")
def add() -> tuple[str, int]:
    return _change("directory-added", "AddPriorityDirectory")


@blueprint.post("/cache/remove")
def remove() -> tuple[str, int]:
    return _change("directory-removed", "RemovePriorityDirectory")
