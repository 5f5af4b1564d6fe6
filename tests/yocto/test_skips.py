# SPDX-License-Identifier: Apache-2.0
"""If BitBake skips a recipe because of a missing file, it must parse the recipe again when the file appears.

BitBake caches parsed recipes. If a recipe was skipped because a key is missing, it stays skipped when the key
appears, unless the recipe has marked the key file as a dependency. The tests run the anonymous functions of the
recipes with a fake `bb`.
"""

from __future__ import annotations

import os
import re
import textwrap
from pathlib import Path
from types import SimpleNamespace

import pytest
from conftest import LAYER
from recipe_text import recipe


class Skipped(Exception):
    pass


def read(path: Path, values: dict[str, str]) -> tuple[str, list[str]]:
    """Run a recipe's anonymous function. Returns why it skips the recipe ("" if not), and the files that it marks."""
    match = re.search(r"^python \(\) \{\n(.*?)^\}", path.read_text(), re.MULTILINE | re.DOTALL)
    assert match
    named: list[str] = []
    parse = SimpleNamespace(
        SkipRecipe=Skipped, mark_dependency=lambda _, file: None if file in named else named.append(file)
    )
    scope = {"bb": SimpleNamespace(parse=parse), "d": SimpleNamespace(getVar=values.get), "os": os}
    try:
        exec(textwrap.dedent(match[1]), scope)  # noqa: S102  # text of our own recipes
    except Skipped as skipped:
        return str(skipped), named
    return "", named


BUNDLE = recipe("evenkeel-bundle")
SOURCE = LAYER / "classes-recipe/evenkeel_src.bbclass"


def test_bundle_depends_on_its_key_file(tmp_path: Path) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    values = {"RAUC_KEY_FILE": str(key), "RAUC_CERT_FILE": str(certificate)}
    why, named = read(BUNDLE, values)
    assert f"RAUC_KEY_FILE is {key}, where there is no file" in why
    assert named == [str(key)]
    key.touch()
    why, named = read(BUNDLE, values)
    assert "RAUC_CERT_FILE" in why
    certificate.touch()
    assert read(BUNDLE, values) == ("", [str(key), str(certificate)])


def test_bundle_without_a_key_or_with_a_key_in_a_token() -> None:
    why, named = read(BUNDLE, {})
    assert "RAUC_KEY_FILE is not set" in why
    assert named == []
    token = {"RAUC_KEY_FILE": "pkcs11:token=a", "RAUC_CERT_FILE": "pkcs11:token=a"}
    assert read(BUNDLE, token) == ("", [])


def test_recipes_depend_on_the_clone(tmp_path: Path) -> None:
    why, named = read(SOURCE, {"EVENKEEL_SRC": str(tmp_path)})
    assert "which has no folder recipes" in why
    assert named == [str(tmp_path / "recipes")]
    (tmp_path / "recipes").mkdir()
    assert read(SOURCE, {"EVENKEEL_SRC": str(tmp_path)})[0] == ""


@pytest.mark.parametrize("given", [{}, {"EVENKEEL_GIT": "host/repo.git"}, {"EVENKEEL_SRCREV": "0" * 40}])
def test_recipes_without_source_explain_how_to_name_it(given: dict[str, str]) -> None:
    assert "set EVENKEEL_SRC to a clone of it, or EVENKEEL_GIT and EVENKEEL_SRCREV" in read(SOURCE, given)[0]


def test_source_from_git_names_its_revision() -> None:
    """The class sets the revision by SRCREV_evenkeel, not by ;rev= in SRC_URI.

    So ${AUTOREV} works, and buildhistory records the revision.
    """
    text = SOURCE.read_text()
    assert "name=evenkeel;" in text
    assert 'SRCREV_evenkeel = "${EVENKEEL_SRCREV}"' in text
    assert ";rev=" not in text
