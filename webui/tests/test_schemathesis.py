# SPDX-License-Identifier: Apache-2.0
"""schemathesis calls every route for programs, as its description says and not so. No answer is undocumented, or a crash.

schemathesis knows nothing but /api/v1/openapi.json. test_api.py and test_twins.py add what that file cannot say, such as which
user may call a method.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import pytest
from evenkeel_panel.api.openapi import document
from evenkeel_panel.testing import COMPONENT, ApiBoards, some_history
from sample import DEEP, SEED
from werkzeug.serving import make_server

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from wsgiref.types import StartResponse, WSGIEnvironment

WANTED = Path(__file__).with_name("schemathesis.txt")
ENVIRONMENT = COMPONENT.parent / "build/schemathesis"
ROLES = ("viewer", "operator", "admin")
CASES = 200 if DEEP else 10  # random calls of each method, besides the limits of each parameter
# All checks of schemathesis, except one: the agent refuses values for reasons that a schema cannot have, such as a time zone
# that the board does not have.
LEFT_OUT = "positive_data_acceptance"
# status 413 also refuses a call: schemathesis may send a large body
SETTINGS = """
[checks.negative_data_rejection]
expected-statuses = ["4xx"]
"""


@pytest.fixture(scope="module")
def program() -> Path:
    """schemathesis, in an environment of its own."""
    installed = ENVIRONMENT / WANTED.name
    if not installed.exists() or installed.read_text() != WANTED.read_text():
        subprocess.run([sys.executable, "-m", "venv", "--clear", ENVIRONMENT], check=True)
        pip = ENVIRONMENT / "bin/pip"
        # a folder of wheels in the host's settings for pip need not exist in the build root
        settings = {**os.environ, "PIP_FIND_LINKS": ""}
        subprocess.run([pip, "install", "-q", "--require-hashes", "-r", WANTED], check=True, env=settings)
        installed.write_text(WANTED.read_text())
    return ENVIRONMENT / "bin/schemathesis"


class Endless:
    """The panel, with tokens `Bearer ROLE` that do not end: a call that ends the tokens gets a new panel after it."""

    def __init__(self, folder: Path) -> None:
        self.boards = ApiBoards(folder, HISTORY_FOLDER=some_history(folder / "history"))
        self.unchanged: set[str] = (
            set()
        )  # the roles whose tokens are known to be valid, because nothing was changed since

    def __call__(self, environ: WSGIEnvironment, start: StartResponse) -> Iterable[bytes]:
        role = environ.get("HTTP_AUTHORIZATION", "").removeprefix("Bearer ")
        user = role if role in ROLES else "admin"
        board = self.boards.board if user in self.unchanged else self.boards.ready(user)
        self.unchanged = self.unchanged | {user} if environ["REQUEST_METHOD"] in ("GET", "HEAD") else set()
        if role in ROLES:
            environ["HTTP_AUTHORIZATION"] = f"Bearer {board.tokens[role]}"
        return board.app(environ, start)


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """The address of a panel that listens."""
    with TemporaryDirectory() as folder:
        server = make_server("127.0.0.1", 0, Endless(Path(folder)), threaded=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.timeout(3600 if DEEP else 300)
@pytest.mark.parametrize("role", ROLES)
def test_no_answer_is_undocumented(program: Path, address: str, tmp_path: Path, role: str) -> None:
    options = {
        "url": address,
        "header": f"Authorization: Bearer {role}",
        "checks": "all",
        "exclude-checks": LEFT_OUT,
        "phases": "examples,coverage,fuzzing",
        "max-examples": str(CASES),
        "seed": SEED,
    }
    (tmp_path / "schemathesis.toml").write_text(SETTINGS)
    words = [word for name, value in options.items() for word in (f"--{name}", value)]
    done = subprocess.run(
        [program, "run", f"{address}/api/v1/openapi.json", "--no-color", *words],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    shown = "\n".join(line[:300] for line in done.stdout.splitlines()) + done.stderr[-1000:]
    assert done.returncode == 0, shown
    routes = len(json.loads(document())["paths"]) - 1  # schemathesis does not call the description itself
    assert f"Selected: {routes}/{routes}" in done.stdout, shown
    assert "401 Unauthorized (" not in done.stdout, shown  # no route was called with ended tokens only
    count = next(line.strip() for line in done.stdout.splitlines() if " generated, " in line)
    print(f"schemathesis, {role}, seed {SEED}: {count}")
