# SPDX-License-Identifier: Apache-2.0
"""asvs.toml answers each requirement of OWASP ASVS, levels 1 and 2, names real tests, and agrees with docs/security.md."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import asvs

pytestmark = pytest.mark.skipif(not asvs.PAGE.is_file(), reason="the folder docs is not part of this package")
MOST_WORDS = 25  # in a sentence


@pytest.fixture
def data() -> str:
    return asvs.DATA.read_text()


def test_data_and_page_agree_and_each_test_exists(data: str) -> None:
    assert asvs.faults(data, asvs.PAGE.read_text()) == []


def test_the_levels_have_as_many_requirements_as_the_standard() -> None:
    assert {level: len(set(numbers)) for level, numbers in asvs.NUMBERS.items()} == {1: 70, 2: 183}


@pytest.mark.parametrize(
    ("before", "after", "fault"),
    [
        ('[requirement."1.1.1"]', '[requirement."1.1.9"]', "1.1.1 is missing"),
        ('[requirement."1.1.1"]', '[requirement."1.1.9"]', "1.1.9 is no requirement of the levels 1 and 2"),
        ('numbers = ["1.5.1"]', 'numbers = ["1.5.1", "1.5.2"]', "1.5.2 is there twice"),
        (
            'version = "5.0.0"',
            'version = "5.1.0"',
            "the version is 5.1.0, and the list of numbers is of 5.0.0",
        ),
        ('state = "met"', 'state = "fine"', "1.1.1 has the state fine"),
        (
            'tests = ["webui/tests/test_schemathesis.py',
            'more = ["webui/tests/test_schemathesis.py',
            "names neither a test nor",
        ),
        (
            "test_schemathesis.py::test_no_answer",
            "test_schemathesis.py::test_no_question",
            "1.1.1: there is no test webui/tests/test_schemathesis.py",
        ),
        (
            "security-rules.md#input",
            "security-rules.md#output",
            "2.1.1: there is no docs/reference/security-rules",
        ),
        (
            "Flask decodes a request once.",
            "Flask decodes it once.",
            "docs/security.md is old; run 'make docs'",
        ),
    ],
)
def test_a_fault_is_found(data: str, before: str, after: str, fault: str) -> None:
    assert before in data
    found = asvs.faults(data.replace(before, after, 1), asvs.PAGE.read_text())
    assert any(fault in line for line in found), found


def test_sentences_are_short(data: str) -> None:
    for one in asvs.read(data):
        for sentence in re.split(r"(?<=[.:;])\s+(?=[A-Z])", one.how):
            assert len(sentence.split()) <= MOST_WORDS, (one.number, sentence)
        assert one.how.endswith("."), one.number
        assert "|" not in one.how, one.number
