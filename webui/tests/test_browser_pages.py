# SPDX-License-Identifier: Apache-2.0
"""Every page of the panel has a browser test, which loads it at all sizes and looks for barriers."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from evenkeel_panel.testing import COMPONENT

if TYPE_CHECKING:
    from collections.abc import Iterator

    from evenkeel_panel.testing import Browser
    from flask import Flask

BROWSER = COMPONENT.parent / "tests/browser"
# Pages whose address the browser test learns on the board: endpoint → its file, and the name that it gives to check()
ELSEWHERE = {
    "network.form": ("test_network.py", "network-refused"),
    "validation.compare": ("test_validation.py", "validation-compare"),
    "validation.report": ("test_validation.py", "validation-report"),
}


def listed() -> dict[str, tuple[str, str]]:
    """PAGES of test_pages.py, which needs a browser to be imported."""
    tree = ast.parse((BROWSER / "test_pages.py").read_text())
    found = [
        node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "PAGES"
    ]
    assert len(found) == 1
    pages: dict[str, tuple[str, str]] = ast.literal_eval(found[0])
    return pages


def test_a_browser_test_loads_each_page(app: Flask, pages: Iterator[tuple[str, str]]) -> None:
    urls = app.url_map.bind("board")
    named = {urls.match(path.partition("?")[0], method="GET")[0] for path, _ in listed().values()}
    found = {endpoint for endpoint, _ in pages}
    assert len(found) > 25
    assert found - named - ELSEWHERE.keys() == set(), "pages without a browser test"
    assert named | ELSEWHERE.keys() <= found, "names of no page"
    for file, name in ELSEWHERE.values():
        assert f'check(page, "{name}")' in (BROWSER / file).read_text(), (file, name)


def test_each_page_shows_its_word(admin: Browser) -> None:
    """At least the words that do not depend on the board."""
    for name, (path, word) in listed().items():
        if name.endswith(
            ("-add", "-start", "-reset", "-remove", "-change", "-today", "-spans", "updates", "audit")
        ):
            assert f">{word}<" in admin.get(path).text, name
