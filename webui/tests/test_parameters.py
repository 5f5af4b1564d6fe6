# SPDX-License-Identifier: Apache-2.0
"""Parameters become a struct, or a refusal that names the first bad one and says what to do."""

from __future__ import annotations

from typing import Annotated, Literal

import pytest
from evenkeel_api.schema import Struct
from evenkeel_panel.parameters import BadParameter, read
from msgspec import Meta


class Query(Struct, frozen=True):
    id: Annotated[str, Meta(pattern=r"^[0-9]+$(?!\n)")]
    days: Literal[14, 90] = 14
    span: Annotated[Literal["1h", "1d"], Meta(extra={"what": "time"})] = "1h"
    app: Annotated[str, Meta(max_length=3)] | None = None
    unit: Annotated[str, Meta(max_length=3, extra={"refusal": "unit-rule"})] = ""


def test_parameters_become_a_struct() -> None:
    assert read(Query, {"id": "7"}) == Query("7")
    given = {"id": "7", "days": "90", "span": "1d", "app": "", "other": "x", "unit": "a"}
    assert read(Query, given) == Query("7", 90, "1d", "", "a")


@pytest.mark.parametrize(
    ("given", "field", "reason"),
    [
        ({}, "id", "The parameter id is missing. Add it to the address."),
        ({"id": "7\n"}, "id", "The parameter id is not valid: Expected `str` matching regex"),
        ({"id": "7", "days": "15"}, "days", "The parameter days must be one of 14, 90."),
        ({"id": "7", "days": ""}, "days", "The parameter days must be one of 14, 90."),
        ({"id": "7", "span": "2d"}, "span", "The choice under time is not known. Choose one of: 1h, 1d."),
        ({"id": "7", "app": "long"}, "app", "The parameter app is not valid: Expected `str` of length <= 3"),
        ({"id": "7", "unit": "long"}, "unit", "A unit has letters, digits"),
        ({"id": "x", "days": "15"}, "id", "The parameter id is not valid"),
    ],
)
def test_a_bad_parameter_is_named(given: dict[str, str], field: str, reason: str) -> None:
    with pytest.raises(BadParameter) as refused:
        read(Query, given)
    assert (refused.value.field, refused.value.code) == (field, 422)
    assert str(refused.value.description).startswith(reason)
