# SPDX-License-Identifier: Apache-2.0
"""What the Yocto Project asks of a layer, and what its style guide asks of a recipe."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from conftest import LAYER, PRODUCT, Build, Series, tail

CHECK_SECONDS = 3600


def test_layer_is_compatible(series: Series, folder: Path) -> None:
    """yocto-check-layer with core alone, not set up for us: nothing changes for who merely adds the layer."""
    build = Build(folder / "check", series, [series.oecore / "meta"], what=PRODUCT)
    done = build.run("yocto-check-layer", "--no-auto-dependency", str(LAYER), timeout=CHECK_SECONDS)
    assert done.returncode == 0, tail(done.stdout, 80)
    assert "PASS" in done.stdout
    assert "FAIL" not in done.stdout, tail(done.stdout, 80)


def test_layer_is_compatible_beside_what_the_image_needs(series: Series, folder: Path) -> None:
    """The same with the layers to whose recipes ours appends."""
    series.needs("METAOE")
    # all recipes of all layers are resolved: what meta-rauc has, but no image of ours, is not to need one more layer
    without_fuse = 'PACKAGECONFIG:remove:pn-casync = "fuse"\n'
    build = Build(folder / "check", series, [series.oecore / "meta"], without_fuse, PRODUCT)
    beside = [str(layer) for layer in series.layers()[1:-1]]
    command = ["yocto-check-layer", "--no-auto-dependency", str(LAYER), "--additional-layers", *beside]
    # what those depend on themselves is looked for here alone
    done = build.run(*command, "--dependency", *beside, timeout=CHECK_SECONDS)
    assert done.returncode == 0, tail(done.stdout, 80)


def test_recipes_are_in_form() -> None:
    """oelint-adv; exceptions with their reasons are in meta-iosched/.oelint.cfg."""
    oelint = Path(sys.executable).with_name("oelint-adv")
    if not oelint.exists():
        pytest.skip("no oelint-adv: 'make yocto' brings it")
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
