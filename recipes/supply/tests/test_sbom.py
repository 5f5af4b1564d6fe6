# SPDX-License-Identifier: Apache-2.0
"""The SBOM, the list of licences and their texts, of a small root file system."""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from evenkeel_supply import inventory, sbom
from supply_examples import HEAD, STATUS

COPYRIGHTS = {
    "libc6": HEAD + "\nFiles: *\nLicense: LGPL-2.1+\n",
    "mawk": HEAD + "\nFiles: *\nLicense: GPL-2\n\nFiles: x\nLicense: odd\n Be kind.\n",
    "tool": "Copyright 2001 someone. Do as you like.\n",
}
LOCK = {
    "packages": {
        "": {"name": "all"},
        "node_modules/uplot": {"version": "1.6.32", "integrity": "sha512-AQID", "license": "MIT"},
    }
}
Make = Callable[..., tuple[int, Path]]


@pytest.fixture
def inputs(tmp_path: Path) -> Path:
    """A folder with a root file system, the objects of a kernel, scripts of npm, and a package that gives data."""
    tree = tmp_path / "tree"
    files = {
        "usr/lib/os-release": "VERSION_CODENAME=trixie\n",
        inventory.STATUS: STATUS,
        "usr/share/common-licenses/GPL-2": "the GPL\n",
        **{f"usr/share/doc/{name}/copyright": text for name, text in COPYRIGHTS.items()},
    }
    source = tmp_path / "linux"
    objects = tmp_path / "objects"
    kernel = {
        "include/config/kernel.release": "7.3.4-evenkeel\n",
        "block/.bio.o.cmd": f"source_block/bio.o := {source}/block/bio.c\n\ndeps_block/bio.o := \\\n"
        f"    $(wildcard include/config/X) \\\n  {source}/include/linux/bio.h \\\n  include/generated/x.h \\\n",
        "scripts/.bin.o.cmd": f"source_scripts/bin.o := {source}/scripts/bin.c\n",
    }
    texts = ("COPYING", "LICENSES/preferred/GPL-2.0", "LICENSES/exceptions/Linux-syscall-note")
    vendor = {"package-lock.json": json.dumps(LOCK), "uPlot.LICENSE": "MIT text\n"}
    for folder, contents in (
        (tree, files),
        (objects, kernel),
        (source, dict.fromkeys(texts, "text\n")),
        (tmp_path / "vendor", vendor),
    ):
        for name, text in contents.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)
    (objects / "source").symlink_to(source)
    package = tmp_path / "package"
    (package / "DEBIAN").mkdir(parents=True)
    (package / "DEBIAN/control").write_text(
        "Package: words\nVersion: 4.5-2~bpo13+1\nArchitecture: all\nMaintainer: x <x@example>\nDescription: x\n"
    )
    (package / "usr/share/doc/words").mkdir(parents=True)
    (package / "usr/share/doc/words/copyright").write_text(HEAD + "\nFiles: *\nLicense: Expat\n")
    subprocess.run(["dpkg-deb", "--build", package, tmp_path / "words.deb"], check=True, capture_output=True)
    (tmp_path / "evenkeel-x86_64.img").write_bytes(b"image")
    (tmp_path / "root.ext4").write_bytes(b"root")
    return tmp_path


def arguments(inputs: Path, out: Path) -> list[str]:
    return [
        *(
            "--image",
            f"{inputs}/evenkeel-x86_64.img",
            "--root",
            f"{inputs}/root.ext4",
            "--tree",
            f"{inputs}/tree",
        ),
        *(
            "--kernel",
            f"{inputs}/objects",
            "--kernel-version",
            "7.3.4-1~bpo13+1",
            "--module",
            "/x/evenkeel.ko",
        ),
        *("--component", str(inventory.TOP / "webui"), "--npm", f"{inputs}/vendor/package-lock.json"),
        *("--data-package", f"{inputs}/words.deb", "--out", str(out)),
    ]


@pytest.fixture
def made(inputs: Path) -> Path:
    """The folder of the results."""
    out = inputs / "out"
    out.mkdir()
    assert sbom.main(arguments(inputs, out)) == 0
    return out


def entries(out: Path) -> dict[str, dict[str, Any]]:
    document = json.loads((out / "evenkeel-x86_64.spdx.json").read_text())
    return {each["SPDXID"].removeprefix("SPDXRef-"): each for each in document["packages"]}


def relations(out: Path, kind: str) -> set[tuple[str, str]]:
    document = json.loads((out / "evenkeel-x86_64.spdx.json").read_text())
    return {
        (each["spdxElementId"].removeprefix("SPDXRef-"), each["relatedSpdxElement"].removeprefix("SPDXRef-"))
        for each in document["relationships"]
        if each["relationshipType"] == kind
    }


def test_everything_in_the_image_has_an_entry(made: Path) -> None:
    assert set(entries(made)) == {
        "image",
        "root-file-system",
        *("Debian-package-libc6", "Debian-package-mawk", "Debian-package-tool"),
        *("source-glibc-2.41-12.2bdeb13u1", "source-mawk-1.3.4.20250131-1", "source-toolbox-1.3a2.0-3"),
        *("source-lzo2-2.10-3", "source-sphinx-8.1.3-5"),  # of which `tool` has parts
        *("kernel-linux", "source-linux-7.3.4-1.7ebpo13.2b1"),
        *("component-evenkeel-webui", "component-evenkeel-scheduler"),
        *("script-uplot", "data-words", "source-words-4.5-2.7ebpo13.2b1"),
        *(
            "boot-loader-grub-efi-amd64-bin",
            next(name for name in entries(made) if name.startswith("source-grub2")),
        ),
    }


def test_an_entry_of_a_package_of_debian(made: Path) -> None:
    tool = entries(made)["Debian-package-tool"]
    assert tool["versionInfo"] == "1:2.0-3+b1"
    assert tool["supplier"] == "Organization: Debian"
    (reference,) = tool["externalRefs"]
    assert reference["referenceLocator"] == "pkg:deb/debian/tool@1:2.0-3%2Bb1?arch=all&distro=trixie"
    assert tool["licenseDeclared"] == "LicenseRef-Debian-toolbox-copyright"
    assert "not machine-readable" in tool["licenseComments"]
    assert (
        entries(made)["Debian-package-mawk"]["licenseDeclared"]
        == "GPL-2.0-only AND LicenseRef-Debian-mawk-odd"
    )
    assert ("Debian-package-tool", "Debian-package-mawk") in relations(made, "DEPENDS_ON")
    assert ("Debian-package-tool", "source-toolbox-1.3a2.0-3") in relations(made, "GENERATED_FROM")
    assert ("Debian-package-tool", "source-lzo2-2.10-3") in relations(made, "GENERATED_FROM")


def test_kernel_boot_loader_and_our_own_parts(made: Path) -> None:
    found = entries(made)
    assert found["kernel-linux"]["versionInfo"] == "7.3.4-evenkeel"
    assert found["kernel-linux"]["licenseDeclared"] == "GPL-2.0-only WITH Linux-syscall-note"
    assert ("kernel-linux", "source-linux-7.3.4-1.7ebpo13.2b1") in relations(made, "GENERATED_FROM")
    version = (inventory.TOP / "VERSION").read_text().strip()
    assert found["component-evenkeel-webui"]["versionInfo"] == version
    assert found["component-evenkeel-webui"]["licenseDeclared"] == "Apache-2.0"
    assert found["component-evenkeel-scheduler"]["licenseDeclared"] == "GPL-2.0-only"
    assert found["script-uplot"]["checksums"] == [{"algorithm": "SHA512", "checksumValue": "010203"}]
    # GRUB is in the disk image, but not in the root file system, which an update installs
    assert ("image", "boot-loader-grub-efi-amd64-bin") in relations(made, "CONTAINS")
    assert ("root-file-system", "kernel-linux") in relations(made, "CONTAINS")


def test_the_hashes_are_those_of_the_image(made: Path) -> None:
    for name, content in (("image", b"image"), ("root-file-system", b"root")):
        (checksum,) = entries(made)[name]["checksums"]
        assert checksum == {"algorithm": "SHA256", "checksumValue": hashlib.sha256(content).hexdigest()}


def test_the_list_of_licences_has_each_licence_with_its_items(made: Path) -> None:
    text = (made / "evenkeel-x86_64.licences.txt").read_text()
    first, second = text.split("Part 2: items")
    assert "\nGPL-2.0-only\n    evenkeel-scheduler, mawk\n" not in first  # sorted by kind, then by name
    assert "\nGPL-2.0-only\n    mawk, evenkeel-scheduler\n" in first
    assert "\nsee its text\n    tool\n" in first
    assert (
        "\nmawk 1.3.4.20250131-1 (Debian package)\n    GPL-2.0-only; odd\n    text: debian/mawk/copyright\n"
        in second
    )


def test_the_archive_has_all_texts(made: Path) -> None:
    with tarfile.open(made / "evenkeel-x86_64.licences.tar.xz") as tar:
        assert tar.getnames() == [
            "debian/common-licenses/GPL-2",
            "debian/grub-efi-amd64-bin/copyright",
            *(f"debian/{name}/copyright" for name in (*COPYRIGHTS, "words")),
            *("evenkeel/Apache-2.0.txt", "evenkeel/GPL-2.0-only.txt"),
            *(
                "linux/COPYING",
                "linux/LICENSES/exceptions/Linux-syscall-note",
                "linux/LICENSES/preferred/GPL-2.0",
            ),
            "npm/uplot/LICENSE",
        ]
        text = tar.extractfile("debian/mawk/copyright")
        assert isinstance(text, io.BufferedReader)
        assert text.read().decode() == COPYRIGHTS["mawk"]


def test_the_kernel_files_are_those_of_the_kernel_and_not_of_its_tools(made: Path) -> None:
    assert (made / "evenkeel-x86_64.kernel-files").read_text() == "block/bio.c\ninclude/linux/bio.h\n"


def test_the_same_inputs_give_the_same_bytes(inputs: Path, made: Path) -> None:
    """The second run has other paths, times, permissions, and another order of the files."""
    other, again = inputs / "other", inputs / "again"
    again.mkdir()
    for path in sorted(inputs.rglob("*"), reverse=True):
        target = other / path.relative_to(inputs)
        if path.is_file() and not path.is_relative_to(made):
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, target)
            target.chmod(0o600)
            os.utime(target, (1, 1))
    shutil.rmtree(other / "objects/source", ignore_errors=True)
    (other / "objects/source").symlink_to(other / "linux")
    command = other / "objects/block/.bio.o.cmd"
    command.write_text(command.read_text().replace(f"{inputs}/linux", f"{other}/linux"))
    assert sbom.main(arguments(other, again)) == 0
    for path in made.iterdir():
        assert (again / path.name).read_bytes() == path.read_bytes(), path.name


@pytest.mark.parametrize(
    ("removed", "complaint"),
    [
        ("tree/usr/share/doc/mawk/copyright", "cannot read"),
        ("vendor/uPlot.LICENSE", "has no licence text of the npm package uplot"),
        ("linux/COPYING", "cannot read"),
        ("objects/block/.bio.o.cmd", "has no kernel that was compiled from"),
        ("words.deb", "dpkg-deb"),
    ],
)
def test_what_is_missing_is_named(
    inputs: Path, capsys: pytest.CaptureFixture[str], removed: str, complaint: str
) -> None:
    (inputs / removed).unlink()
    (inputs / "out").mkdir()
    assert sbom.main(arguments(inputs, inputs / "out")) == 1
    assert complaint in capsys.readouterr().err


def test_an_unknown_module_is_refused(inputs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (inputs / "out").mkdir()
    assert sbom.main([*arguments(inputs, inputs / "out"), "--module", "other.ko"]) == 1
    assert "no component of mk/components builds the kernel module other" in capsys.readouterr().err


@pytest.mark.parametrize("folder", sorted({*inventory._listed()}), ids=lambda folder: folder.name)
def test_each_component_has_a_licence_and_its_text(folder: Path) -> None:
    item = inventory.component(folder)
    assert item.licence.parts
    assert all(item.texts.values())
