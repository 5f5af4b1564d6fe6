# SPDX-License-Identifier: Apache-2.0
"""Routes for programs: the data of a page as JSON, its lists as CSV. One declaration makes a route and its description.

A function gets the parameters of the request as a struct, and returns the data as a struct. /api/v1/openapi.json describes
both structs. It finds the routes in the blueprints, so it has every route that is made with Feature.twin().
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import msgspec
from evenkeel_api.roles import VIEWER, Role
from evenkeel_api.schema import Struct
from flask import Blueprint, Response, request

from . import parameters
from .tables import Table, csv_file

View = TypeVar("View", bound=Callable[..., Any])
JSON, CSV = "application/json", "text/csv"


class Twin(msgspec.Struct, frozen=True):
    """A route for programs. A program calls it with GET.

    - RULE: its address in the syntax of Flask. FEATURE: the name of its blueprint.
    - VIEW: the function that returns its data. Its docstring is the meaning of the route.
    - CONTENT: the type of the answer; of a CSV file, the struct of its rows, or a tuple of structs. MEDIA: its media type.
    - CALLS: the agent's methods that it calls. Their errors may be the answer, and the caller needs their roles.
    - QUERY: its parameters. A field that RULE names is a part of the path.
    - ROLE: the lowest role that may call it, besides the roles of CALLS. None: it needs no log-in.
    - STATES: whether it also has data while the agent does not answer, with the status 503.
    - SHARED: whether it is the answer to a poll, which a program may have already (304).
    - ERRORS: the meanings of the other statuses that it may have.
    """

    rule: str
    feature: str
    view: Callable[..., Any]
    content: Any
    calls: tuple[str, ...] = ()
    media: str = JSON
    query: type[Struct] | None = None
    role: Role | None = VIEWER
    states: bool = False
    shared: bool = False
    errors: Mapping[int, str] | None = None

    def __call__(self, **parts: str) -> Response:
        """The answer to the present request. PARTS: of its path."""
        if self.query is None:
            return self._answer(self.view())
        try:
            asked = parameters.read(self.query, request.args.to_dict() | parts)
        except parameters.BadParameter as error:
            error.code = 404 if error.field in parts else 422
            raise
        return self._answer(self.view(asked))

    def _answer(self, made: Any) -> Response:
        if isinstance(made, Response):
            return made
        if isinstance(made, Table):
            return csv_file(made.struct or self.content, made)
        return Response(msgspec.json.encode(made), mimetype=JSON)


class Feature(Blueprint):
    """A blueprint that knows its routes for programs."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.twins: list[Twin] = []

    def twin(self, rule: str, content: Any, *calls: str, **options: Any) -> Callable[[View], View]:
        """Serve GET on RULE with what the decorated function returns. The other arguments are as in Twin.

        The function gets the parameters as an object of type `query`, if there is one. It returns CONTENT, for a CSV file
        a Table, or in special cases a Response.
        """
        options.setdefault("media", CSV if rule.endswith(".csv") else JSON)

        def decorate(view: View) -> View:
            twin = Twin(rule, self.name, view, content, calls, **options)
            self.add_url_rule(rule, view.__name__, twin, methods=["GET"])
            self.twins.append(twin)
            return view

        return decorate
