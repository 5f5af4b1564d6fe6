# SPDX-License-Identifier: Apache-2.0
"""The scripts that recipes run use only programs that BitBake makes visible to a task."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import TOP, Series
from recipe_text import recipe

# The programs that HOSTTOOLS in OE-Core's bitbake.conf has in all series of the layer. The offline build adds more
# programs to HOSTTOOLS, so it would not notice a missing one.
HOSTTOOLS = """
    [ ar as awk basename bash bunzip2 bzip2 cat chgrp chmod chown chrpath cmp comm cp cpio cpp cut date dd
    diff diffstat dirname du echo egrep env expand expr false fgrep file find flock g++ gawk gcc getconf
    getopt git grep gunzip gzip head hostname iconv id install ld ldd ln ls make md5sum mkdir mkfifo mknod
    mktemp mv nm objcopy objdump od patch perl pr printf pwd python3 pzstd ranlib readelf readlink realpath
    rm rmdir rpcgen sed seq sh sha1sum sha224sum sha256sum sha384sum sha512sum sleep sort split stat strings
    strip tail tar tee test touch tr true truncate uname uniq unzstd wc wget which xargs zstd
    """.split()  # noqa: SIM905


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A folder with links to the programs of HOSTTOOLS only, and with fakes of GRUB's programs."""
    folder = tmp_path / "hosttools"
    folder.mkdir()
    for name in HOSTTOOLS:
        found = shutil.which(name)
        if found:
            (folder / name).symlink_to(found)
    for name in ("grub-script-check", "grub-mkimage", "grub-editenv"):
        (folder / name).write_text("#!/bin/sh\nexit 0\n")
        (folder / name).chmod(0o755)
    return folder


def run(path: Path, *command: str | Path) -> str:
    done = subprocess.run(command, env={"PATH": str(path)}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "not found" not in done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("form", "console"), [("x86_64-efi", "ttyS0,115200"), ("arm64-efi", "ttyAMA0,115200")]
)
def test_boot_loader_is_built(path: Path, tmp_path: Path, form: str, console: str) -> None:
    run(path, TOP / "recipes/image/src/boot-loader", form, tmp_path / "out", "/modules", console)
    line = re.search(
        r'^\s+if linux "[^"]*" (.*); then$', (tmp_path / "out/grub.cfg").read_text(), re.MULTILINE
    )
    assert line
    words = line[1].split(" ")
    assert words[:2] == ["root=PARTUUID=$uuid", "rauc.slot=$slot"]
    assert f"console={console}" in words
    assert "init=/usr/lib/evenkeel/preinit" in words
    assert "" not in words


@pytest.mark.parametrize(
    ("console", "words"),
    [
        ("tty0 ttymxc1,115200", ["console=tty0", "console=ttymxc1,115200"]),
        ("none", []),
    ],
)
def test_boot_loader_names_the_given_consoles(
    path: Path, tmp_path: Path, console: str, words: list[str]
) -> None:
    """The kernel gets a console= for each given console, and none if the firmware chooses the console."""
    run(path, TOP / "recipes/image/src/boot-loader", "arm64-efi", tmp_path / "out", "/modules", console)
    line = re.search(
        r'^\s+if linux "[^"]*" (.*); then$', (tmp_path / "out/grub.cfg").read_text(), re.MULTILINE
    )
    assert line
    assert [word for word in line[1].split(" ") if word.startswith("console=")] == words
    assert "" not in line[1].split(" ")


@pytest.mark.parametrize("reboots", ["true", "false"])
@pytest.mark.parametrize("initramfs", ["", "small"])
def test_initramfs_that_does_not_find_the_root_restarts_the_board(
    path: Path, tmp_path: Path, initramfs: str, reboots: str
) -> None:
    """If the initramfs did not restart the board, GRUB would never try the other slot."""
    run(path, TOP / "recipes/image/src/boot-loader", "arm64-efi", tmp_path / "boot")
    match = re.search(
        r'^    if \[ -n "\$\{INITRAMFS_IMAGE\}" \]; then\n.*?^    fi$',
        recipe("evenkeel-bootloader").read_text(),
        re.MULTILINE | re.DOTALL,
    )
    assert match
    body = match[0].replace("${INITRAMFS_IMAGE}", initramfs).replace("${B}", str(tmp_path))
    body = body.replace("${EVENKEEL_INITRAMFS_REBOOTS}", reboots)
    output = run(path, "sh", "-e", "-c", f'bbwarn() {{ echo "WARNING: $*"; }}\n{body}')
    # The recipe must warn in a series whose initramfs does not know init_fatal_reboot.
    assert ("WARNING: small: the initramfs of this series does not restart" in output) == bool(
        initramfs and reboots == "false"
    )
    line = re.search(r"^\s+if linux .*$", (tmp_path / "boot/grub.cfg").read_text(), re.MULTILINE)
    assert line
    words = line[0].split()
    assert "rootwait" in words
    assert ({"roottimeout=60", "init_fatal_reboot"} <= set(words)) == bool(initramfs)


def test_initramfs_knows_these_parameters(series: Series) -> None:
    folder = series.oecore / "meta/recipes-core/initrdscripts/initramfs-framework"
    assert "bootparam_roottimeout" in (folder / "rootfs").read_text()
    # scarthgap's initramfs can only hang or start a shell
    if series.name != "scarthgap":
        assert "bootparam_init_fatal_reboot" in (folder / "init").read_text()


def test_kernel_is_configured(path: Path, tmp_path: Path) -> None:
    cgroup = TOP / "conf/kernel/cgroup.cfg"
    fragment = tmp_path / "cgroup.cfg"
    fragment.write_text(run(path, TOP / "recipes/kernel/src/fragment", "6.12.80", cgroup))
    run(path, TOP / "recipes/kernel/src/check-config", fragment, fragment)


def test_programs_are_those_of_oe_core(series: Series) -> None:
    text = (series.oecore / "meta/conf/bitbake.conf").read_text()
    first = re.search(r'^HOSTTOOLS \+= "(.*?)"', text, re.MULTILINE | re.DOTALL)
    assert first
    assert set(first[1].replace("\\\n", " ").split()) >= set(HOSTTOOLS)
