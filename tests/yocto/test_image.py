# SPDX-License-Identifier: Apache-2.0
"""evenkeel_image.bbclass: its changes of the root file system, and the partitions that it creates."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest
from conftest import LAYER, TOP, Build
from recipe_text import recipe

DOCS = (TOP / "docs/howto/build-with-yocto.md").read_text()
TEXT = (LAYER / "classes-recipe/evenkeel_image.bbclass").read_text()

# the time stamp of the builds here: OE-Core's SOURCE_DATE_EPOCH_FALLBACK, in 2011
EPOCH = "1302044400"

# Wrapper that makes the installed e2fsprogs act like version 1.47.0, which scarthgap has: it refuses root_perms, and
# ignores SOURCE_DATE_EPOCH.
OLD_E2FSPROGS = """\
#!/bin/sh
case " $* " in *root_perms*) echo "Bad option(s) specified: root_perms" >&2; exit 1 ;; esac
unset SOURCE_DATE_EPOCH
exec {program} "$@"
"""


@pytest.fixture(params=["installed", "1.47.0"])
def e2fsprogs(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, str]:
    """Environment variables as in BitBake: once with the installed e2fsprogs, once with a fake of scarthgap's."""
    programs = {name: shutil.which(name) for name in ("mke2fs", "mkfs.ext4", "fsck.ext4", "debugfs")}
    if not all(programs.values()):
        pytest.skip("needs mke2fs, fsck.ext4 and debugfs (e2fsprogs)")
    path = os.environ["PATH"]
    if request.param == "1.47.0":
        old = tmp_path / "bin"
        old.mkdir()
        for name, program in programs.items():
            (old / name).write_text(OLD_E2FSPROGS.format(program=program))
            (old / name).chmod(0o755)
        path = f"{old}:{path}"
    return {"PATH": path, "SOURCE_DATE_EPOCH": EPOCH}


def exported(text: str) -> dict[str, str]:
    """The variables that a class or recipe exports. The value of each must be ${SOURCE_DATE_EPOCH}."""
    found = dict(re.findall(r'^export (\w+) = "(.*)"$', text, re.MULTILINE))
    assert set(found.values()) <= {"${SOURCE_DATE_EPOCH}"}
    return dict.fromkeys(found, EPOCH)


def shell_function(name: str, text: str = TEXT) -> str:
    match = re.search(rf"^{name}\(\) \{{\n(.*?)^\}}", text, re.MULTILINE | re.DOTALL)
    assert match
    return match[1]


def make_partitions(work: Path, environment: dict[str, str]) -> Path:
    """Run evenkeel_make_partitions for a root with only the mke2fs options. Returns the folder of the partitions."""
    options = work / "root/usr/lib/evenkeel/mkfs"
    shutil.copytree(TOP / "conf/mkfs", options)
    values = {
        "EVENKEEL_DATA_MB": "32",
        "EVENKEEL_PARTITIONS": str(work / "partitions"),
        "EVENKEEL_RECORDER_MB": "32",
        "IMAGE_LINK_NAME": "image",
        "IMAGE_ROOTFS": str(work / "root"),
        "IMGDEPLOYDIR": str(work),
        "nonarch_libdir": "/usr/lib",
    }
    body = re.sub(r"\$\{(\w+)\}", lambda name: values[name[1]], shell_function("evenkeel_make_partitions"))
    subprocess.run(["sh", "-e", "-c", body], env=environment | exported(TEXT), check=True)
    return work / "partitions"


def make_root(work: Path, environment: dict[str, str]) -> Path:
    """Make root.ext4 by the steps of OE-Core's oe_mkext234fs, with the options and the append of our class."""
    options = re.search(r'^EXTRA_IMAGECMD:ext4 = "((?:[^"\\]|\\\n)*)"', TEXT, re.MULTILINE)
    append = re.search(r'^IMAGE_CMD:append:ext4 = "(.*)"$', TEXT, re.MULTILINE)
    tree = work / "tree"
    (tree / "a folder").mkdir(parents=True)
    (tree / "a folder/a file").write_text("content\n")
    (tree / "link").symlink_to("a folder/a file")
    for path in (tree, *tree.rglob("*")):
        # As after the build of an image: files were modified shortly after EPOCH, and (except the tree) read later.
        read = 0 if path.name == "tree" else int(time.time())
        os.utime(path, (read or int(EPOCH) + 9, int(EPOCH) + 9), follow_symlinks=False)
    values = {
        "IMAGE_ROOTFS": str(tree),
        "IMGDEPLOYDIR": str(work),
        "IMAGE_NAME": "root",
        "SOURCE_DATE_EPOCH": EPOCH,
    }
    assert options
    script = f"""
        evenkeel_settle_times() {{
            {shell_function("evenkeel_settle_times") if append else ":"}
        }}
        dd if=/dev/zero of=${{IMGDEPLOYDIR}}/${{IMAGE_NAME}}.ext4 seek=32768 count=0 bs=1024
        mkfs.ext4 -F {options[1].replace(chr(92) + chr(10), " ")} ${{IMGDEPLOYDIR}}/${{IMAGE_NAME}}.ext4 -d ${{IMAGE_ROOTFS}}
        fsck.ext4 -pvfD ${{IMGDEPLOYDIR}}/${{IMAGE_NAME}}.ext4 || [ $? -le 3 ] {append[1] if append else ""}
    """
    body = re.sub(r"\$\{(\w+)\}", lambda name: values[name[1]], script)
    subprocess.run(["sh", "-e", "-c", body], env=environment | exported(TEXT), check=True)
    return work / "root.ext4"


def make_bootstate(work: Path, environment: dict[str, str]) -> Path:
    """Create the partition bootstate with the recipe's own commands."""
    text = recipe("evenkeel-bootloader").read_text()
    body = shell_function("do_compile", text)
    (work / "state").mkdir()
    (work / "state/grubenv").write_text("# GRUB Environment Block\n")
    body = body[body.index("    mke2fs ") :].replace("${B}", str(work))
    subprocess.run(["sh", "-e", "-c", body], env=environment | exported(text), check=True)
    return work / "bootstate.ext4"


def make_all(work: Path, environment: dict[str, str]) -> list[Path]:
    work.mkdir()
    root, bootstate = make_root(work, environment), make_bootstate(work, environment)
    partitions = make_partitions(work, environment)
    return [root, bootstate, partitions / "recorder.ext4", partitions / "data.ext4"]


def test_same_files_give_the_same_bytes(tmp_path: Path, e2fsprogs: dict[str, str]) -> None:
    """Two builds give the same bytes. They are over a second apart, so that a time stamp of the build would differ."""
    once = make_all(tmp_path / "once", e2fsprogs)
    time.sleep(1.1)
    again = make_all(tmp_path / "again", e2fsprogs)
    different = []
    for first, second in zip(once, again, strict=True):
        if subprocess.run(["cmp", "-s", first, second]).returncode:
            different.append(first.name)
        check = subprocess.run(["fsck.ext4", "-fn", first], capture_output=True, text=True)
        assert check.returncode == 0, check.stdout
    assert different == []


def test_recorders_partition_belongs_to_the_recorder_with_any_e2fsprogs(
    tmp_path: Path, e2fsprogs: dict[str, str]
) -> None:
    """The class must not pass root_perms to mke2fs, because scarthgap's mke2fs fails with it."""
    image = make_partitions(tmp_path, e2fsprogs) / "recorder.ext4"
    root = subprocess.run(["debugfs", "-R", "stat <2>", image], capture_output=True, text=True, check=True)
    found = dict(re.findall(r"(\w+): +(\w+)", root.stdout))
    assert (found["Type"], found["Mode"], found["User"], found["Group"]) == (
        "directory",
        "0755",
        "900",
        "900",
    )
    check = subprocess.run(["fsck.ext4", "-fn", image], capture_output=True, text=True)
    assert check.returncode == 0, check.stdout


UNITS = "usr/lib/systemd/system"
GOOD = "evenkeel-slot-good.service"


def settle(
    work: Path, boot: list[str], units: Sequence[str] = (GOOD,), *, var: bool = True, **more: str
) -> subprocess.CompletedProcess[str]:
    """Run evenkeel_settle_rootfs on work/root, with these files in /boot and these units. `more` sets variables."""
    root = work / "root"
    for folder in (
        "boot",
        "etc",
        "usr/lib/tmpfiles.d",
        "usr/share/evenkeel/etc",
        UNITS,
        *(["var/lib/thing"] if var else []),
    ):
        (root / folder).mkdir(parents=True, exist_ok=True)
    release = root / "usr/lib/os-release"
    if not release.exists():
        release.write_text("ID=poky\n")
    for name in units:
        ours = TOP / "recipes/image/data/rootfs" / UNITS / name
        (root / UNITS / name).write_text(ours.read_text() if ours.exists() else "[Unit]\n")
    for name in ("fstab", "hostname", "hosts"):
        (root / "usr/share/evenkeel/etc" / name).write_text("ours\n")
    for name in boot:
        (root / "boot" / name).write_text(name)
    types = re.search(r'^EVENKEEL_KERNEL_TYPES = "(.*)"$', TEXT, re.MULTILINE)
    assert types
    values = {
        "IMAGE_ROOTFS": str(root),
        "EVENKEEL_INITRAMFS": str(work / "initramfs-board"),
        "EVENKEEL_KERNEL_TYPES": types[1],
        "INITRAMFS_FSTYPES": "cpio.gz",
        "INITRAMFS_IMAGE": "",
        "WORKDIR": str(work),
        "datadir": "/usr/share",
        "localstatedir": "/var",
        "nonarch_libdir": "/usr/lib",
        "sysconfdir": "/etc",
        "systemd_system_unitdir": f"/{UNITS}",
        **more,
    }
    body = re.sub(r"\$\{(\w+)\}", lambda name: values[name[1]], shell_function("evenkeel_settle_rootfs"))
    script = f'bbfatal() {{ echo "ERROR: $*" >&2; exit 1; }}\n{body}'
    return subprocess.run(["sh", "-e", "-c", script], capture_output=True, text=True)


@pytest.mark.parametrize(
    ("boot", "kernel"),
    [
        (["bzImage-6.12.80-evenkeel"], "bzImage-6.12.80-evenkeel"),
        # a machine with KERNEL_IMAGETYPES:append = " Image"
        (["Image.gz-6.18.39", "Image-6.18.39", "fitImage-6.18.39"], "Image-6.18.39"),
    ],
)
def test_kernel_that_grub_loads_is_named_vmlinuz(tmp_path: Path, boot: list[str], kernel: str) -> None:
    done = settle(tmp_path, boot)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "root/boot/vmlinuz").read_text() == kernel


def test_kernel_that_grub_cannot_load_is_refused(tmp_path: Path) -> None:
    done = settle(tmp_path, ["Image.gz-6.18.39", "fitImage-6.18.39"])
    assert done.returncode == 1
    assert "the image has none of bzImage Image in /boot: install kernel-image" in done.stderr


def test_programs_ask_the_resolver_in_both_images(tmp_path: Path) -> None:
    """The file of systemd-resolved that OE-Core would link has no names in .local."""
    link = "../run/systemd/resolve/stub-resolv.conf"
    (tmp_path / "root/etc").mkdir(parents=True)
    (tmp_path / "root/etc/resolv.conf").symlink_to("../run/systemd/resolve/resolv.conf")
    assert settle(tmp_path, ["bzImage-6.12.80"]).returncode == 0
    assert str((tmp_path / "root/etc/resolv.conf").readlink()) == link
    build = (TOP / "recipes/image/src/build").read_text()
    assert f'\nln -sf {link} "$tree/etc/resolv.conf"\n' in build


def test_folders_of_packages_in_var_are_created_on_the_board(tmp_path: Path) -> None:
    """This also works if do_image runs again on the same root file system, whose /var is then already empty."""
    made = tmp_path / "root/usr/lib/tmpfiles.d/evenkeel-var.conf"
    assert settle(tmp_path, ["bzImage-6.12.80"]).returncode == 0
    once = made.read_text()
    assert "d /var/lib/thing 0755 " in once
    assert list((tmp_path / "root/var").iterdir()) == []
    assert settle(tmp_path, ["bzImage-6.12.80"], var=False).returncode == 0
    assert made.read_text() == once


def test_files_of_packages_in_var_are_copied_on_the_board(tmp_path: Path) -> None:
    """The board gets files that packages have in /var, with their modes, but not files that the build left there."""
    thing = tmp_path / "root/var/lib/thing/seed.db"
    for file in (thing, tmp_path / "root/var/lib/opkg/info/thing.list", tmp_path / "root/var/log/build.log"):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("seed")
    thing.chmod(0o640)
    done = settle(tmp_path, ["bzImage-6.12.80"])
    assert done.returncode == 0, done.stderr
    factory = tmp_path / "root/usr/share/factory/var"
    kept = factory / "lib/thing/seed.db"
    assert kept.read_text() == "seed"
    assert kept.stat().st_mode & 0o7777 == 0o640
    # Apps must not be able to read a copy of a file that they cannot read in /var.
    assert factory.stat().st_mode & 0o7777 == 0o700
    assert [path for path in factory.rglob("*") if path.is_file()] == [kept]
    lines = (tmp_path / "root/usr/lib/tmpfiles.d/evenkeel-var.conf").read_text().splitlines()
    copied = [line.split() for line in lines if line.startswith("C")]
    assert copied == [["C", "/var/lib/thing/seed.db", "0640", str(os.getuid()), str(os.getgid()), "-"]]
    assert list((tmp_path / "root/var").iterdir()) == []


def test_links_in_var_do_not_lead_out_of_the_image(tmp_path: Path) -> None:
    """The image's /var/tmp may be a link to /tmp. During the build that is the build machine's, and must stay unchanged."""
    outside = tmp_path / "outside/precious"
    outside.parent.mkdir()
    outside.write_text("precious")
    (tmp_path / "root/var").mkdir(parents=True)
    for name in ("tmp", "log", "lib"):
        (tmp_path / "root/var" / name).symlink_to(outside.parent)
    done = settle(tmp_path, ["bzImage-6.12.80"], var=False)
    assert done.returncode == 0, done.stderr
    assert outside.read_text() == "precious"
    lines = (tmp_path / "root/usr/lib/tmpfiles.d/evenkeel-var.conf").read_text().splitlines()
    assert f"L /var/tmp - - - - {outside.parent}" in lines
    assert not (tmp_path / "root/usr/share/factory").exists()


def test_failed_copy_fails_the_build(tmp_path: Path) -> None:
    """If it did not fail, the lines for systemd-tmpfiles would be missing, and the board would have an empty /var."""
    seed = tmp_path / "root/var/lib/thing/seed"
    seed.parent.mkdir(parents=True)
    seed.write_text("seed")
    (tmp_path / "root/usr/share/factory").mkdir(parents=True)
    (tmp_path / "root/usr/share/factory/var").write_text("in the way")
    assert settle(tmp_path, ["bzImage-6.12.80"]).returncode != 0
    assert seed.exists()


def test_name_that_tmpfiles_cannot_express_is_refused(tmp_path: Path) -> None:
    odd = tmp_path / "root/var/lib/thing/100 %"
    odd.parent.mkdir(parents=True)
    odd.write_text("odd")
    done = settle(tmp_path, ["bzImage-6.12.80"])
    assert done.returncode != 0
    assert "100 %: tmpfiles.d cannot name a file with a space" in done.stderr


@pytest.mark.parametrize("bundled", ["", "1"])
def test_initramfs_is_in_the_slot(tmp_path: Path, bundled: str) -> None:
    """A bundled initramfs must also be in the slot: the kernel's package has the kernel without the initramfs."""
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


def test_missing_initramfs_is_named(tmp_path: Path) -> None:
    done = settle(tmp_path, ["Image-6.18.39"], INITRAMFS_IMAGE="initramfs")
    assert done.returncode == 1
    assert "there is no initramfs of any type in INITRAMFS_FSTYPES (cpio.gz)" in done.stderr


def test_image_without_an_initramfs_has_no_initrd(tmp_path: Path) -> None:
    assert settle(tmp_path, ["bzImage-6.12.80"]).returncode == 0
    assert not (tmp_path / "root/boot/initrd").exists()


def test_other_contents_have_another_identity(tmp_path: Path) -> None:
    """slot-good compares os-release to find out whether a slot has a new version."""
    release = tmp_path / "root/usr/lib/os-release"
    found = []
    for content in ("1", "1", "2"):
        release.parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "root/usr/lib/thing").write_text(content)
        assert settle(tmp_path, ["bzImage-6.12.80"]).returncode == 0
        found.append(release.read_text())
    assert re.fullmatch(r"ID=poky\nBUILD_ID=[0-9a-f]{16}\n", found[0])
    assert found[0] == found[1] != found[2]


def test_image_without_evenkeel_board_is_refused(tmp_path: Path) -> None:
    done = settle(tmp_path, ["bzImage-6.12.80"], [])
    assert done.returncode == 1
    assert "install packagegroup-evenkeel" in done.stderr


def test_each_package_brings_its_health_check() -> None:
    """A slot is confirmed if the checks pass that the image has, so an image without the panel needs no change."""
    for folder, name in {
        "recipes/agent": "agent",
        "webui": "webui",
        "recipes/recorder": "recorder",
    }.items():
        (check,) = (TOP / folder / "data/health").iterdir()
        assert f"'data/health/{check.name}'" in (TOP / folder / "meson.build").read_text()
        text = (LAYER / f"recipes-iosched/{name}/evenkeel-{name}.bb").read_text()
        assert "    ${nonarch_libdir}/evenkeel \\\n" in text


def test_var_is_empty_and_created_by_tmpfiles(tmp_path: Path) -> None:
    assert settle(tmp_path, ["bzImage-6.12.80"]).returncode == 0
    assert list((tmp_path / "root/var").iterdir()) == []
    made = (tmp_path / "root/usr/lib/tmpfiles.d/evenkeel-var.conf").read_text().splitlines()
    assert [line.split()[1] for line in made] == ["/var/lib", "/var/lib/thing"]


@pytest.mark.parametrize(
    ("primary", "types", "message"),
    [
        ("bzImage", None, None),
        ("Image", None, None),
        ("Image.gz", " Image", None),
        # a machine that sets no kernel type
        (None, None, None),
        ("fitImage", None, "the kernel of board is a fitImage"),
        ("Image.gz", None, 'KERNEL_IMAGETYPES:append = " Image"'),
    ],
)
def test_machine_whose_kernel_grub_cannot_load_is_refused(
    primary: str | None, types: str | None, message: str | None
) -> None:
    values = {
        "KERNEL_IMAGETYPE": primary,
        "KERNEL_IMAGETYPES": types,
        "EVENKEEL_KERNEL_TYPES": "bzImage Image",
        "MACHINE": "board",
    }
    if message is None:
        when_read(values)
    else:
        with pytest.raises(ValueError, match=re.escape(message)):
            when_read(values)


def when_read(values: dict[str, str | None]) -> dict[str, dict[str, str]]:
    """Run the class's anonymous function. Returns the flags of tasks that it sets: task → flag → value."""
    found = re.search(r"^python \(\) \{\n(.*?)^\}", TEXT, re.MULTILINE | re.DOTALL)
    assert found
    flags: dict[str, dict[str, str]] = {}

    def append(task: str, flag: str, value: str) -> None:
        flags.setdefault(task, {})[flag] = value

    bb = SimpleNamespace(parse=SimpleNamespace(SkipRecipe=ValueError))
    scope: dict[str, object] = {}
    exec(f"def run(bb, d):\n{found[1]}", scope)  # noqa: S102  # text of our own class
    run = scope["run"]
    assert callable(run)
    run(bb, SimpleNamespace(getVar=values.get, appendVarFlag=append))
    return flags


@pytest.mark.parametrize(
    ("values", "flags"),
    [
        ({}, {}),
        ({"INITRAMFS_IMAGE": "small"}, {"depends": " small:do_image_complete"}),
        (
            {"INITRAMFS_IMAGE": "small", "INITRAMFS_MULTICONFIG": "tiny", "BB_CURRENT_MC": "default"},
            {"mcdepends": " mc::tiny:small:do_image_complete"},
        ),
    ],
)
def test_initramfs_is_built_before_the_slot(values: dict[str, str | None], flags: dict[str, str]) -> None:
    """BitBake builds the initramfs before the slot, in this configuration or in a multiconfig of its own."""
    assert when_read(values) == ({"do_rootfs": flags} if flags else {})


def test_each_image_gets_an_sbom(build: Build) -> None:
    """OE-Core writes it by default, and nothing of ours takes it out."""
    values = build.variables(recipe("evenkeel-image"))
    assert "create-spdx" in values["INHERIT_DISTRO"].split()
    assert values["SPDX_VERSION"]
