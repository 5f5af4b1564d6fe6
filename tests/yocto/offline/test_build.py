# SPDX-License-Identifier: Apache-2.0
"""The offline build: its checks and messages before BitBake starts, its configuration, and its targets."""

import io
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A folder with minimal fake trees of OE-Core, BitBake and Debian, and the panel's scripts."""
    for file, text in (
        ("oecore/meta/conf/layer.conf", 'LAYERSERIES_CORENAMES = "walnascar"\n'),
        ("bitbake/bin/bitbake", ""),
        ("root/etc/apt/sources.list", "deb http://mirror.example/debian trixie main\n"),
        ("vendor/htmx.min.js", "//\n"),
    ):
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text(text)
    debian_root(tmp_path, (HERE / "debian.lock").read_text())
    return tmp_path


def debian_root(tree: Path, lock: str) -> None:
    """Write TREE/debian.tar, whose dpkg status lists the packages of LOCK."""
    pairs = [line.split() for line in lock.splitlines() if line and not line.startswith("#")]
    status = "".join(
        f"Package: {name}\nStatus: install ok installed\nVersion: {version}\n\n" for name, version in pairs
    )
    with tarfile.open(tree / "debian.tar", "w") as tar:
        entry = tarfile.TarInfo("./var/lib/dpkg/status")
        entry.size = len(status)
        tar.addfile(entry, io.BytesIO(status.encode()))


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
    assert build(tree) == (1, "build: OECORE is scarthgap, but the offline build needs walnascar")


def test_no_oecore(tree: Path) -> None:
    (tree / "oecore/meta/conf/layer.conf").unlink()
    assert build(tree) == (1, f"build: OECORE: there is no meta/conf/layer.conf in {tree}/oecore")


def test_no_bitbake(tree: Path) -> None:
    (tree / "bitbake/bin/bitbake").unlink()
    assert build(tree) == (1, f"build: BITBAKE: there is no bin/bitbake in {tree}/bitbake")


def test_no_mirror(tree: Path) -> None:
    (tree / "root/etc/apt/sources.list").write_text("deb http://mirror.example/debian sid main\n")
    assert build(tree) == (1, f"build: {tree}/root/etc/apt names no mirror of trixie")


def test_a_tree_that_does_not_exist(tree: Path) -> None:
    """If only the tree of create-root is missing, the configuration is written, and toolroot/enter reports the tree."""
    status, output = build(tree)
    assert status != 0
    assert "make toolroot" in output
    written = (tree / "out/conf/local.conf").read_text()
    assert 'BB_ALLOWED_NETWORKS = "mirror.example"' in written
    assert (tree / "out/vendor/htmx-2.0.11.min.js").resolve() == tree / "vendor/htmx.min.js"


def test_new_versions_in_the_archive_are_reported_and_used(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """New versions do not fail the build. If they did, a security update would stop it until the lock is renewed."""
    was = (HERE / "debian.lock").read_text()
    last = was.splitlines()[-1]
    name = last.split()[0]
    status, output = build(tree)
    assert "debian.lock" not in output
    kept = tree / "out/conf/debian.lock"
    assert kept.read_text() == was

    moved = was.replace(f"{last}\n", f"{name} 9999\nzz-another 1\n")
    debian_root(tree, moved)
    status, output = build(tree)
    assert "differs from debian.lock" in output
    assert output.splitlines()[0].endswith(f" the file): {last}, now {name} 9999, now zz-another 1")
    assert kept.read_text() == moved
    assert f'EVENKEEL_DEBIAN_LOCK = "{kept}"' in (tree / "out/conf/local.conf").read_text()

    monkeypatch.setenv("EVENKEEL_STRICT", "1")
    status, output = build(tree)
    assert status == 1
    assert output.endswith(f"{last}, now {name} 9999, now zz-another 1")


def test_no_debian_root(tree: Path) -> None:
    (tree / "debian.tar").write_text("")
    status, output = build(tree)
    assert status == 1
    assert f"build: {tree}/debian.tar is not a Debian root: its list of packages cannot be read" in output


@pytest.mark.parametrize(
    ("more", "targets"),
    [
        ([], "evenkeel-image flashsim-module"),
        (["--metarauc", "metarauc"], "evenkeel-image flashsim-module evenkeel-bundle"),
        (["evenkeel-image-dev"], "evenkeel-image-dev"),
    ],
)
def test_what_is_built(tree: Path, more: list[str], targets: str) -> None:
    """By default the image and flashsim.ko are built, with meta-rauc also the bundle. Given arguments replace these."""
    (tree / "metarauc/conf").mkdir(parents=True)
    (tree / "metarauc/conf/layer.conf").touch()
    ended = run(tree, *(str(tree / word) if word == "metarauc" else word for word in more))
    assert f"bitbake {targets}: " in ended.stdout, ended.stderr
