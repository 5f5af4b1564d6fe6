# SPDX-License-Identifier: Apache-2.0
"""Debian's control files, dependencies, package URLs and versions."""

from __future__ import annotations

import pytest
from evenkeel_supply import SupplyError, debian
from supply_examples import STATUS


def test_installed_packages_have_source_and_version() -> None:
    found = {each.name: each for each in debian.installed(STATUS)}
    assert list(found) == ["libc6", "mawk", "tool"]
    assert (found["libc6"].source, found["libc6"].source_version) == ("glibc", "2.41-12+deb13u1")
    # the binary was built again (+b1), the source has its own version
    assert (found["tool"].source, found["tool"].source_version) == ("toolbox", "1:2.0-3")
    assert found["libc6"].summary == "GNU C Library: Shared libraries"
    assert found["tool"].built_using == (("lzo2", "2.10-3"), ("sphinx", "8.1.3-5"))


def test_dependencies_are_installed_packages_also_by_provides() -> None:
    assert debian.dependencies(debian.installed(STATUS)) == {
        "libc6": [],
        "mawk": ["libc6"],
        "tool": ["libc6", "mawk"],
    }


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "names no installed package"),
        ("Package: x\nStatus: install ok installed\nArchitecture: all\n", "has no field 'version'"),
    ],
)
def test_a_wrong_list_is_refused(text: str, complaint: str) -> None:
    with pytest.raises(SupplyError, match=complaint):
        debian.installed(text)


@pytest.mark.parametrize(
    ("purl", "text"),
    [
        (
            debian.deb_purl("libstdc++6", "14.2.0-19", "amd64", "trixie"),
            "pkg:deb/debian/libstdc%2B%2B6@14.2.0-19?arch=amd64&distro=trixie",
        ),
        (
            debian.deb_purl("attr", "1:2.5.2-3", "source", "trixie"),
            "pkg:deb/debian/attr@1:2.5.2-3?arch=source&distro=trixie",
        ),
        (
            debian.deb_purl("zxcvbn", "4.5.0-2~bpo13+1", "all", "trixie"),
            "pkg:deb/debian/zxcvbn@4.5.0-2~bpo13%2B1?arch=all&distro=trixie-backports",
        ),
        (debian.Purl("npm", "htmx.org", "2.0.11"), "pkg:npm/htmx.org@2.0.11"),
    ],
)
def test_package_urls(purl: debian.Purl, text: str) -> None:
    assert str(purl) == text
    assert debian.Purl.parse(text) == purl


@pytest.mark.parametrize("text", ["", "deb/debian/x", "pkg:deb", "pkg:deb/", "CVE-2020-1"])
def test_what_is_no_package_url(text: str) -> None:
    with pytest.raises(ValueError, match="is no package URL"):
        debian.Purl.parse(text)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("1.2-3", "1.2-4"),
        ("1.10-1", "1:1.2-1"),  # an epoch
        ("2.0~rc1-1", "2.0-1"),  # before the release
        ("2.0-1~deb13u1", "2.0-1"),
        ("2.0-1", "2.0-1+deb13u1"),
        ("9.9-1", "10.1-1"),  # numbers, not text
    ],
)
def test_versions_compare_by_the_rules_of_dpkg(one: str, other: str) -> None:
    assert debian.earlier(one, other)
    assert not debian.earlier(other, one)
    assert not debian.earlier(one, one)


def test_what_is_no_version_is_named() -> None:
    with pytest.raises(SupplyError, match=r"cannot compare the versions '1\.0' and 'a version'"):
        debian.earlier("1.0", "a version")
