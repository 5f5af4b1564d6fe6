# SPDX-License-Identifier: Apache-2.0
"""Hashes of passwords, and passwords that are easy to guess."""

import re
from pathlib import Path

import pytest
from evenkeel_agent import passwords
from hypothesis import given
from hypothesis import strategies as st

WEAK = [
    "1234567890", "0987654321", "12345678901234", "qwertyuiop", "qwertzuiop1", "QWERTYUIOP", "asdfghjkl1",
    "1qaz2wsx3edc", "1q2w3e4r5t", "aaaaaaaaaa", "abababababab", "abcabcabcabc", "passwordpassword", "password123",
    "Password2024!", "p4ssw0rd1234", "P@$$w0rd!!", "administrator", "admin12345", "adminadmin", "welcome2026",
    "letmein123", "iloveyou123", "sunshine99", "qwerty12345", "qwerty123!", "changeme123", "monkeydragon",
    "football1999", "raspberry1", "evenkeel123", "evenkeel2026", "abcdefghij", "zyxwvutsrq", "11111222223",
    "charlie1984", "trustno1234", "princess01", "superman123", "michael1990", "asdfasdfasdf",
]  # fmt: skip
GOOD = [
    "sailing on an even keel", "correct horse battery staple", "kelp-kelp-reef", "Tr0ub4dor&3x", "vq7-hm2x-kd9w",
    "my dog eats 3 socks", "Schifffahrtsamt 7", "grün wie der Hafen", "морской якорь 12",
]  # fmt: skip


@pytest.mark.parametrize("password", WEAK)
def test_weak(password: str) -> None:
    assert passwords.weakness(password), password


@pytest.mark.parametrize("password", GOOD)
def test_good(password: str) -> None:
    assert passwords.weakness(password, "admin", "evenkeel") is None


def test_names_are_weak() -> None:
    assert passwords.weakness("johanna1984", "johanna") == "weak-name"
    assert passwords.weakness("gateway-7-gateway-7", "admin", "gateway-7") is not None


@pytest.mark.parametrize(
    "password", ["recorder-2026", "flash-scheduler", "panel.panel.7", "Operator!2026", "ekctl-board-1"]
)
def test_words_of_the_product_are_weak(password: str) -> None:
    assert passwords.weakness(password) == "weak-common"


def test_the_rules_list_the_words_of_the_product() -> None:
    page = Path(__file__).parents[3] / "docs/reference/security-rules.md"
    if not page.is_file():
        pytest.skip("the folder docs is not part of this package")
    listed = re.search(r"words of the product count as frequent: ([\w,\s]+)\.", page.read_text())
    assert listed
    assert set(re.split(r",\s+", listed[1])) == passwords._OWN


def test_first_passwords_are_acceptable() -> None:
    for _ in range(200):
        assert passwords.weakness(passwords.first_password()) is None


@given(st.text(min_size=10, max_size=128), st.text(max_size=20), st.text(max_size=20))
def test_any_text_has_an_answer(password: str, user: str, host: str) -> None:
    passwords.weakness(password, user, host)


def test_rules() -> None:
    def code(new: str, current: str = "") -> str | None:
        found = passwords.refusal(new, current, "admin", "evenkeel")
        return found.code if found else None

    assert code("too short") == "password-short"
    assert code("x" * 129) == "password-long"
    assert code("sailing on an even keel", "Sailing on an even keel ") == "password-same"
    assert code("password1234") == "password-weak"
    assert code("sailing on an even keel") is None


def test_hash() -> None:
    stored = passwords.digest("grün wie der Hafen")
    assert stored.startswith("$argon2id$v=19$m=19456,t=2,p=1$")
    assert passwords.matches(stored, "gru\u0308n wie der Hafen"), "the same characters in another form"
    assert not passwords.matches(stored, "grun wie der Hafen")
    assert not passwords.matches(None, "grün wie der Hafen")
    assert not passwords.matches("damaged", "x")
    assert not passwords.matches(stored, "x" * 129)
