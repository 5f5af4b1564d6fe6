# SPDX-License-Identifier: Apache-2.0
"""The tables of losses in the documents, and the reasons in the code, are those of losses.toml."""

from __future__ import annotations

import copy
import tomllib

import losses
import pytest

SOURCE = tomllib.loads((losses.RECIPE / "tests/losses.toml").read_text())


def test_documents_and_code_are_up_to_date() -> None:
    assert losses.stale(SOURCE) == []


@pytest.mark.parametrize(
    ("kind", "field", "stale"),
    [
        ("loss", "lost", 2),
        ("loss", "reported", 1),
        ("reason", "meaning", 2),
        ("reason", "number", 1),
        ("reason", "name", 3),
    ],
)
def test_a_change_is_noticed(kind: str, field: str, stale: int) -> None:
    changed = copy.deepcopy(SOURCE)
    entry = changed[kind][0]
    entry[field] = entry[field] + 10 if field == "number" else "other"
    assert len(losses.stale(changed)) == stale
