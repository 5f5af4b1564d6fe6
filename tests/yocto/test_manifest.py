# SPDX-License-Identifier: Apache-2.0
"""Our files in an image that BitBake built are the same as in the Debian image.

    make image
    make yocto YOCTO_IMAGE=…/evenkeel-image-qemux86-64.rootfs.ext4

YOCTO_IMAGE is a disk image, a slot, or an unpacked tree. DEBIAN_IMAGE names another Debian image than that in
build/image.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import TOP
from manifest import Manifest, lines, read, read_tree

DEBIAN_IMAGE = TOP / "build/image/evenkeel-x86_64.img"
# paths that may differ, each with the reason
DIFFERENT = {
    # In scarthgap this folder belongs to polkitd, in Debian to root.
    "usr/share/polkit-1/rules.d",
}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A small root file system."""
    (tmp_path / "etc/systemd/system/multi-user.target.wants").mkdir(parents=True)
    (tmp_path / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\n")
    (tmp_path / "etc/group").write_text("root:x:0:\n")
    (tmp_path / "etc/fstab").write_text("none\n")
    (tmp_path / "etc/machine-id").write_text("")
    link = tmp_path / "etc/systemd/system/multi-user.target.wants/evenkeeld.service"
    link.symlink_to("/usr/lib/systemd/system/evenkeeld.service")
    (tmp_path / "etc/systemd/system/getty.target").symlink_to("/dev/null")
    python = tmp_path / "usr/lib/python3.12/site-packages/evenkeel_agent"
    (python / "__pycache__").mkdir(parents=True)
    (python / "agent.py").write_text("pass\n")
    (python / "__pycache__/agent.cpython-312.pyc").write_bytes(b"\0")
    (tmp_path / "usr/bin").mkdir()
    (tmp_path / "usr/bin/ekctl").write_text("#!/bin/sh\n")
    (tmp_path / "usr/bin/ekctl").chmod(0o755)
    (tmp_path / "usr/bin/sh").write_bytes(b"\x7fELF")
    return tmp_path


def test_reader_finds_only_our_files(tree: Path) -> None:
    found = read_tree(tree)
    assert set(found.files) == {
        "etc/fstab",
        "usr/bin/ekctl",
        "PYTHON/evenkeel_agent",
        "PYTHON/evenkeel_agent/agent.py",
    }
    assert found.enabled == {"evenkeeld.service"}
    assert found.masked == {"getty.target"}
    assert found.kernel == {}


def test_reader_sees_modes_and_content(tree: Path) -> None:
    before = read_tree(tree)
    (tree / "usr/bin/ekctl").chmod(0o700)
    (tree / "etc/fstab").write_text("other\n")
    after = read_tree(tree)
    assert (before.files["usr/bin/ekctl"].mode, after.files["usr/bin/ekctl"].mode) == ("0755", "0700")
    assert before.files["etc/fstab"].content != after.files["etc/fstab"].content
    assert len(set(lines(before)) ^ set(lines(after))) == 4


def test_reader_reads_a_file_system(tree: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    if not (shutil.which("mke2fs") and shutil.which("debugfs")):
        pytest.skip("needs mke2fs and debugfs (e2fsprogs)")
    image = tmp_path_factory.mktemp("image") / "root.ext4"
    subprocess.run(["mke2fs", "-q", "-t", "ext4", "-d", tree, image, "8M"], check=True)
    assert set(read(image).files) == set(read_tree(tree).files)


def test_reader_refuses_a_tree_without_our_files(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="contains no file of Evenkeel"):
        read_tree(tmp_path)


@pytest.fixture(scope="module")
def images() -> tuple[Manifest, Manifest]:
    """The manifests of the Debian image and of BitBake's image."""
    yocto = os.environ.get("YOCTO_IMAGE", "")
    debian = Path(os.environ.get("DEBIAN_IMAGE") or DEBIAN_IMAGE)
    if not yocto:
        pytest.skip("no image of BitBake: name one by YOCTO_IMAGE=FILE")
    if not debian.exists():
        pytest.skip(f"there is no {debian}: 'make image' builds it")
    if os.geteuid() != 0:
        pytest.skip("needs root, to read the owners in an image")
    return read(debian), read(Path(yocto))


def test_files_are_the_same(images: tuple[Manifest, Manifest]) -> None:
    debian, yocto = (
        {path: entry for path, entry in image.files.items() if path not in DIFFERENT} for image in images
    )
    assert sorted(debian) == sorted(yocto)
    assert {path: (debian[path], yocto[path]) for path in debian if debian[path] != yocto[path]} == {}


def test_enabled_and_masked_units_are_the_same(images: tuple[Manifest, Manifest]) -> None:
    debian, yocto = images
    assert debian.enabled == yocto.enabled
    assert debian.masked <= yocto.masked


def test_kernel_options_are_the_same(images: tuple[Manifest, Manifest]) -> None:
    debian, yocto = images
    assert debian.kernel, "the kernel of the Debian image does not contain its configuration"
    names = debian.kernel.keys() | yocto.kernel.keys()
    different = {name: (debian.kernel.get(name), yocto.kernel.get(name)) for name in names}
    assert {name: values for name, values in different.items() if values[0] != values[1]} == {}
