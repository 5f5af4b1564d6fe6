# SPDX-License-Identifier: Apache-2.0
"""What each room's meson installs is shipped, once, in the package that it belongs to."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import LAYER, TOP, Build, Series
from recipe_text import DEFAULTS, FOLDERS, ROOMS, matches, packages, recipe, setting

# what a device does not get, by the suffix of the package
DEVELOPMENT = re.compile(r"/usr/include/.*|.*\.(a|pc)|/usr/lib/lib[^/]*\.so|/usr/share/(doc|man)/.*")


def options(name: str) -> list[str]:
    """meson's options of the recipe, with nothing of PACKAGECONFIG."""
    path = recipe(name)
    python = "evenkeel_python" in path.read_text()
    classes = [LAYER / "classes-recipe/evenkeel_python.bbclass"] if python else []
    words = setting("EXTRA_OEMESON", path, *classes).split()
    off = re.findall(r'^PACKAGECONFIG\[\w+\] = "[^,"]*,([^,"]*)"', path.read_text(), re.MULTILINE)
    # the panel's scripts are downloads; where they go is tested by name below
    return [word for word in [*words, *off] if not word.startswith("-Dvendor=")]


@pytest.fixture(scope="session")
def installed() -> dict[str, set[str]]:
    """Recipe → paths of the files and links that meson would install; nothing is compiled."""
    if not (os.environ.get("EVENKEEL_INSIDE") or (TOP / "build/toolroot").exists()):
        pytest.skip("there is no tool root: 'make toolroot' creates it")
    enter = str(TOP / "toolroot/enter")
    found = {}
    for name, room in ROOMS.items():
        # in the clone: of other folders the tool root sees nothing
        work = TOP / "build/yocto" / f"meson-{name}"
        shutil.rmtree(work, ignore_errors=True)
        setup = ["meson", "setup", str(work), room, "--prefix=/usr", "--libdir=lib", "--sysconfdir=/etc"]
        done = subprocess.run([enter, *setup, *options(name)], cwd=TOP, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        listed = subprocess.run(
            [enter, "meson", "introspect", "--installed", str(work)],
            cwd=TOP,
            check=True,
            capture_output=True,
            text=True,
        )
        paths: set[str] = set()
        for source, target in json.loads(listed.stdout).items():
            folder = TOP / source
            inside = [path for path in folder.rglob("*") if path.is_file()] if folder.is_dir() else []
            inside = [path for path in inside if "__pycache__" not in path.parts]
            # of a folder meson tells only where it goes
            paths |= {f"{target}/{path.relative_to(folder)}" for path in inside} or {target}
        assert paths
        found[name] = paths
        shutil.rmtree(work)
    return found


@pytest.mark.parametrize("name", ROOMS)
def test_what_is_installed_is_shipped(installed: dict[str, set[str]], name: str) -> None:
    parts = packages(recipe(name))
    assert [path for path in sorted(installed[name]) if parts.owner(path) is None] == []


@pytest.mark.parametrize("name", ROOMS)
def test_what_is_for_developers_is_not_on_the_device(installed: dict[str, set[str]], name: str) -> None:
    parts = packages(recipe(name))
    for path in installed[name]:
        development = (parts.owner(path) or "").endswith(("-dev", "-doc", "-dbg", "-src", "-staticdev"))
        assert bool(DEVELOPMENT.fullmatch(path)) == development, (path, parts.owner(path))


def test_no_two_recipes_install_the_same_path(installed: dict[str, set[str]]) -> None:
    seen: dict[str, str] = {}
    for name, paths in installed.items():
        for path in paths:
            assert path not in seen, f"{path} is installed by {seen[path]} and by {name}"
            seen[path] = name


@pytest.mark.parametrize("name", ROOMS)
def test_every_pattern_of_a_recipe_takes_something(installed: dict[str, set[str]], name: str) -> None:
    """One that takes nothing is one whose file has moved."""
    parts = packages(recipe(name))
    owners = {path: parts.owner(path) for path in installed[name]}
    for part, patterns in parts.own.items():
        for pattern in patterns:
            assert any(who == part and matches(path, pattern) for path, who in owners.items()), (
                part,
                pattern,
            )


@pytest.mark.parametrize("name", ROOMS)
def test_conffiles_are_files_of_their_package(installed: dict[str, set[str]], name: str) -> None:
    """And what is below /etc for its owner to change is one of them."""
    parts = packages(recipe(name))
    listed = {path: part for part, paths in parts.conffiles.items() for path in paths}
    for path, part in listed.items():
        assert path in installed[name]
        assert parts.owner(path) == part
    # a README is not changed, a mask is the image's
    below_etc = {path for path in installed[name] if path.startswith("/etc/")}
    assert {p for p in below_etc if not p.endswith("/README") and not p.startswith("/etc/systemd/")} == set(
        listed
    )


def test_scripts_of_the_panel_go_where_the_panel_is() -> None:
    """They are downloads, so that meson is not asked here."""
    build = (TOP / "webui/meson.build").read_text()
    assert "install_dir: share / 'static' / 'vendor'" in build
    parts = packages(recipe("evenkeel-webui"))
    assert parts.owner("/usr/share/evenkeel-panel/static/vendor/htmx.min.js") == "evenkeel-webui"


# --- the reader itself --------------------------------------------------------------


def test_first_package_with_a_pattern_gets_the_path(tmp_path: Path) -> None:
    path = tmp_path / "thing_1.bb"
    path.write_text(
        'PACKAGE_BEFORE_PN = "libthing"\nFILES:libthing = "${libdir}/libthing${SOLIBS}"\n'
        'FILES:${PN} += "\\\n    ${datadir}/other \\\n"\nFILES:${PN}:append = " /opt/*"\n'
    )
    parts = packages(path)
    assert parts.owner("/usr/lib/libthing.so.1") == "libthing"
    assert parts.owner("/usr/lib/libelse.so.1") == "thing"
    assert parts.owner("/usr/lib/libthing.so") == "thing-dev"
    assert parts.owner("/usr/share/other/deep/file") == "thing"
    assert parts.owner("/usr/share/otherwise") is None
    assert parts.owner("/opt/file") == "thing"
    assert parts.own["thing"] == ["/usr/share/other", "/opt/*"]


@pytest.mark.parametrize("name", ROOMS)
def test_reader_says_what_bitbake_says(build: Build, name: str) -> None:
    variables = build.variables(recipe(name))
    parts = packages(recipe(name), {folder: variables[folder] for folder in FOLDERS if folder in variables})
    assert set(parts.files) == set(variables["PACKAGES"].split())
    for part, patterns in parts.files.items():
        # of bitbake.conf's patterns the reader has those that rooms need
        assert set(patterns) <= set(variables.get(f"FILES:{part}", "").split()), part
        added = set(variables.get(f"FILES:{part}", "").split()) - set(patterns)
        # nor those that have the recipe's name in them
        added = {re.sub(rf"/{name}(/|$)", "/", path) for path in added}
        assert not [path for path in added if "evenkeel" in path], part
    for part, paths in parts.conffiles.items():
        assert paths == variables[f"CONFFILES:{part}"].split()


def test_defaults_are_those_of_oe_core(series: Series) -> None:
    text = " ".join((series.oecore / "meta/conf/bitbake.conf").read_text().replace("\\\n", " ").split())
    for line in DEFAULTS.replace("\\\n", " ").splitlines():
        name, _, value = line.partition(" = ")
        wanted = value.strip('"').replace("${datadir}/${PN}", "${datadir}/${BPN}")
        for word in (
            wanted.replace("${libdir}/lib*${SOLIBSDEV}", "").replace("${nonarch_libdir}/udev", "").split()
        ):
            if name.startswith("FILES"):
                assert word in text, word
        if name == "PACKAGES":
            assert f'PACKAGES = "{wanted}"' in text
