# SPDX-License-Identifier: Apache-2.0
"""The layer follows the Yocto Project's rules for layers, and its style guide for recipes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from conftest import LAYER, PRODUCT, Build, Series, tail

CHECK_SECONDS = 3600


def test_layer_is_compatible(series: Series, folder: Path) -> None:
    """yocto-check-layer with core alone and without our settings: adding our layer changes no other recipe."""
    build = Build(folder / "check", series, [series.oecore / "meta"], what=PRODUCT)
    done = build.run("yocto-check-layer", "--no-auto-dependency", str(LAYER), timeout=CHECK_SECONDS)
    assert done.returncode == 0, tail(done.stdout, 80)
    assert "PASS" in done.stdout
    assert "FAIL" not in done.stdout, tail(done.stdout, 80)


def test_layer_is_compatible_with_the_layers_of_the_image(series: Series, folder: Path) -> None:
    """yocto-check-layer with the layers whose recipes we append to: adding our layer changes none of their recipes."""
    series.needs("METAOE")
    # The check resolves all recipes of all layers. The option fuse of meta-rauc's casync would need another layer.
    without_fuse = 'PACKAGECONFIG:remove:pn-casync = "fuse"\n'
    build = Build(folder / "check", series, [series.oecore / "meta"], without_fuse, PRODUCT)
    others = [str(layer) for layer in series.layers()[1:-1]]
    command = ["yocto-check-layer", "--no-auto-dependency", str(LAYER), "--additional-layers", *others]
    # yocto-check-layer searches dependencies of the additional layers only in these folders.
    done = build.run(*command, "--dependency", *others, timeout=CHECK_SECONDS)
    assert done.returncode == 0, tail(done.stdout, 80)


def test_recipes_follow_the_style_guide() -> None:
    """oelint-adv; meta-iosched/.oelint.cfg lists the exceptions with their reasons."""
    oelint = Path(sys.executable).with_name("oelint-adv")
    if not oelint.exists():
        pytest.skip("no oelint-adv: 'make yocto' installs it")
    files = [
        str(path.relative_to(LAYER))
        for path in sorted(LAYER.rglob("*"))
        if path.suffix in (".bb", ".bbappend", ".bbclass", ".inc") or path.name == "layer.conf"
    ]
    assert files
    done = subprocess.run(
        [oelint, "--quiet", "--relpaths", *files],
        cwd=LAYER,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert done.stdout.strip() == ""
    assert done.returncode == 0
