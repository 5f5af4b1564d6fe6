# SPDX-License-Identifier: Apache-2.0
"""schemathesis calls every method of the API, as its description says and not so. No answer is undocumented, or a crash.

test_api.py does the same with values that the agent knows, and with damaged bodies. schemathesis is a second opinion that
knows nothing but /api/v1/openapi.json.
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
from evenkeel_panel.testing import COMPONENT, ApiBoard
from sample import DEEP, SEED, sample
from werkzeug.serving import make_server

if TYPE_CHECKING:
    from collections.abc import Iterator

WANTED = Path(__file__).with_name("schemathesis.txt")
ENVIRONMENT = COMPONENT.parent / "build/schemathesis"
CASES = 200 if DEEP else 10  # random calls of each method, besides the limits of each parameter
# They end the token of the calls. test_api.py calls them.
LEFT_OUT = ("EndSession", "RemoveToken", "ResetPassword")
CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"


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


@pytest.fixture(scope="module")
def board() -> Iterator[tuple[ApiBoard, int]]:
    """A panel that listens, and its port."""
    with TemporaryDirectory() as folder:
        board = ApiBoard(Path(folder))
        server = make_server("127.0.0.1", 0, board.app, threaded=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield board, server.server_port
        server.shutdown()


@pytest.mark.timeout(3600 if DEEP else 300)
@pytest.mark.parametrize("role", sample("role", ["viewer", "operator", "admin"]))
def test_no_answer_is_undocumented(
    program: Path, board: tuple[ApiBoard, int], tmp_path: Path, role: str
) -> None:
    assert {f"/api/v1/{name}" for name in LEFT_OUT} <= json.loads(document())["paths"].keys()
    panel, port = board
    address = f"http://127.0.0.1:{port}"
    options = {
        "url": address,
        "header": f"Authorization: Bearer {panel.tokens[role]}",
        "checks": CHECKS,
        "phases": "examples,coverage,fuzzing",
        "max-examples": str(CASES),
        "seed": SEED,
        "exclude-path-regex": "|".join(f"{name}$" for name in LEFT_OUT),
    }
    words = [word for name, value in options.items() for word in (f"--{name}", value)]
    done = subprocess.run(
        [program, "run", f"{address}/api/v1/openapi.json", "--no-color", *words],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-1000:]
    count = next(line.strip() for line in done.stdout.splitlines() if " generated, " in line)
    print(f"schemathesis, {role}, seed {SEED}: {count}")
