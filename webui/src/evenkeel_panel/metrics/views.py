# SPDX-License-Identifier: Apache-2.0
"""The route /metrics. It needs a session or an API token; the role viewer is sufficient."""

from __future__ import annotations

from flask import Response

from ..context import view
from ..history.views import reader
from ..twins import Feature

blueprint = Feature("metrics", __name__)


@blueprint.twin("/metrics", str, "GetSnapshot", media="application/openmetrics-text")
def metrics() -> Response:
    """The metrics of the board for Prometheus, in the format OpenMetrics 1.0.

    If the agent or the history does not answer, its part is missing, and a metric reports this.
    """
    # A board that nobody monitors does not load the library, which needs several MB.
    from . import exposition

    shown, source = view(), reader()
    try:
        totals = source.totals()
    except OSError:
        totals = None
    return Response(exposition.text(shown, totals, source.wear()), content_type=exposition.CONTENT_TYPE)
