# SPDX-License-Identifier: Apache-2.0
"""What the class of our images puts into a root file system beside packages."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest
from conftest import LAYER

TEXT = (LAYER / "classes-recipe/evenkeel_image.bbclass").read_text()


def settle(work: Path, boot: list[str], **more: str) -> subprocess.CompletedProcess[str]:
    """evenkeel_settle_rootfs on WORK/root with these files in /boot."""
    match = re.search(r"^evenkeel_settle_rootfs\(\) \{\n(.*?)^\}", TEXT, re.MULTILINE | re.DOTALL)
    assert match
    root = work / "root"
    for folder in ("boot", "etc", "usr/lib/tmpfiles.d", "usr/share/evenkeel/etc", "var/lib/thing"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    for name in ("fstab", "hostname", "hosts"):
        (root / "usr/share/evenkeel/etc" / name).write_text("ours\n")
    for name in boot:
        (root / "boot" / name).write_text(name)
    types = re.search(r'^EVENKEEL_KERNEL_TYPES = "(.*)"$', TEXT, re.MULTILINE)
    assert types
    values = {
        "IMAGE_ROOTFS": str(root),
        "DEPLOY_DIR_IMAGE": str(work),
        "EVENKEEL_KERNEL_TYPES": types[1],
        "IMAGE_MACHINE_SUFFIX": "-board",
        "INITRAMFS_FSTYPES": "cpio.gz",
        "INITRAMFS_IMAGE": "",
        "datadir": "/usr/share",
        "localstatedir": "/var",
        "nonarch_libdir": "/usr/lib",
        "sysconfdir": "/etc",
        **more,
    }
    body = re.sub(r"\$\{(\w+)\}", lambda name: values[name[1]], match[1])
    script = f'bbfatal() {{ echo "ERROR: $*" >&2; exit 1; }}\n{body}'
    return subprocess.run(["sh", "-e", "-c", script], capture_output=True, text=True)


@pytest.mark.parametrize(
    ("boot", "kernel"),
    [
        (["bzImage-6.12.80-evenkeel"], "bzImage-6.12.80-evenkeel"),
        # of a machine with KERNEL_IMAGETYPES:append = " Image"
        (["Image.gz-6.18.39", "Image-6.18.39", "fitImage-6.18.39"], "Image-6.18.39"),
    ],
)
def test_kernel_that_grub_loads_has_the_name_that_it_knows(
    tmp_path: Path, boot: list[str], kernel: str
) -> None:
    done = settle(tmp_path, boot)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "root/boot/vmlinuz").read_text() == kernel


def test_kernel_that_grub_cannot_load_is_none(tmp_path: Path) -> None:
    done = settle(tmp_path, ["Image.gz-6.18.39", "fitImage-6.18.39"])
    assert done.returncode == 1
    assert "the image has none of bzImage Image in /boot: install kernel-image" in done.stderr


@pytest.mark.parametrize("bundled", ["", "1"])
def test_initramfs_is_in_the_slot(tmp_path: Path, bundled: str) -> None:
    """Bundled, too: what is packaged is the kernel before it was."""
    (tmp_path / "initramfs-board.cpio.zst").write_text("initramfs")
    done = settle(
        tmp_path,
        ["Image-6.18.39"],
        INITRAMFS_IMAGE="initramfs",
        INITRAMFS_IMAGE_BUNDLE=bundled,
        INITRAMFS_FSTYPES="cpio.gz cpio.zst",
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "root/boot/initrd").read_text() == "initramfs"


def test_initramfs_that_was_not_made_is_named(tmp_path: Path) -> None:
    done = settle(tmp_path, ["Image-6.18.39"], INITRAMFS_IMAGE="initramfs")
    assert done.returncode == 1
    assert "there is no initramfs of a type in INITRAMFS_FSTYPES (cpio.gz)" in done.stderr


def test_without_an_initramfs_there_is_none(tmp_path: Path) -> None:
    assert settle(tmp_path, ["bzImage-6.12.80"]).returncode == 0
    assert not (tmp_path / "root/boot/initrd").exists()


def test_var_is_empty_and_made_anew_by_tmpfiles(tmp_path: Path) -> None:
    assert settle(tmp_path, ["bzImage-6.12.80"]).returncode == 0
    assert list((tmp_path / "root/var").iterdir()) == []
    made = (tmp_path / "root/usr/lib/tmpfiles.d/evenkeel-var.conf").read_text().splitlines()
    assert [line.split()[1] for line in made] == ["/var/lib", "/var/lib/thing"]


@pytest.mark.parametrize(
    ("primary", "types", "said"),
    [
        ("bzImage", None, None),
        ("Image", None, None),
        ("Image.gz", " Image", None),
        # a recipe that is read without a machine of that kind
        (None, None, None),
        ("fitImage", None, "the kernel of board is a fitImage"),
        ("Image.gz", None, 'KERNEL_IMAGETYPES:append = " Image"'),
    ],
)
def test_machine_whose_kernel_grub_cannot_load_is_told_so(
    primary: str | None, types: str | None, said: str | None
) -> None:
    found = re.search(r"^python \(\) \{\n(.*?GRUB loads.*?)^\}", TEXT, re.MULTILINE | re.DOTALL)
    assert found
    values = {
        "KERNEL_IMAGETYPE": primary,
        "KERNEL_IMAGETYPES": types,
        "EVENKEEL_KERNEL_TYPES": "bzImage Image",
        "MACHINE": "board",
    }
    bb = SimpleNamespace(parse=SimpleNamespace(SkipRecipe=ValueError))
    code = f"def check(bb, d):\n{found[1]}"
    scope: dict[str, object] = {}
    exec(code, scope)  # noqa: S102  # of our own class
    check = scope["check"]
    assert callable(check)
    if said is None:
        check(bb, SimpleNamespace(getVar=values.get))
    else:
        with pytest.raises(ValueError, match=re.escape(said)):
            check(bb, SimpleNamespace(getVar=values.get))
