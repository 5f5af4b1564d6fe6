# SPDX-License-Identifier: Apache-2.0
"""What the offline build refuses, and says why, before BitBake starts."""

import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """The least of an OE-Core, a BitBake and a Debian tree."""
    for file, text in (
        ("oecore/meta/conf/layer.conf", 'LAYERSERIES_CORENAMES = "walnascar"\n'),
        ("bitbake/bin/bitbake", ""),
        ("root/etc/apt/sources.list", "deb http://mirror.example/debian trixie main\n"),
        ("vendor/htmx.min.js", "//\n"),
        ("debian.tar", ""),
    ):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text(text)
    return tmp_path


def run(tree: Path, *more: str) -> subprocess.CompletedProcess[str]:
    names = {
        "root": "root",
        "oecore": "oecore",
        "bitbake": "bitbake",
        "debian": "debian.tar",
        "vendor": "vendor",
    }
    options = [word for option, name in names.items() for word in (f"--{option}", str(tree / name))]
    command = [sys.executable, str(HERE / "build"), *options, "--out", str(tree / "out"), *more]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def build(tree: Path) -> tuple[int, str]:
    ended = run(tree)
    return ended.returncode, ended.stderr.strip()


def test_another_series(tree: Path) -> None:
    (tree / "oecore/meta/conf/layer.conf").write_text('LAYERSERIES_CORENAMES = "scarthgap"\n')
    assert build(tree) == (1, "build: OECORE is scarthgap, the offline build is made for walnascar")


def test_no_oecore(tree: Path) -> None:
    (tree / "oecore/meta/conf/layer.conf").unlink()
    assert build(tree) == (1, f"build: OECORE: there is no meta/conf/layer.conf in {tree}/oecore")


def test_no_bitbake(tree: Path) -> None:
    (tree / "bitbake/bin/bitbake").unlink()
    assert build(tree) == (1, f"build: BITBAKE: there is no bin/bitbake in {tree}/bitbake")


def test_no_mirror(tree: Path) -> None:
    (tree / "root/etc/apt/sources.list").write_text("deb http://mirror.example/debian sid main\n")
    assert build(tree) == (1, f"build: {tree}/root/etc/apt names no mirror of trixie")


def test_a_tree_that_was_not_made(tree: Path) -> None:
    """Everything is there but the tree: the configuration is written, and entering says what is missing."""
    status, said = build(tree)
    assert status != 0
    assert "no tool root at" in said
    written = (tree / "out/conf/local.conf").read_text()
    assert 'BB_ALLOWED_NETWORKS = "mirror.example"' in written
    assert (tree / "out/vendor/htmx-2.0.11.min.js").resolve() == tree / "vendor/htmx.min.js"


@pytest.mark.parametrize(
    ("more", "targets"),
    [
        ([], "evenkeel-image flashsim-module"),
        (["--metarauc", "metarauc"], "evenkeel-image flashsim-module evenkeel-bundle"),
        (["evenkeel-image-dev"], "evenkeel-image-dev"),
    ],
)
def test_what_is_built(tree: Path, more: list[str], targets: str) -> None:
    """Both modules, the image, and with meta-rauc the bundle; or what was asked for."""
    (tree / "metarauc/conf").mkdir(parents=True)
    (tree / "metarauc/conf/layer.conf").touch()
    ended = run(tree, *(str(tree / word) if word == "metarauc" else word for word in more))
    assert f"bitbake {targets}: " in ended.stdout, ended.stderr
