# SPDX-License-Identifier: Apache-2.0
"""The parameters of a URL or of a form, read into a struct. The API description lists the fields of the same struct.

A field's Meta has what the description and a refusal need: its meaning, its limits, and as `extra` the code of a message of
its own (`refusal`), and the label of the field if a form has it (`what`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args, get_origin

import msgspec
from evenkeel_api.schema import split
from werkzeug.exceptions import HTTPException

from . import texts

if TYPE_CHECKING:
    from collections.abc import Mapping

Q = TypeVar("Q", bound=msgspec.Struct)
SHOWN = 40  # the maximum number of characters of a value that a message repeats


class BadParameter(HTTPException):
    """The parameter FIELD is missing or not valid. The description says why, and what to do."""

    code = 422

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(reason)
        self.field = field


def read(struct: type[Q], given: Mapping[str, str]) -> Q:
    """The parameters GIVEN as STRUCT. Raises BadParameter. Names that STRUCT does not have mean nothing."""
    known = {name: given[name] for name in struct.__struct_fields__ if name in given}
    try:
        return msgspec.convert(known, struct, strict=False)
    except msgspec.ValidationError as error:
        raise _refusal(struct, known) from error


def _refusal(struct: type[Q], given: Mapping[str, str]) -> BadParameter:
    """Why GIVEN is not valid: the first field that is missing or bad."""
    for field in msgspec.structs.fields(struct):
        plain, metas = split(field.type)
        extra: dict[str, Any] = {}
        for meta in metas:
            extra |= meta.extra or {}
        values = {"what": extra.get("what", field.name), "typed": given.get(field.name, "")[:SHOWN]}
        if field.name not in given:
            if field.required:
                return BadParameter(field.name, texts.text("parameter-missing", **values))
            continue
        try:
            msgspec.convert(given[field.name], field.type, strict=False)
        except msgspec.ValidationError as error:
            code, values["reason"] = extra.get("refusal", "bad-parameter"), str(error)
            if get_origin(plain) is Literal:
                usual = "bad-choice" if "what" in extra else "parameter-choice"
                code, values["choices"] = extra.get("refusal", usual), list(get_args(plain))
            return BadParameter(field.name, texts.text(code, **values))
    raise AssertionError(f"{struct.__name__} is valid")
