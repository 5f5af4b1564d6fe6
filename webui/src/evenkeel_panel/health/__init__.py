# SPDX-License-Identifier: Apache-2.0
"""/healthz: health of the board for boot checks and monitors, without log-in."""

from __future__ import annotations

from flask import Blueprint, Response, jsonify

from .. import __version__
from ..context import panel

blueprint = Blueprint("health", __name__)


@blueprint.get("/healthz")
def healthz() -> tuple[Response, int]:
    """200 with scheduler, kernel, slot, health ("ok" or "degraded") and version; 503 if the agent is down.

    It reads the same cached view as the pages (`Board`), so frequent requests cost the agent nothing.
    The problems of a degraded board are not listed, because anybody may read this.
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
