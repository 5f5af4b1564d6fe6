# SPDX-License-Identifier: Apache-2.0
"""/healthz: the health of the board, for boot checks and monitoring programs. It needs no log-in."""

from __future__ import annotations

from flask import Blueprint, Response, jsonify

from .. import __version__
from ..context import client, panel

blueprint = Blueprint("health", __name__)


@blueprint.get("/healthz")
def healthz() -> tuple[Response, int]:
    """200 with scheduler, kernel, slot, health ("ok" or "degraded") and version; 503 if the agent does not answer.

    The answer comes from a cache (`Board`), so frequent requests do not load the agent. It does not list the problems
    of a degraded board, because anybody may read it.
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
