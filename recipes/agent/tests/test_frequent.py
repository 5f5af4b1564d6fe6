# SPDX-License-Identifier: Apache-2.0
"""The list of frequent passwords: how it is made, the search in it, and the passwords that it refuses."""

import os
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from evenkeel_agent import frequent, passwords
from hypothesis import example, given
from hypothesis import strategies as st

PROGRAM = Path(__file__).parents[1] / "src/frequent-passwords"
TOP = Path(__file__).parents[3]
WORDS = st.binary(min_size=1, max_size=40).filter(lambda word: b"\n" not in word)


@given(st.sets(WORDS, max_size=60), WORDS)
@example({b"b" * 39, b"c"}, b"b" * 39)
def test_the_search_finds_exactly_the_lines(words: set[bytes], other: bytes) -> None:
    content = b"".join(word + b"\n" for word in sorted(words))
    reads = []

    def read(at: int, size: int) -> bytes:
        reads.append(at)
        return content[at : at + size]

    for word in {*words, other}:
        reads.clear()
        assert frequent._search(read, len(content), word) == (word in words)
        assert len(reads) <= 2 * len(content).bit_length() + 1


def make(tmp_path: Path, text: str) -> subprocess.CompletedProcess[str]:
    (tmp_path / "lists.py").write_text(text)
    command = [sys.executable, str(PROGRAM), str(tmp_path / "lists.py"), str(tmp_path / "out/list")]
    return subprocess.run(command, capture_output=True, text=True)


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A list that was made from a file of the form of zxcvbn."""
    often = ["rjirfrgbde", "terminator", "4815162342", "abc", "12345", *(f"{n:05}" for n in range(10_000))]
    lists = f'{{"passwords": "{",".join(often)}".split(","), "words": "enterprise,straße,of,1st".split(",")}}'
    done = make(tmp_path, f"# generated\nFREQUENCY_LISTS = {lists}\n")
    assert done.returncode == 0, done.stderr
    monkeypatch.setattr(frequent, "PATH", str(tmp_path / "out/list"))
    return tmp_path / "out/list"


def test_the_list_is_sorted_and_has_only_what_is_looked_for(small: Path) -> None:
    assert small.read_bytes().splitlines() == sorted(
        word.encode() for word in ("rjirfrgbde", "terminator", "4815162342", "enterprise", "straße")
    )


@pytest.mark.parametrize(
    "text", ["", "X = 1", "FREQUENCY_LISTS = {}", 'X = {"passwords": "a,b".split(",")}', "import os"]
)
def test_a_source_of_another_form_makes_no_list(tmp_path: Path, text: str) -> None:
    assert make(tmp_path, text).returncode != 0
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "password",
    [
        "rjirfrgbde",
        "RJIRFRGBDE",
        "4815162342",
        "Terminator7!",
        "t3rm1n4t0r",
        "2024enterprise!",
        "__straße__42",
    ],
)
def test_a_frequent_password_is_refused(small: Path, password: str) -> None:
    assert passwords.weakness(password) == "weak-common"


@pytest.mark.parametrize("password", ["rjirfrgbdx", "terminator enterprise", "48151623429", "my enterprise"])
def test_others_are_accepted(small: Path, password: str) -> None:
    assert passwords.weakness(password) is None


@pytest.mark.parametrize("word", ["", "a\nb", "x" * 300, "\udc80", "terminato", "terminatorr"])
def test_any_text_has_an_answer(small: Path, word: str) -> None:
    assert not frequent.listed(word)


def test_without_a_list_the_rules_apply(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(frequent, "PATH", str(tmp_path / "none"))
    assert passwords.weakness("terminator") is None
    assert passwords.weakness("password123")


def test_the_program_and_the_agent_agree() -> None:
    program: dict[str, Any] = runpy.run_path(str(PROGRAM))
    assert program["LEAST_WHOLE"] == passwords.MIN_LENGTH
    assert program["LEAST_WORD"] == frequent.MIN_WORD


def test_every_board_gets_the_list() -> None:
    components = TOP / "mk/components"
    if not components.is_file():
        pytest.skip("the folder mk is not part of this package")
    assert "frequent_passwords=@B@/agent/frequent-passwords" in components.read_text()
    assert os.path.basename(frequent.PATH) == "frequent-passwords"  # noqa: PTH119
    assert "install_dir: datadir / 'evenkeel-agent'" in (PROGRAM.parents[1] / "meson.build").read_text()
    # Both builders make it from the same version.
    layer = TOP / "meta-iosched/recipes-iosched/agent"
    recipe = next(layer.glob("evenkeel-frequent-passwords_*.bb"))
    assert "evenkeel-frequent-passwords" in (layer / "evenkeel-agent.bb").read_text()
    version = recipe.stem.partition("_")[2]
    assert f" python3-zxcvbn {version}-" in (TOP / "toolroot/passwords").read_text()
