# SPDX-License-Identifier: Apache-2.0
"""Each file that meson installs for a component is in exactly one package of the recipe, and in the right one."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import LAYER, TOP, Build, Series
from recipe_text import COMPONENTS, DEFAULTS, FOLDERS, matches, packages, recipe, setting

# paths of files for developers, which belong in packages such as -dev and -doc
DEVELOPMENT = re.compile(r"/usr/include/.*|.*\.(a|pc)|/usr/lib/lib[^/]*\.so|/usr/share/(doc|man)/.*")


def options(name: str) -> list[str]:
    """The recipe's meson options, with each option of PACKAGECONFIG off."""
    path = recipe(name)
    python = "evenkeel_python" in path.read_text()
    classes = [LAYER / "classes-recipe/evenkeel_python.bbclass"] if python else []
    words = setting("EXTRA_OEMESON", path, *classes).split()
    off = re.findall(r'^PACKAGECONFIG\[\w+\] = "[^,"]*,([^,"]*)"', path.read_text(), re.MULTILINE)
    # Leave out the folder of the panel's scripts, which BitBake downloads. A test below checks this folder.
    return [word for word in [*words, *off] if not word.startswith("-Dvendor=")]


@pytest.fixture(scope="session")
def installed() -> dict[str, set[str]]:
    """Recipe → paths of the files and links that meson would install. Nothing is compiled."""
    if not (os.environ.get("EVENKEEL_INSIDE") or (TOP / "build/toolroot").exists()):
        pytest.skip("there is no build root: 'make toolroot' creates it")
    enter = str(TOP / "toolroot/enter")
    found = {}
    for name, component in COMPONENTS.items():
        # The folder must be in the clone: commands in the build root cannot see other folders.
        work = TOP / "build/yocto" / f"meson-{name}"
        shutil.rmtree(work, ignore_errors=True)
        setup = ["meson", "setup", str(work), component, "--prefix=/usr", "--libdir=lib", "--sysconfdir=/etc"]
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
            # If a whole folder is installed, meson lists only the folder, so list its files here.
            paths |= {f"{target}/{path.relative_to(folder)}" for path in inside} or {target}
        assert paths
        found[name] = paths
        shutil.rmtree(work)
    return found


@pytest.mark.parametrize("name", COMPONENTS)
def test_every_installed_file_is_shipped(installed: dict[str, set[str]], name: str) -> None:
    parts = packages(recipe(name))
    assert [path for path in sorted(installed[name]) if parts.owner(path) is None] == []


@pytest.mark.parametrize("name", COMPONENTS)
def test_only_development_packages_have_files_for_developers(
    installed: dict[str, set[str]], name: str
) -> None:
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


@pytest.mark.parametrize("name", COMPONENTS)
def test_every_pattern_of_a_recipe_matches_a_file(installed: dict[str, set[str]], name: str) -> None:
    """A pattern that matches no file is outdated: its file has moved."""
    parts = packages(recipe(name))
    owners = {path: parts.owner(path) for path in installed[name]}
    for part, patterns in parts.own.items():
        for pattern in patterns:
            assert any(who == part and matches(path, pattern) for path, who in owners.items()), (
                part,
                pattern,
            )


@pytest.mark.parametrize("name", COMPONENTS)
def test_conffiles_are_files_of_their_package(installed: dict[str, set[str]], name: str) -> None:
    """Each conffile is in its package, and each file below /etc that the board's owner may change is a conffile."""
    parts = packages(recipe(name))
    listed = {path: part for part, paths in parts.conffiles.items() for path in paths}
    for path, part in listed.items():
        assert path in installed[name]
        assert parts.owner(path) == part
    # Two kinds of files below /etc are no conffiles: a README, which owners do not change, and masks of units.
    below_etc = {path for path in installed[name] if path.startswith("/etc/")}
    assert {p for p in below_etc if not p.endswith("/README") and not p.startswith("/etc/systemd/")} == set(
        listed
    )


def test_scripts_of_the_panel_are_in_the_panels_package() -> None:
    """The scripts are downloads, so the fixture `installed` does not list them."""
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


@pytest.mark.parametrize("name", COMPONENTS)
def test_reader_agrees_with_bitbake(build: Build, name: str) -> None:
    variables = build.variables(recipe(name))
    parts = packages(recipe(name), {folder: variables[folder] for folder in FOLDERS if folder in variables})
    assert set(parts.files) == set(variables["PACKAGES"].split())
    for part, patterns in parts.files.items():
        # The reader knows only those patterns of bitbake.conf that our components need.
        assert set(patterns) <= set(variables.get(f"FILES:{part}", "").split()), part
        added = set(variables.get(f"FILES:{part}", "").split()) - set(patterns)
        # Ignore patterns of bitbake.conf that contain the recipe's name.
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
