# SPDX-License-Identifier: Apache-2.0
"""Helpers for the tests of this component and of tests/browser. A board does not have this module."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenkeel_common.wear import Wear
from evenkeel_history.period import pack
from evenkeel_history.store import Store
from evenkeel_history.testing import busy
from evenkeel_history.tiers import MINUTE, slot

from .app import create_app
from .fake_agent import FIRST_PASSWORD as FIRST
from .fake_agent import FakeAgent

if TYPE_CHECKING:
    from collections.abc import Iterator

    from flask.testing import FlaskClient
    from playwright.sync_api import Browser as Chromium  # type: ignore[import-not-found,unused-ignore]
    from werkzeug.test import TestResponse

COMPONENT = Path(__file__).resolve().parents[2]
PASSWORD = "sailing on an even keel"  # noqa: S105
BASE = "https://board"  # https, because the session cookie is Secure


@dataclass
class Browser:
    """A test client that sends forms as a browser does, with the CSRF token of the page."""

    client: FlaskClient
    state: Path

    def get(self, path: str, **headers: str) -> TestResponse:
        return self.client.get(path, base_url=BASE, headers=headers)

    def post(self, path: str, page: str, htmx: bool = False, **fields: str) -> TestResponse:
        """Send `fields` to `path` with the CSRF token in `page`."""
        match = re.search(r'name="csrf_token" value="([^"]+)"', self.get(page).text)
        assert match, f"{page} has no form"
        headers = {"HX-Request": "true"} if htmx else {}
        return self.client.post(
            path, base_url=BASE, headers=headers, data={"csrf_token": match.group(1), **fields}
        )

    def log_in(self, password: str = PASSWORD, user: str = "admin", **fields: str) -> TestResponse:
        return self.post("/login", "/login", False, username=user, password=password, **fields)

    def set_up(self) -> Browser:
        """Log in with the first-boot password and change it."""
        assert self.log_in(FIRST).location == "/password"
        done = self.post("/password", "/password", current=FIRST, new=PASSWORD, confirm=PASSWORD)
        assert done.location in ("/setup?changed=1", "/apps?changed=1")
        return self

    def new_user(self, role: str) -> Browser:
        """A client of the new user `the-ROLE`, who has changed the first password. This client is an administrator's."""
        name = f"the-{role}"
        first = re.search(r"first password (\S+)\.", self.post("/users", "/users", name=name, role=role).text)
        assert first
        found = Browser(self.client.application.test_client(), self.state)
        found.log_in(first[1], name)
        found.post("/password", "/password", current=first[1], new=PASSWORD, confirm=PASSWORD)
        return found

    def set_weight(self, name: str, weight: str, htmx: bool = True) -> TestResponse:
        return self.post(f"/apps/{name}/weight", "/apps", htmx=htmx, weight=weight)

    def set_fixed_share(self, name: str, percent: str, htmx: bool = True) -> TestResponse:
        return self.post(f"/apps/{name}/fixed-share", "/apps", htmx=htmx, fixed_share=percent)


class ApiBoard:
    """A panel, and tokens of an administrator by role. CONFIG: settings of the panel, such as HISTORY_FOLDER."""

    def __init__(self, state: Path, **config: object) -> None:
        self.agent = FakeAgent()
        self.app = create_app(state, COMPONENT / "src/static", self.agent, **config)
        call = self.agent.call
        first = call("LogIn", "", "t", "admin", FIRST, "", "", "test").session
        self.session = call("ChangePassword", first, "t", FIRST, PASSWORD, "test").session
        self.tokens = {
            role: call("CreateToken", self.session, "t", "test", role, 1).token
            for role in ("viewer", "operator", "admin")
        }

    def ask(
        self, path: str, verb: str, role: str | None, query: object = None, body: bytes = b""
    ) -> TestResponse:
        headers = {"Authorization": f"Bearer {self.tokens.get(role, 'ek_wrong')}"} if role else {}
        query_string: Any = query
        return self.app.test_client().open(
            path, method=verb, base_url=BASE, headers=headers, query_string=query_string, data=body
        )


def some_history(folder: Path) -> Path:
    """Make a history of the last minutes in FOLDER: two apps that read and write, and the wear of two devices."""
    store, now = Store(folder), slot(int(time.time()), MINUTE)
    store.open()
    starts = range(now - 5 * MINUTE, now, MINUTE)
    minutes = [
        (number, at, pack(busy(number, apps=["player", "loader"]))) for number, at in enumerate(starts, 1)
    ]
    store.write(minutes, [Wear("mmcblk0", 40, 10, "normal"), Wear("vda")], now)
    store.close()
    return folder


class ApiBoards:
    """A panel that is replaced when a call has ended its tokens, for example by a reset of the password."""

    def __init__(self, folder: Path, **config: object) -> None:
        self._folder, self._number, self._config = folder, 0, config
        self._new()

    def _new(self) -> None:
        self._number += 1
        (state := self._folder / str(self._number)).mkdir()
        self.board = ApiBoard(state, **self._config)

    def ready(self, role: str = "admin") -> ApiBoard:
        """A panel on which the token for ROLE has its rights."""
        checks = (("ListApps", role), ("ListUsers", "admin"))
        if any(self.board.ask(f"/api/v1/{name}", "GET", who).status_code != 200 for name, who in checks):
            self._new()
        return self.board


def openssl(*arguments: object) -> bytes:
    """What openssl prints."""
    return subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True).stdout


class Authority:
    """An authority with a root and an intermediate, which signs certificates.

    FOLDER: for its files. MIDDLE_DAYS: validity of the intermediate.
    """

    def __init__(self, folder: Path, middle_days: int = 90) -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)
        self.root, self.middle = folder / "root.pem", folder / "middle.pem"
        make = (
            "req",
            "-x509",
            "-new",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
            "-nodes",
            "-days",
            99,
        )
        openssl(*make, "-keyout", folder / "root.key", "-out", self.root, "-subj", "/CN=Root")
        extensions = ("basicConstraints=critical,CA:TRUE",)
        self._sign("middle", self.root, folder / "root.key", extensions, "P-256", middle_days)

    def _sign(
        self, name: str, issuer: Path, key: Path, extensions: tuple[str, ...], curve: str, days: int
    ) -> None:
        kind: tuple[str, ...] = ("ec", "-pkeyopt", f"ec_paramgen_curve:{curve}")
        if curve.isdigit():
            kind = ("rsa", "-pkeyopt", f"rsa_keygen_bits:{curve}")
        elif curve == "ed25519":
            kind = (curve,)
        out = self.folder
        added = [word for extension in extensions for word in ("-addext", extension)]
        openssl("req", "-x509", "-new", "-newkey", *kind, "-nodes", "-keyout", out / f"{name}.key", "-out", out / f"{name}.pem",
                "-subj", f"/CN={name}", "-CA", issuer, "-CAkey", key, "-days", days, *added)  # fmt: skip

    def board(
        self, *, curve: str = "P-256", days: int = 30, extensions: tuple[str, ...] = ()
    ) -> tuple[str, str]:
        """A certificate with the intermediate, and its key. CURVE: also `ed25519`, or the bits of an RSA key."""
        self._sign(
            "board",
            self.middle,
            self.folder / "middle.key",
            ("subjectAltName=DNS:board.example", *extensions),
            curve,
            days,
        )
        chain = (self.folder / "board.pem").read_text() + self.middle.read_text()
        return chain, (self.folder / "board.key").read_text()


def headings(html: str) -> list[int]:
    """The levels of the headings on a page. Raises AssertionError unless they begin with one h1 and skip no level."""
    levels = [int(level) for level in re.findall(r"<h([1-6])[ >]", html)]
    assert levels[:1] == [1], levels
    assert levels.count(1) == 1, levels
    assert all(after <= before + 1 for before, after in pairwise(levels)), levels
    return levels


@contextmanager
def time_limit(chromium: Chromium, seconds: float) -> Iterator[None]:
    """Kill the browser and raise TimeoutError if the block takes longer than `seconds`.

    Many calls of Playwright (evaluate, mouse, clock, CDP) wait for the browser without a time-out.
    They raise an error once the browser is gone, so a test with a hanging browser fails instead of
    waiting for ever.
    """
    session = chromium.new_browser_cdp_session()
    processes = session.send("SystemInfo.getProcessInfo")["processInfo"]
    session.detach()
    pid = next(int(process["id"]) for process in processes if process["type"] == "browser")
    expired = threading.Event()

    def kill() -> None:
        expired.set()
        os.kill(pid, signal.SIGKILL)

    timer = threading.Timer(seconds, kill)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        if expired.is_set():
            raise TimeoutError(f"the browser was killed because the test took longer than {seconds:g} s")
