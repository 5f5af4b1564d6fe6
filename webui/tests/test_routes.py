# SPDX-License-Identifier: Apache-2.0
"""docs/reference/interfaces.md lists the data of the pages as the OpenAPI description does."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import asvs
import routes

pytestmark = pytest.mark.skipif(
    not routes.PAGE.is_file(), reason="the folder docs is not part of this package"
)


def test_the_tables_are_up_to_date() -> None:
    page = routes.PAGE.read_text()
    assert asvs.renewed(page, routes.parts()) == page, f"{routes.PAGE.name} is old; run 'make docs'"


def test_each_parameter_has_its_values_and_its_default() -> None:
    table = routes.parts()["parameters of the data"]
    assert "| `/wear.json`, `/wear.csv` | `days` | `14`, `90` | `14` |" in table
    assert "| `/validation/compare.json`, `/validation/compare.csv` | `first` | text | needed |" in table
    assert "| | `limit` | `50`, `100`, `200`, `500` | `50` |" in table
    assert "| `app` | at most 64 characters | |" in table
