# SPDX-License-Identifier: Apache-2.0
"""docs/yocto.md's way into a product, walked as it is written there."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import pytest
from conftest import LAYER, PRODUCT, TOP, Build, Series, tail

DOCS = (TOP / "docs/yocto.md").read_text()
# what the page says that a part needs beside core
LAYERS = {"packagegroup-evenkeel-scheduler": [], "packagegroup-evenkeel-recorder": ["meta-oe"]}


def section(title: str) -> str:
    match = re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", DOCS, re.MULTILINE | re.DOTALL)
    assert match, f"docs/yocto.md has no section {title}"
    return match[1]


def blocks(text: str) -> list[str]:
    """The code of a text, without its indentation."""
    return [
        textwrap.dedent(code)
        for code in re.findall(r"^ *```\w*\n(.*?)^ *```$", text, re.MULTILINE | re.DOTALL)
    ]


def route() -> tuple[str, str, str]:
    """The command that adds the layer, the line of the distro, the line of the image."""
    add, distro, image, *_ = blocks(section("Into a product in ten minutes"))
    return add.strip(), distro, image


def test_page_has_the_three_steps() -> None:
    add, distro, image = route()
    assert add == "bitbake-layers add-layer ../evenkeel/meta-iosched"
    assert distro == 'DISTRO_FEATURES:append = " evenkeel"\n'
    assert image == 'IMAGE_INSTALL:append = " packagegroup-evenkeel-scheduler"\n'


@pytest.mark.parametrize("part", LAYERS)
def test_page_says_what_a_part_needs(part: str) -> None:
    row = re.search(
        rf"^\| `{part}` \| .* \| (.*) \|$", section("Into a product in ten minutes"), re.MULTILINE
    )
    assert row, part
    named = re.findall(r"meta-[a-z-]+", row[1])
    assert named == LAYERS[part]


@pytest.mark.parametrize("part", LAYERS)
def test_product_gets_one_part(series: Series, folder: Path, part: str) -> None:
    """A product's image, with the layers that the page names, its own kernel where that is not too old."""
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
        # both as the page says
        build.local += 'INIT_MANAGER = "systemd"\nPREFERRED_PROVIDER_virtual/kernel = "linux-evenkeel"\n'
    build.bitbake("-g", "core-image-minimal")
    found = set((build.path / "pn-buildlist").read_text().split())
    ours = {name for name in found if name.startswith(("evenkeel", "linux-evenkeel"))}
    wanted = {"evenkeel-conf", "evenkeel-module" if part.endswith("scheduler") else "evenkeel-recorder"}
    assert ours - {"linux-evenkeel"} == wanted
    assert ("linux-evenkeel" in found) == (series.name == "scarthgap")
