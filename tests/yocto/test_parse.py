# SPDX-License-Identifier: Apache-2.0
"""BitBake parses the layer: with core alone, with all layers of an image, and with layers missing."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest
from conftest import DRY_RUN_SECONDS, LAYER, TOP, Build, Series, tail

OURS = {
    "evenkeel-agent",
    "evenkeel-board",
    "evenkeel-conf",
    "evenkeel-demo",
    "evenkeel-loads",
    "evenkeel-module",
    "evenkeel-recorder",
    "evenkeel-webui",
    "linux-evenkeel",
}


def recipes_of(build: Build) -> set[str]:
    """The recipes that the last `bitbake -g` would build."""
    return set((build.path / "pn-buildlist").read_text().split())


def test_every_recipe_parses(build: Build) -> None:
    output = build.bitbake("-p")
    assert re.search(r" 0 errors\.", output), tail(output)


@pytest.mark.parametrize("image", ["evenkeel-image", "evenkeel-image-dev"])
def test_image_resolves(build: Build, image: str) -> None:
    build.bitbake("-g", image)
    found = recipes_of(build)
    assert found >= OURS | {image}
    assert ("flashsim-module" in found) == (image == "evenkeel-image-dev")
    # wic copies the finished file system into both slots, so its task must come after that of ext4
    tasks = (build.path / "task-depends.dot").read_text()
    assert f'"{image}.do_image_wic" -> "{image}.do_image_ext4"' in tasks


def test_images_run_dry(build: Build) -> None:
    bundle = ["evenkeel-bundle"] if build.series.metarauc else []
    output = build.bitbake("-n", "evenkeel-image", "evenkeel-image-dev", *bundle, timeout=DRY_RUN_SECONDS)
    assert re.search(r"Attempted \d+ tasks .* all succeeded", output), tail(output)


def test_nginx_is_new_enough_for_the_panel(build: Build) -> None:
    """scarthgap's meta-webserver prefers an older nginx; our append must change this."""
    build.series.needs("METAOE")
    version = build.variables("nginx")["PV"]
    assert tuple(map(int, version.split("."))) >= (1, 25, 1)


def test_linux_yocto_gets_our_options(build: Build) -> None:
    """With the distro feature evenkeel, linux-yocto gets them. Without it nothing changes (test_layer_check)."""
    local = 'PREFERRED_PROVIDER_virtual/kernel = "linux-yocto"\n'
    alone = build.masked(keep="recipes-kernel/linux/", append="nginx.*bbappend", local=local)
    variables = alone.variables("linux-yocto")
    assert "conf/kernel/evenkeel.scc" in variables["KERNEL_FEATURES"].split()
    assert "file://conf/kernel;" in variables["SRC_URI"]
    # A change in conf/kernel rebuilds the kernel. A change elsewhere in the repository does not.
    flag = ("--flag", "file-checksums", "--value")
    fragments = alone.run("bitbake-getvar", "--recipe", "linux-yocto", *flag, "do_kernel_metadata")
    assert fragments.returncode == 0, tail(fragments.stdout)
    if build.series.metarauc:
        assert f"{build.series.metarauc}/" in fragments.stdout
    assert f"{TOP}:True" not in fragments.stdout


def test_scheduler_needs_no_layer_but_core(series: Series, folder: Path) -> None:
    build = Build(folder / "core", series, [series.oecore / "meta", LAYER])
    build.bitbake("-g", "packagegroup-evenkeel-scheduler")
    assert {"evenkeel-module", "evenkeel-conf"} <= recipes_of(build)
    assert not recipes_of(build) & {"evenkeel-agent", "evenkeel-webui", "evenkeel-recorder"}


def test_recorder_needs_only_meta_oe_besides_core(series: Series, folder: Path) -> None:
    series.needs("METAOE")
    assert series.metaoe
    build = Build(folder / "recorder", series, [series.oecore / "meta", series.metaoe / "meta-oe", LAYER])
    build.bitbake("-g", "packagegroup-evenkeel-recorder")
    assert {"evenkeel-recorder", "isa-l", "libinih"} <= recipes_of(build)
    assert not recipes_of(build) & {"evenkeel-agent", "evenkeel-webui", "evenkeel-module"}


def test_missing_layer_is_named(series: Series, folder: Path) -> None:
    build = Build(folder / "core", series, [series.oecore / "meta", LAYER])
    output = build.refuses("evenkeel-image")
    assert "it needs meta-oe and meta-python and meta-webserver: add them to BBLAYERS" in output, tail(output)


def test_missing_distro_feature_is_named(build: Build) -> None:
    without = Build(build.path, build.series, build.layers, 'DISTRO_FEATURES:remove = "evenkeel"\n')
    output = without.refuses("evenkeel-image")
    # the wording of features_check differs between series
    assert re.search("missing required (DISTRO_FEATURES:|distro feature) 'evenkeel'", output), tail(output)


def test_bundle_resolves_with_a_key(build: Build) -> None:
    build.series.needs("METARAUC")
    build.bitbake("-g", "evenkeel-bundle")
    assert {"evenkeel-image", "rauc-native"} <= recipes_of(build)


def test_bundle_without_a_key_explains_how_to_create_one(build: Build) -> None:
    build.series.needs("METARAUC")
    unsigned = Build(build.path, build.series, build.layers)
    output = unsigned.refuses("evenkeel-bundle")
    assert "it must be signed, and RAUC_KEY_FILE is not set" in output, tail(output)
    assert "openssl req -x509" in output


def test_bundle_with_a_missing_key_names_it(build: Build) -> None:
    build.series.needs("METARAUC")
    lost = Build(build.path, build.series, build.layers, 'RAUC_KEY_FILE = "/nowhere/key.pem"\n')
    output = lost.refuses("evenkeel-bundle")
    assert "RAUC_KEY_FILE is /nowhere/key.pem, where there is no file" in output, tail(output)


@pytest.fixture
def lone_layer(series: Series, folder: Path) -> Path:
    """A copy of the layer without the repository around it."""
    layer = folder / "alone" / "meta-iosched"
    shutil.rmtree(layer, ignore_errors=True)
    shutil.copytree(LAYER, layer)
    return layer


def test_layer_alone_reports_that_it_has_no_source(series: Series, folder: Path, lone_layer: Path) -> None:
    build = Build(folder / "lone", series, [series.oecore / "meta", lone_layer])
    output = build.refuses("evenkeel-module")
    assert "there is no source" in output, tail(output)
    assert "EVENKEEL_GIT and EVENKEEL_SRCREV" in output


def test_layer_alone_fetches_its_source_from_git(series: Series, folder: Path, lone_layer: Path) -> None:
    local = 'EVENKEEL_GIT = "git.example.com/evenkeel.git"\nEVENKEEL_SRCREV = "' + "0" * 39 + '1"\n'
    build = Build(folder / "lone", series, [series.oecore / "meta", lone_layer], local)
    variables = build.variables(next(lone_layer.rglob("evenkeel-module.bb")))
    assert (
        "git://git.example.com/evenkeel.git;protocol=https;branch=main;name=evenkeel;" in variables["SRC_URI"]
    )
    assert variables["SRCREV_evenkeel"].startswith("0000")
    assert "file://recipes" not in variables["SRC_URI"]
    assert variables["S"].endswith("/evenkeel/recipes/scheduler/src")


def copy_source(to: Path) -> None:
    """Copy the files of the repository that evenkeel-conf needs to a folder that stands for a clone."""
    shutil.rmtree(to, ignore_errors=True)
    for name in ("LICENSES", "conf", "recipes/scheduler"):
        shutil.copytree(TOP / name, to / name)
    shutil.copy(TOP / "VERSION", to)


def test_only_a_changed_source_causes_a_rebuild(series: Series, folder: Path) -> None:
    """The hash of a recipe's tasks depends on the listed files. It does not depend on other files or on the path."""
    source, moved = folder / "source", folder / "moved"
    shutil.rmtree(moved, ignore_errors=True)
    copy_source(source)
    layers = [series.oecore / "meta", LAYER]
    build = Build(folder / "core", series, layers)

    def signature() -> set[str]:
        build.local = f'EVENKEEL_SRC = "{source}"\n'
        stamps = "tmp*/stamps/**/evenkeel-conf/*.do_unpack.sigdata.*"
        for old in build.path.glob(stamps):
            old.unlink()
        build.bitbake("-S", "none", "-b", str(next(LAYER.rglob("evenkeel-conf.bb"))))
        found = {path.name.rsplit(".", 1)[-1] for path in build.path.glob(stamps)}
        assert len(found) == 1, found
        return found

    first = signature()
    source = source.rename(moved)
    assert signature() == first
    with (source / "conf/kernel/base.cfg").open("a") as other:
        other.write("# not a file of this recipe\n")
    assert signature() == first
    with (source / "conf/sysctl.d/60-evenkeel.conf").open("a") as sysctls:
        sysctls.write("# changed\n")
    assert signature() != first


def test_same_files_are_built_with_the_same_time(series: Series, folder: Path) -> None:
    """Each clone must build the same bytes, so the time of the checkout must not matter."""
    source = folder / "clone"
    build = Build(folder / "core", series, [series.oecore / "meta", LAYER], f'EVENKEEL_SRC = "{source}"\n')
    epochs = "tmp*/work/*/evenkeel-conf/*/source-date-epoch/__source_date_epoch.txt"
    recipe = next(LAYER.rglob("evenkeel-conf.bb"))
    found = []
    for checked_out in (1_600_000_000, 1_700_000_000):
        copy_source(source)
        for path in source.rglob("*"):
            os.utime(path, (checked_out, checked_out))
        done = build.run("bitbake", "-b", str(recipe), "-f", "-c", "unpack")
        assert done.returncode == 0, tail(done.stdout)
        found.append([path.read_text() for path in build.path.glob(epochs)])
    assert len(found[0]) == 1
    assert found[0] == found[1]
