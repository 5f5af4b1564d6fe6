# SPDX-License-Identifier: Apache-2.0
"""The navigation: its groups, and who sees which page. test_page.py has how it opens on a phone."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from evenkeel_panel.app import features
from evenkeel_panel.context import GROUPS

if TYPE_CHECKING:
    from evenkeel_panel.fake_agent import FakeAgent
    from evenkeel_panel.testing import Browser

NAVIGATION = re.compile(r"<nav .*?</nav>", re.DOTALL)
VIEWER = {
    "": ["Overview", "Apps", "History"],
    "Storage": ["Wear", "Cache", "Validation", "Recorder"],
    "Board": ["Network", "System"],
    "Access": ["Your account"],
}
ADMIN = VIEWER | {
    "Board": ["Network", "System", "Updates", "Alerts"],
    "Access": ["Your account", "Users", "Audit log"],
}


def groups(html: str) -> dict[str, list[str]]:
    """The titles of the pages, by the heading of their group. Each list must have the heading as its name."""
    (found,) = NAVIGATION.findall(html)
    shown: dict[str, list[str]] = {}
    for part in found.split("<div>")[1:]:
        heading = re.search(r'<p id="([^"]+)">([^<]+)</p>', part)
        name = re.search(r'<ul(?: aria-labelledby="([^"]+)")?>', part)
        assert name
        assert name[1] == (heading[1] if heading else None)
        shown[heading[2] if heading else ""] = re.findall(r"<li><a [^>]*>([^<]+)</a></li>", part)
    return shown


def test_the_pages_are_in_groups(admin: Browser) -> None:
    assert groups(admin.get("/").text) == ADMIN


def test_a_viewer_sees_no_page_of_the_administrator(admin: Browser, agent: FakeAgent) -> None:
    users = agent.accounts._users
    users["admin"] = replace(users["admin"], role="viewer")
    assert groups(admin.get("/").text) == VIEWER


@pytest.mark.parametrize("path", ["/", "/apps", "/cache", "/system", "/users", "/account"])
def test_the_present_page_is_marked(admin: Browser, path: str) -> None:
    (found,) = NAVIGATION.findall(admin.get(path).text)
    assert re.findall(r'href="([^"]+)" aria-current="page"', found) == [path]


def test_the_button_opens_the_navigation_without_a_script(admin: Browser) -> None:
    page = admin.get("/").text
    assert '<button type="button" class="menu" popovertarget="pages">' in page
    assert re.search(r'<nav id="pages" [^>]*aria-label="Pages" popover>', page)


def test_each_entry_has_an_order_and_a_group_of_its_own() -> None:
    found = [feature.NAV for feature in features() if hasattr(feature, "NAV")]
    assert len({entry.order for entry in found}) == len(found)
    assert {entry.group for entry in found} == set(GROUPS)
