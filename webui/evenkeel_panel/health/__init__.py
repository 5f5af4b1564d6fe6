# SPDX-License-Identifier: Apache-2.0
"""/healthz: what a boot check and a monitor ask, without a log-in."""

from __future__ import annotations

from flask import Blueprint, Response, jsonify

from .. import __version__
from ..context import panel

blueprint = Blueprint("health", __name__)


@blueprint.get("/healthz")
def healthz() -> tuple[Response, int]:
    """200 with scheduler, kernel, slot, health ("ok" or "degraded") and version; 503 without an agent.

    It reads the same cached view as the pages (`Board`), so asking often costs the agent nothing.
    What is wrong with a degraded board is for those who log in.
    """
    view = panel().board.view()
    if view.status is None:
        return jsonify(health="agent-unreachable", reason=view.reason, version=__version__), 503
    status = view.status
    return (
        jsonify(
            scheduler=status.scheduler,
            kernel=status.kernel,
            slot=status.slot,
            health=status.health,
            version=status.version or __version__,
        ),
        200,
    )
