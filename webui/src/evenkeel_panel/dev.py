# SPDX-License-Identifier: Apache-2.0
"""Runs the panel on this machine, without a board: `python3 -m evenkeel_panel.dev --vendor DIR`.

The panel uses a fake agent and a new temporary directory. A board does not have this module.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from flask import Flask, Response, abort, send_from_directory
from werkzeug.serving import make_server

from .app import create_app, find_static
from .fake_agent import FIRST_PASSWORD, FakeAgent

STATIC = Path(__file__).resolve().parent.parent / "static"
__all__ = ["FIRST_PASSWORD", "dev_app"]


def dev_app(state: Path, vendor: Path, agent: FakeAgent, **config: object) -> Flask:
    """A panel over plain HTTP that serves its static files itself."""
    settings: dict[str, object] = {
        "SESSION_COOKIE_NAME": "evenkeel-dev",  # the prefix of the board's cookie needs HTTPS
        "SESSION_COOKIE_SECURE": False,
        "TEMPLATES_AUTO_RELOAD": True,
        **config,
    }
    app = create_app(state, STATIC, agent, **settings)

    @app.get("/static/<path:name>", endpoint="static")
    def static(name: str) -> Response:
        if name.startswith("vendor/"):
            return send_from_directory(vendor.resolve(), name.removeprefix("vendor/"))
        path = find_static(STATIC, name)
        return send_from_directory(path.parent, path.name) if path else abort(404)

    return app


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--port", type=int, default=8080)
    parser.add_argument(
        "--vendor", type=Path, required=True, help="the folder that webui/src/fetch-static has filled"
    )
    parser.add_argument("--dead", action="store_true", help="with an agent that does not answer")
    options = parser.parse_args()
    agent = FakeAgent(moving=True)
    if options.dead:
        agent.dead = "The agent does not answer: it is not running."
    with tempfile.TemporaryDirectory(prefix="evenkeel-panel-") as state:
        app = dev_app(Path(state), options.vendor, agent)
        print(f"http://127.0.0.1:{options.port}  first-boot password: {FIRST_PASSWORD}", flush=True)
        make_server("127.0.0.1", options.port, app, threaded=True).serve_forever()


if __name__ == "__main__":
    main()
