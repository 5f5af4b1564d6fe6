# SPDX-License-Identifier: Apache-2.0
"""Lists as CSV files. Each list of a page has such a file, from the same query and the same struct as its JSON."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING, Any

import msgspec
from evenkeel_api.schema import split
from flask import Response
from msgspec.structs import astuple, fields

if TYPE_CHECKING:
    from collections.abc import Iterable

    from evenkeel_api.schema import Struct

FORMULA = frozenset("=+-@\t\r")  # a text that begins with one of these is a formula for a spreadsheet


def as_csv(struct: type[Struct], rows: Iterable[Struct]) -> str:
    """ROWS of the type STRUCT as CSV. A text that a spreadsheet would take for a formula gets an apostrophe in front."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\r\n")
    writer.writerow(struct.__struct_fields__)
    if all(split(field.type)[0] in (int, float) for field in fields(struct)):
        line = ",".join(["%s"] * len(struct.__struct_fields__)) + "\r\n"
        text.writelines([line % astuple(row) for row in rows])
    else:
        writer.writerows([_plain(value) for value in astuple(row)] for row in rows)
    return text.getvalue()


def _plain(value: Any) -> Any:
    """The content of a cell: truth values, lists and objects as in JSON."""
    if isinstance(value, bool | list | tuple | dict | msgspec.Struct):
        return msgspec.json.encode(value).decode()
    return f"'{value}" if isinstance(value, str) and value[:1] in FORMULA else value


class Table(msgspec.Struct, frozen=True):
    """ROWS of type STRUCT for the file NAME.csv. STATUS: of the answer. STRUCT: None if the route has only one."""

    rows: Iterable[Struct]
    name: str
    status: int = 200
    struct: type[Struct] | None = None


def csv_file(struct: type[Struct], table: Table) -> Response:
    """The answer with TABLE, whose rows are of the type STRUCT."""
    response = Response(as_csv(struct, table.rows), table.status, mimetype="text/csv")
    response.headers["Content-Disposition"] = f'attachment; filename="{table.name}.csv"'
    return response
