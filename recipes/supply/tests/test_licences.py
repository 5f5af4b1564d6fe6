# SPDX-License-Identifier: Apache-2.0
"""Licences of Debian's copyright files as SPDX expressions."""

from __future__ import annotations

import pytest
from evenkeel_supply import licences
from supply_examples import HEAD


def of(*names: str) -> licences.Licence:
    """The licence of a package whose files have the licences `names`."""
    return licences.of_copyright("x", HEAD + "".join(f"\nFiles: {n}\nLicense: {n}\n" for n in names))


@pytest.mark.parametrize(
    ("name", "expression"),
    [
        ("Expat", "MIT"),
        ("BSD-3-clause", "BSD-3-Clause"),
        ("Apache-2", "Apache-2.0"),
        ("GPL-2", "GPL-2.0-only"),
        ("GPL-2.0+", "GPL-2.0-or-later"),
        ("LGPL-2.1-or-later", "LGPL-2.1-or-later"),
        ("AGPL-3+", "AGPL-3.0-or-later"),
        ("GFDL-1.3+", "GFDL-1.3-or-later"),
        ("FDL-1.2+", "GFDL-1.2-or-later"),
        ("GFDL-NIV-1.3", "GFDL-1.3-no-invariants-only"),
        ("GPL-2 with Linux-syscall-note exception", "GPL-2.0-only WITH Linux-syscall-note"),
        ("GPL-1+ or Artistic-2", "Artistic-2.0 OR GPL-1.0-or-later"),
        ("LGPL2.1 or later (see COPYING)", "LGPL-2.1-or-later"),
        ("Expat and ISC", "ISC AND MIT"),
        # `and` binds more than `or`, a comma less than both
        ("GPL-2+ or Expat and ISC", "(ISC AND MIT) OR GPL-2.0-or-later"),
        ("GPL-2+ or Expat, and ISC", "(GPL-2.0-or-later OR MIT) AND ISC"),
        ("GPL-2+ and Expat, or ISC", "(GPL-2.0-or-later AND MIT) OR ISC"),
        # what is not on the list of SPDX, or not clear, is not guessed
        ("public-domain", "LicenseRef-Debian-x-public-domain"),
        ("GPL", "LicenseRef-Debian-x-GPL"),
        ("LGPL-2.2", "LicenseRef-Debian-x-LGPL-2.2"),
        ("GPL-3+ with Bison exception", "LicenseRef-Debian-x-GPL-3-or-later-with-Bison-exception"),
    ],
)
def test_names(name: str, expression: str) -> None:
    assert of(name).expression == expression


def test_all_licences_of_a_package_hold() -> None:
    assert (
        of("GPL-2+", "Expat or ISC", "MIT", "GPL-2+").expression
        == "(ISC OR MIT) AND GPL-2.0-or-later AND MIT"
    )


def test_a_licence_of_its_own_has_its_text() -> None:
    text = (
        HEAD
        + "License: BSD-like\n\nFiles: *\nLicense: BSD-like\n\nLicense: BSD-like\n One line.\n .\n  Indented.\n"
    )
    found = licences.of_copyright("x", text)
    assert found.refs == {"LicenseRef-Debian-x-BSD-like": ("BSD-like", "One line.\n\n Indented.")}
    assert found.names == ["BSD-like"]


def test_two_names_that_differ_only_in_forbidden_characters_keep_both_texts() -> None:
    text = HEAD + "\nFiles: a\nLicense: a_b\n one\n\nFiles: b\nLicense: a b\n two\n"
    ((_, extracted),) = licences.of_copyright("x", text).refs.values()
    assert {"one", "two"} == set(extracted.split("\n\n"))


def test_a_text_without_a_name_is_kept() -> None:
    found = licences.of_copyright("x", HEAD + "\nFiles: *\nLicense:\n Do as you like.\n")
    assert found.refs == {"LicenseRef-Debian-x-unnamed": ("unnamed", "Do as you like.")}


@pytest.mark.parametrize("text", ["", "Copyright 2001 someone.\n\nLicense:\n as you like", HEAD])
def test_a_file_that_no_machine_reads_counts_as_a_whole(text: str) -> None:
    found = licences.of_copyright("old", text)
    assert found.expression == "LicenseRef-Debian-old-copyright"
    assert found.refs["LicenseRef-Debian-old-copyright"][1] == text
    assert found.names == ["see its text"]
    assert not found.readable


def test_people_read_the_names_of_debian() -> None:
    assert of("GPL-1+ or Artistic", "public-domain").names == [
        "GPL-1.0-or-later OR Artistic",
        "public-domain",
    ]
