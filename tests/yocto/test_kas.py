# SPDX-License-Identifier: Apache-2.0
"""The files in kas/ are valid and pin every layer, and for each machine the image resolves."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped,unused-ignore]
from conftest import DRY_RUN_SECONDS, LAYER, PRODUCT, TOP, Build, Series, tail

KAS = TOP / "kas"
FILES = sorted(KAS.rglob("*.yml"))
MACHINES = ["genericarm64", "genericx86-64", "qemuarm64", "qemux86-64"]


def load(path: Path) -> dict[str, Any]:
    found = yaml.safe_load(path.read_text())
    assert isinstance(found, dict)
    return found


def merged(path: Path) -> dict[str, Any]:
    """The configuration of a file, its includes and their lock files, as kas merges them: later values win."""
    config: dict[str, Any] = {}

    def merge(into: dict[str, Any], more: dict[str, Any]) -> None:
        for key, value in more.items():
            if isinstance(value, dict) and isinstance(into.get(key), dict):
                merge(into[key], value)
            else:
                into[key] = value

    for name in load(path)["header"].get("includes", []):
        merge(config, merged(TOP / name))
    merge(config, load(path))
    lock = path.with_suffix(".lock.yml")
    if lock.exists():
        merge(config, load(lock))
    return config


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_is_valid(path: Path) -> None:
    schema = pytest.importorskip("kas.configschema", reason="no kas: 'make yocto' installs it")
    pytest.importorskip("jsonschema").validate(load(path), schema.CONFIGSCHEMA)


def test_there_is_a_file_for_each_machine() -> None:
    assert {path.stem for path in KAS.glob("*.yml")} == {*MACHINES, "scarthgap", "scarthgap.lock"}


@pytest.mark.parametrize("machine", [name for name in MACHINES if name.startswith("qemu")])
def test_runqemu_boots_what_the_kernel_can_read(machine: str) -> None:
    """runqemu must attach the image as a virtio disk: conf/kernel has no driver for the default, a SCSI disk."""
    local = "".join(merged(KAS / f"{machine}.yml")["local_conf_header"].values())
    assert "hostfwd=tcp:127.0.0.1:8443-:443" in local
    assert "CONFIG_VIRTIO_BLK=y" in (TOP / "conf/kernel/qemu.cfg").read_text().splitlines()
    if machine == "qemux86-64":
        assert 'QB_DRIVE_TYPE = "/dev/vda"' in local.splitlines()
    else:
        # runqemu uses the machine's virtio disk (QB_ROOTFS_OPT) only for images without a kernel
        assert 'QB_FSINFO = "wic:no-kernel-in-fs"' in local.splitlines()


def test_only_the_development_image_has_a_log_in_without_a_password() -> None:
    """kas merges its files into one configuration for all images. Only evenkeel-image-dev may get the log-in."""
    (local,) = load(KAS / "include/dev.yml")["local_conf_header"].values()
    settings = [line for line in local.splitlines() if not line.startswith("#")]
    assert settings
    for line in settings:
        assert line.startswith("IMAGE_FEATURES:append:pn-evenkeel-image-dev = ")
    for path in {*FILES} - {KAS / "include/dev.yml"}:
        assert not re.search("ssh-server|empty-root|allow-(empty|root)|debug-tweaks", path.read_text()), path


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("option", ["dev", "debug-kernel", "fleet"])
def test_every_layer_is_pinned(machine: str, option: str) -> None:
    config = merged(KAS / f"{machine}.yml")
    assert config["machine"] == machine
    repos = {**config["repos"], **load(KAS / f"include/{option}.yml").get("repos", {})}
    for lock in (config, load(KAS / "scarthgap.lock.yml")):
        pinned = lock["overrides"]["repos"]
        for name, repo in repos.items():
            if "url" in repo:
                assert re.fullmatch(r"[0-9a-f]{40}", pinned[name]["commit"]), name


def test_checkout_in_the_docs_fetches_every_tree_that_the_tests_need() -> None:
    """`kas checkout` with the files that the page names fetches each tree that the page lists, also meta-yocto."""
    docs = (TOP / "docs/howto/test-the-yocto-layer.md").read_text()
    command = re.search(r"`kas checkout (\S+)`", docs)
    wanted = re.search(r"^DIR are trees of (.*?) of one series", docs, re.MULTILINE | re.DOTALL)
    assert command
    assert wanted
    brought = {name for file in command[1].split(":") for name in merged(TOP / file)["repos"]}
    assert set(re.split(r",\s|\sand\s", wanted[1])) == brought - {"evenkeel"}


def test_locked_revisions_are_those_that_were_tested(series: Series) -> None:
    """The trees with which this test run works have the revisions in the lock files."""
    if series.name not in ("scarthgap", "wrynose"):
        pytest.skip(f"kas/ has no file for {series.name}")
    lock = KAS / ("scarthgap.lock.yml" if series.name == "scarthgap" else "include/wrynose.lock.yml")
    pinned = load(lock)["overrides"]["repos"]
    trees = {
        "openembedded-core": series.oecore,
        "bitbake": series.bitbake,
        "meta-openembedded": series.metaoe,
        "meta-rauc": series.metarauc,
    }
    for name, tree in trees.items():
        if tree is None:
            continue
        done = subprocess.run(
            ["git", "-c", "safe.directory=*", "-C", tree, "rev-parse", "HEAD"], capture_output=True, text=True
        )
        if done.returncode:
            pytest.skip(f"{tree} is not a git tree, so its revision is unknown")
        assert pinned[name]["commit"] == done.stdout.strip(), name


@pytest.fixture
def configured(series: Series, folder: Path, request: pytest.FixtureRequest) -> Build:
    """A build with the configuration that kas would write for a machine."""
    machine = request.param
    series.needs("METAOE")
    if machine.startswith("generic"):
        series.needs("METAYOCTO")
    files = [KAS / f"{machine}.yml"]
    if series.name == "scarthgap":
        if machine.endswith("arm64"):
            pytest.skip("scarthgap's linux-yocto is too old for the module, and linux-evenkeel is for x86-64")
        files.append(KAS / "scarthgap.yml")
    trees = {
        "openembedded-core": series.oecore,
        "meta-openembedded": series.metaoe,
        "meta-yocto": series.metayocto,
    }
    layers = []
    headers: dict[str, str] = {}
    for config in map(merged, files):
        headers |= config["local_conf_header"]
        for name, repo in config["repos"].items():
            tree = trees.get(name)
            layers += [tree / layer for layer in repo.get("layers", {}) if tree]
    local = f'MACHINE = "{machine}"\n' + "\n".join(headers.values())
    return Build(folder / f"kas-{machine}", series, [*layers, LAYER], local, PRODUCT)


@pytest.mark.parametrize("configured", MACHINES, indirect=True)
def test_image_resolves_for_each_machine(configured: Build) -> None:
    configured.bitbake("-g", "evenkeel-image")
    found = set((configured.path / "pn-buildlist").read_text().split())
    assert {"evenkeel-bootloader", "evenkeel-module", "evenkeel-webui"} <= found
    arm64 = configured.path.name.endswith("arm64")
    assert ("linux-yocto" in found, "linux-evenkeel" in found) == (arm64, not arm64)


@pytest.mark.parametrize("configured", ["qemuarm64"], indirect=True)
def test_image_runs_dry_for_arm64(configured: Build) -> None:
    output = configured.bitbake("-n", "evenkeel-image", timeout=DRY_RUN_SECONDS)
    assert re.search(r"Attempted \d+ tasks .* all succeeded", output), tail(output)
