# SPDX-License-Identifier: Apache-2.0
"""What the room's tests share; not installed on a board."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flask.testing import FlaskClient
    from werkzeug.test import TestResponse

ROOM = Path(__file__).resolve().parent.parent
FIRST = "abcd-efgh-jkmn"
PASSWORD = "sailing on an even keel"  # noqa: S105
BASE = "https://board"  # the session cookie is Secure


@dataclass
class Browser:
    """A test client that fills forms as a browser does: with the token of the page."""

    client: FlaskClient
    state: Path

    def get(self, path: str, **headers: str) -> TestResponse:
        return self.client.get(path, base_url=BASE, headers=headers)

    def post(self, path: str, page: str, htmx: bool = False, **fields: str) -> TestResponse:
        """Send `fields` to `path` with the token that `page` carries."""
        match = re.search(r'name="csrf_token" value="([^"]+)"', self.get(page).text)
        assert match, f"{page} has no form"
        headers = {"HX-Request": "true"} if htmx else {}
        return self.client.post(
            path, base_url=BASE, headers=headers, data={"csrf_token": match.group(1), **fields}
        )

    def log_in(self, password: str = PASSWORD) -> TestResponse:
        return self.post("/login", "/login", password=password)

    def set_up(self) -> Browser:
        """Log in for the first time and change the password."""
        assert self.log_in(FIRST).location == "/password"
        done = self.post("/password", "/password", current=FIRST, new=PASSWORD, confirm=PASSWORD)
        assert done.location == "/apps?changed=1"
        return self

    def set_performance(self, name: str, percent: str, htmx: bool = True) -> TestResponse:
        return self.post(f"/apps/{name}/performance", "/apps", htmx=htmx, performance=percent)

    def set_weight(self, name: str, weight: str, htmx: bool = True) -> TestResponse:
        return self.post(f"/apps/{name}/weight", "/apps", htmx=htmx, weight=weight)
