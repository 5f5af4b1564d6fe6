# SPDX-License-Identifier: Apache-2.0
"""One route serves all methods. A method that changes something needs POST with a JSON object, any other method GET.

app.protect() refuses a POST without an API token.
"""

from __future__ import annotations

from typing import Any

import msgspec
from evenkeel_api.interface import METHODS
from flask import Response, abort, request
from werkzeug.exceptions import MethodNotAllowed

from .. import texts
from ..context import call
from ..twins import Feature

blueprint = Feature("api", __name__)

# The methods of the API: all except those about a browser's session, those that refuse a token, those for the console only,
# and those whose answer is an open file.
SERVED = {
    name: method
    for name, method in METHODS.items()
    if not (method.panel or method.no_token or method.local or method.out_signature == "h")
}


@blueprint.twin("/api/v1/openapi.json", dict[str, Any])
def openapi() -> Response:
    """This description."""
    from .openapi import document  # only a program that asks for it needs it

    return Response(document(), mimetype="application/json")


@blueprint.route("/api/v1/<name>", methods=["GET", "POST", "OPTIONS"], provide_automatic_options=False)
def method(name: str) -> Response:
    if name not in SERVED:
        abort(404, texts.text("api-no-method", method=name[:40]))
    found = METHODS[name]
    allowed = ["POST", "OPTIONS"] if found.changes else ["GET", "HEAD", "OPTIONS"]
    if request.method == "OPTIONS":
        return Response(headers={"Allow": ", ".join(allowed)})
    if request.method not in allowed:
        raise MethodNotAllowed(allowed, texts.text("api-method", method=name, verb=allowed[0]))
    try:
        if request.method == "POST":
            values = msgspec.json.decode(request.get_data() or b"{}", type=found.request)
        else:
            values = msgspec.convert(_query(), found.request, strict=False)
    except (msgspec.ValidationError, msgspec.DecodeError, UnicodeDecodeError) as error:
        abort(422, texts.text("api-arguments", method=name, reason=str(error)))
    answer = call(name, *(getattr(values, field) for field in values.__struct_fields__))
    return Response(msgspec.json.encode({} if answer is None else answer), mimetype="application/json")


def _query() -> dict[str, Any]:
    return {key: value for key, value in request.args.items() if key.isidentifier()}
