# SPDX-License-Identifier: Apache-2.0
"""The pages about the layer: their commands, files and variables exist, and their steps for a product work."""

from __future__ import annotations

import re
import shlex
import subprocess
import textwrap
from pathlib import Path

import pytest
from conftest import LAYER, PRODUCT, TOP, Build, Series, tail

BUILD = (TOP / "docs/howto/build-with-yocto.md").read_text()
PORT = (TOP / "docs/howto/port-to-a-board.md").read_text()
TEST = (TOP / "docs/howto/test-the-yocto-layer.md").read_text()
UPDATE = (TOP / "docs/howto/update.md").read_text()
REFERENCE = (TOP / "docs/reference/yocto.md").read_text()
DOCS = "\n".join([BUILD, PORT, TEST, UPDATE, REFERENCE])
# package group → the layers besides core that the reference names for it
LAYERS = {"packagegroup-evenkeel-scheduler": [], "packagegroup-evenkeel-recorder": ["meta-oe"]}


def section(page: str, title: str) -> str:
    match = re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL)
    assert match, f"the page has no section {title}"
    return match[1]


def blocks(text: str) -> list[str]:
    """The code blocks of a text, without indentation."""
    return [
        textwrap.dedent(code)
        for code in re.findall(r"^ *```\w*\n(.*?)^ *```$", text, re.MULTILINE | re.DOTALL)
    ]


def route() -> tuple[str, str, str]:
    """From the page's section for products: the command that adds the layer, and the lines for distro and image."""
    add, distro, image, *_ = blocks(section(BUILD, "Into a product in ten minutes"))
    return add.strip(), distro, image


def test_page_has_the_three_steps() -> None:
    add, distro, image = route()
    assert add == "bitbake-layers add-layer ../evenkeel/meta-iosched"
    assert distro == 'DISTRO_FEATURES:append = " evenkeel"\n'
    assert image == 'IMAGE_INSTALL:append = " packagegroup-evenkeel-scheduler"\n'


def test_variables_of_the_pages_are_the_layers() -> None:
    """The layer gives each variable that a page names a default, or reads it. So a configuration can set it."""
    texts = [path.read_text() for path in LAYER.rglob("*") if path.is_file()]
    for name in set(re.findall(r"\b(?:EVENKEEL|LINUX)_[A-Z0-9_]+\b", DOCS)):
        assert any(re.search(rf"^{name} \?\??= ", text, re.MULTILINE) for text in texts) or any(
            f"d.getVar('{name}')" in text for text in texts
        ), name


def test_files_of_kas_that_the_pages_name_exist() -> None:
    named = set(re.findall(r"kas/[\w/-]+\.yml", DOCS))
    assert len(named) > 5
    assert [name for name in named if not (TOP / name).is_file()] == []


def test_masks_that_the_page_removes_exist() -> None:
    masked = (TOP / "recipes/image/data/masked-units").read_text().splitlines()
    named = re.findall(r"\$\{sysconfdir\}/systemd/system/(\S+)", BUILD)
    assert named
    assert set(named) <= set(masked)


# A product without our partitions finds the recorder's by its name. A board of ours has the links of preinit instead.
BY_NAME, BY_LINK = "/dev/disk/by-partlabel/recorder", "/dev/disk/evenkeel/recorder"


def test_recorder_alone_is_mounted_and_formatted_like_ours() -> None:
    line = re.search(r"^PARTLABEL=recorder .*$", BUILD, re.MULTILINE)
    assert line
    ours = [row.split() for row in (TOP / "conf/fstab").read_text().splitlines()]
    assert [BY_LINK, *line[0].split()[1:]] in ours
    command = re.search(r"^grep -v '\^#' .*mkfs/recorder.*$", BUILD, re.MULTILINE)
    assert command
    assert command[0].replace(BY_NAME, BY_LINK) in (TOP / "conf/mkfs/recorder").read_text()


def test_recorders_partition_is_formatted_with_an_old_e2fsprogs() -> None:
    """The command passes every option except root_perms, which e2fsprogs 1.47.0 does not know."""
    command = re.search(r"^sed .*mkfs/recorder \| xargs mke2fs .*$", BUILD, re.MULTILINE)
    assert command
    file = TOP / "conf/mkfs/recorder"
    assert command[0].replace(BY_NAME, BY_LINK) in file.read_text()
    program = command[0].partition(" | ")[0].replace("/usr/lib/evenkeel/mkfs/recorder", str(file))
    done = subprocess.run(["sh", "-c", program], capture_output=True, text=True, check=True)
    every = [line for line in file.read_text().splitlines() if line and not line.startswith("#")]
    assert every[-1].endswith(",root_perms=0755")
    assert done.stdout.split() == " ".join(every).removesuffix(",root_perms=0755").split()


def test_update_by_hand_sets_what_the_boot_loader_reads() -> None:
    """The order of the commands matters: GRUB must never boot a slot that is only partly written."""
    code = next(block for block in blocks(UPDATE) if "grub-editenv" in block)
    state = {"ORDER": "A B", "A_OK": "1", "A_TRY": "0", "B_OK": "1", "B_TRY": "0"}
    seen = []
    for line in code.splitlines():
        words = shlex.split(line)
        if words[0] == "grub-editenv":
            assert words[1:3] == ["/bootstate/grubenv", "set"]
            changed = dict(word.split("=") for word in words[3:])
            assert changed.keys() <= state.keys()
            state |= changed
        elif words[0] == "dd":
            assert state["B_OK"] == "0"
            label = next(word for word in words if word.startswith("of=")).rpartition("/")[2]
            assert f"--part-name {label} " in (LAYER / "files/wic/evenkeel.wks.in").read_text()
        seen.append(words[0])
    assert seen == ["grub-editenv", "dd", "grub-editenv", "systemctl"]
    assert state == {"ORDER": "B A", "A_OK": "1", "A_TRY": "0", "B_OK": "1", "B_TRY": "0"}
    menu = (TOP / "recipes/image/data/grub.cfg").read_text()
    assert f'load_env --file "$state" {" ".join(state)}' in menu


def test_disk_image_is_named_without_a_pattern() -> None:
    """The folder contains the image and a link to it, so a pattern would match both."""
    lines = re.findall(r"^ *bmaptool copy .*$", DOCS, re.MULTILINE)
    assert lines
    for line in lines:
        assert "*" not in line


@pytest.mark.parametrize("part", LAYERS)
def test_reference_names_the_layers_of_a_part(part: str) -> None:
    row = re.search(rf"^\| `{part}` \| .* \| (.*) \|$", section(REFERENCE, "Packages"), re.MULTILINE)
    assert row, part
    named = re.findall(r"meta-[a-z-]+", row[1])
    assert named == LAYERS[part]


@pytest.mark.parametrize("part", LAYERS)
def test_product_gets_one_part(series: Series, folder: Path, part: str) -> None:
    """An image of a product with one of our package groups resolves with only the layers that the page names.

    It uses the product's own kernel, except in scarthgap, whose kernel is too old.
    """
    layers = [series.oecore / "meta"]
    if LAYERS[part]:
        series.needs("METAOE")
        layers += [series.metaoe / name for name in LAYERS[part] if series.metaoe]
    add, distro, image = route()
    build = Build(folder / part, series, layers, what=PRODUCT)
    done = build.run(*add.replace("../evenkeel/meta-iosched", str(LAYER)).split())
    assert done.returncode == 0, tail(done.stdout)
    assert f"{LAYER} " in (build.path / "conf/bblayers.conf").read_text()

    build.layers = [*layers, LAYER]
    build.local = distro + image.replace("packagegroup-evenkeel-scheduler", part)
    if series.name == "scarthgap":
        # both settings as on the page
        build.local += 'INIT_MANAGER = "systemd"\nPREFERRED_PROVIDER_virtual/kernel = "linux-evenkeel"\n'
    build.bitbake("-g", "core-image-minimal")
    found = set((build.path / "pn-buildlist").read_text().split())
    ours = {name for name in found if name.startswith(("evenkeel", "linux-evenkeel"))}
    wanted = {"evenkeel-conf", "evenkeel-module" if part.endswith("scheduler") else "evenkeel-recorder"}
    assert ours - {"linux-evenkeel"} == wanted
    assert ("linux-evenkeel" in found) == (series.name == "scarthgap")
