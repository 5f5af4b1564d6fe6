# SPDX-License-Identifier: Apache-2.0
"""/healthz: health of the board for boot checks and monitors, without log-in."""

from __future__ import annotations

from flask import Blueprint, Response, jsonify

from .. import __version__
from ..context import client, panel

blueprint = Blueprint("health", __name__)


@blueprint.get("/healthz")
def healthz() -> tuple[Response, int]:
    """200 with scheduler, kernel, slot, health ("ok" or "degraded") and version; 503 if the agent is down.

    It reads a cache (`Board`), so frequent requests cost the agent nothing. The problems of a degraded board are
    not listed, because anybody may read this.
    """
    address = client()
    found, reason = panel().board.health(lambda: panel().agent.call("GetHealth", "", address))
    if found is None:
        return jsonify(health="agent-unreachable", reason=reason, version=__version__), 503
    return (
        jsonify(
            scheduler=found.scheduler,
            kernel=found.kernel,
            slot=found.slot,
            health=found.health,
            version=found.version or __version__,
        ),
        200,
    )
