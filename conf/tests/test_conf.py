# SPDX-License-Identifier: Apache-2.0
"""Parse every file in conf/, and check that the file has the effect that its comments describe."""

from __future__ import annotations

import configparser
import fnmatch
import os
import re
import shlex
import shutil
import subprocess
import tomllib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

CONF = Path(__file__).resolve().parent.parent
RULES = CONF / "udev/rules.d/60-evenkeel.rules"
SYSCTL = sorted((CONF / "sysctl.d").glob("*.conf"))
UNITS = sorted(p for p in (CONF / "systemd").rglob("*") if p.is_file())
# an empty value of these keys replaces a default of the distribution
MAY_BE_EMPTY = {"FallbackDNS"}


@dataclass
class Setting:
    """One line of a sysctl.d file."""

    key: str
    value: str
    comment: str
    optional: bool


def sysctls(*files: Path) -> list[Setting]:
    """The settings in the order of the lines. A comment belongs to all lines up to the next blank line or comment."""
    found: list[Setting] = []
    comment: list[str] = []
    after_setting = False
    for line in [line for path in files or SYSCTL for line in ["", *path.read_text().splitlines()]]:
        if line.startswith("#"):
            if after_setting:
                comment = []
            if not line.startswith("##"):
                comment.append(line.lstrip("# "))
            after_setting = False
        elif not line:
            comment = []
        else:
            key, equals, value = line.partition(" = ")
            assert equals, f"not KEY = VALUE: {line}"
            found.append(Setting(key.lstrip("-"), value, " ".join(comment), key.startswith("-")))
            after_setting = True
    return found


@pytest.mark.parametrize("setting", sysctls(), ids=lambda s: s.key)
def test_every_sysctl_has_a_reason(setting: Setting) -> None:
    assert re.fullmatch(r"(vm|kernel|fs|net|dev)(\.[a-z0-9_]+)+", setting.key)
    assert re.fullmatch(r"\d+", setting.value)
    assert len(setting.comment) > 20, f"{setting.key} has no reason"


def test_no_sysctl_twice() -> None:
    keys = [s.key for s in sysctls()]
    assert len(keys) == len(set(keys))


def test_writeback_has_a_file_of_its_own() -> None:
    """A product that takes only the scheduler gets this file, and keeps its own settings for panics and hardening."""
    keys = {s.key.partition(".")[0] for s in sysctls(CONF / "sysctl.d/60-evenkeel.conf")}
    assert keys == {"vm"}
    assert "vm" not in {s.key.partition(".")[0] for s in sysctls(CONF / "sysctl.d/60-evenkeel-board.conf")}


def test_writeback_limits_fit_each_other() -> None:
    value = {s.key: int(s.value) for s in sysctls()}
    # a slow card, at 20 MB/s, writes this much in at most 4 s
    assert value["vm.dirty_bytes"] <= 4 * 20_000_000
    # 500 is the kernel's default of dirty_writeback_centisecs, which conf/ does not change
    assert value.get("vm.dirty_writeback_centisecs", 500) < value["vm.dirty_expire_centisecs"]


@dataclass
class Device:
    """The properties of a block device that udev rules can match."""

    name: str
    action: str = "add"
    subsystem: str = "block"
    devtype: str = "disk"
    attrs: dict[str, str] = field(default_factory=dict)

    def get(self, key: str) -> str | None:
        """The device's value for the match key `key` of a rule; None if the device has no such attribute."""
        if key.startswith("ATTR{"):
            default = {"queue/scheduler": "[mq-deadline] none", "queue/rotational": "0"}
            return (default | self.attrs).get(key[5:-1])
        return {
            "ACTION": self.action,
            "SUBSYSTEM": self.subsystem,
            "KERNEL": self.name,
            "ENV{DEVTYPE}": self.devtype,
        }[key]


TERM = re.compile(r'([A-Z]+(?:\{[^}]+\})?)(==|!=|=)"([^"]*)"')


def rules() -> list[list[tuple[str, str, str]]]:
    """Each rule as its terms (key, operator, value)."""
    parsed = []
    for number, line in enumerate(RULES.read_text().splitlines(), 1):
        if not line or line.startswith("#"):
            continue
        terms = []
        for text in re.split(r",\s*", line):
            match = TERM.fullmatch(text)
            assert match, f"line {number}: {text!r} is not KEY OPERATOR VALUE"
            terms.append((match[1], match[2], match[3]))
        parsed.append(terms)
    return parsed


def written(device: Device) -> dict[str, str]:
    """The attributes that the rules write for the device.

    The function interprets only the part of udev's language that the file uses.
    """
    out: dict[str, str] = {}
    label: str | None = None
    for rule in rules():
        if label is not None:
            if ("LABEL", "=", label) not in rule:
                continue
            label = None
        goto = None
        for key, operator, value in rule:
            if operator == "=":
                if key == "GOTO":
                    goto = value
                elif key.startswith("ATTR{"):
                    out[key[5:-1]] = value
                else:
                    assert key == "LABEL", f"this test's interpreter does not know {key}"
                continue
            have = device.get(key)
            hit = have is not None and any(fnmatch.fnmatchcase(have, p) for p in value.split("|"))
            if hit != (operator == "=="):
                break
        else:
            label = goto
    assert label is None, f"GOTO {label}: there is no such label"
    return out


@pytest.mark.parametrize(
    "device",
    [
        Device("mmcblk0"),
        Device("mmcblk12"),
        Device("nvme0n1"),
        Device("nvme1n12"),
        Device("nvme10n1"),
        Device("sda"),
        Device("sdaa"),
        Device("vda"),
        Device("vdb", attrs={"queue/rotational": "1"}),
        Device("nullb0"),
        Device("sda", attrs={"queue/scheduler": "[none] mq-deadline kyber"}),
        # a USB stick
        Device("sdb", attrs={"queue/rotational": "1", "removable": "1"}),
    ],
    ids=lambda d: d.name,
)
def test_flash_gets_evenkeel_and_nothing_else(device: Device) -> None:
    assert written(device) == {"queue/scheduler": "evenkeel"}


@pytest.mark.parametrize(
    "device",
    [
        Device("mmcblk0boot0"),
        Device("mmcblk0boot1"),
        Device("mmcblk0rpmb"),
        Device("mmcblk0gp0"),
        Device("mmcblk0p1", devtype="partition"),
        Device("nvme0c0n1"),
        Device("nvme0n1p1", devtype="partition"),
        Device("nvme0n1", attrs={"queue/scheduler": "none"}),
        Device("nvme0", subsystem="nvme"),
        Device("sda", attrs={"queue/rotational": "1", "removable": "0"}),
        Device("sda1", devtype="partition"),
        Device("vda2", devtype="partition"),
        Device("loop0"),
        Device("dm-0"),
        Device("md0"),
        Device("zram0"),
        Device("ram0"),
        Device("nbd0"),
        Device("sr0"),
        Device("vda", action="change"),
        Device("vda", action="remove"),
    ],
    ids=lambda d: f"{d.name}-{d.action}-{d.subsystem}",
)
def test_everything_else_is_left_alone(device: Device) -> None:
    assert written(device) == {}


def test_udevadm_accepts_the_rules() -> None:
    if not shutil.which("udevadm"):
        pytest.skip("udevadm is missing (package udev)")
    out = subprocess.run(["udevadm", "verify", str(RULES)], capture_output=True, text=True, check=False)
    if "Unknown command verb" in out.stderr:
        pytest.skip("udevadm is older than `verify` (systemd 254)")
    assert out.returncode == 0, out.stdout + out.stderr


@pytest.mark.parametrize("path", UNITS, ids=lambda p: p.name)
def test_systemd_files_parse(path: Path) -> None:
    parser = configparser.ConfigParser(strict=True, interpolation=None, delimiters=("=",))
    parser.optionxform = str  # type: ignore[method-assign,assignment]
    parser.read_string(path.read_text())
    assert parser.sections()
    for section in parser.sections():
        for key, value in parser[section].items():
            assert re.fullmatch(r"[A-Z][A-Za-z0-9]+", key), key
            assert value or key in MAY_BE_EMPTY, f"{key} is empty"


def test_units_count_io_and_memory() -> None:
    """These two settings give every unit a group of its own. tests/boot shows the effect on a board."""
    text = (CONF / "systemd/system.conf.d/60-evenkeel-accounting.conf").read_text()
    assert "\nDefaultIOAccounting=yes\n" in text
    assert "\nDefaultMemoryAccounting=yes\n" in text


def test_slice_satisfies_systemd() -> None:
    if not shutil.which("systemd-analyze"):
        pytest.skip("systemd-analyze is missing (package systemd)")
    out = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(CONF / "systemd/system/evenkeel-apps.slice")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert out.returncode == 0, out.stderr
    assert "evenkeel-apps.slice" not in out.stderr


def test_example_app_is_valid() -> None:
    app = tomllib.loads((CONF / "apps.d/README").read_text())
    assert set(app) == {"title", "description", "unit", "weight", "stats", "priority_directories"}
    assert 1 <= len(app["title"]) <= 40
    assert app["unit"].endswith((".service", ".scope", ".slice"))
    assert 1 <= app["weight"] <= 10000


def test_every_app_here_is_valid_toml() -> None:
    for path in (CONF / "apps.d").glob("*.toml"):
        assert re.fullmatch(r"[a-z0-9][a-z0-9-]{0,31}", path.stem)
        tomllib.loads(path.read_text())


def mkfs_options(name: str) -> list[str]:
    lines = (CONF / "mkfs" / name).read_text().splitlines()
    return [word for line in lines if not line.startswith("#") for word in line.split()]


def superblock(image: Path) -> dict[str, str]:
    out = subprocess.run(["dumpe2fs", "-h", str(image)], capture_output=True, text=True, check=True).stdout
    return {key: value.strip() for key, _, value in (line.partition(":") for line in out.splitlines())}


needs_mke2fs = pytest.mark.skipif(
    not (shutil.which("mke2fs") and shutil.which("dumpe2fs")),
    reason="mke2fs is missing (package e2fsprogs)",
)


# 128 MiB and 640 MiB, because mke2fs has other defaults for partitions below 512 MiB
@needs_mke2fs
@pytest.mark.parametrize("mib", [128, 640])
def test_mkfs_options_have_the_documented_effect(tmp_path: Path, mib: int) -> None:
    image = tmp_path / "recorder.ext4"
    command = ["mke2fs", "-q", "-t", "ext4", *mkfs_options("recorder"), str(image), f"{mib}M"]
    subprocess.run(command, check=True)
    found = superblock(image)
    assert {"has_journal", "extent"} <= set(found["Filesystem features"].split())
    # EKR_BLOCK of recipes/recorder/src/format.h: each of the recorder's blocks is one block of the file system
    assert found["Block size"] == "4096"
    assert found["Reserved block count"] == "0"
    assert found["Inode count"] == str((mib << 20) // (256 << 10))
    assert found["Inode size"] == "256"
    assert found["Total journal size"] == "4096k"


DEBIAN_IMAGE = CONF.parent / "recipes/image/src/build"
YOCTO_IMAGE = CONF.parent / "meta-iosched/classes-recipe/evenkeel_image.bbclass"


def made_by_the_debian_image(rootfs: Path, image: Path, mib: int) -> None:
    text = DEBIAN_IMAGE.read_text()
    function = re.search(r"^ext4_of_conf\(\) \{\n.*?^\}$", text, re.MULTILINE | re.DOTALL)
    call = re.search(r"^ext4_of_conf recorder\.ext4 \S+ (\S+) (recorder)$", text, re.MULTILINE)
    assert function
    assert call
    script = f"set -eu\n{function[0]}\next4_of_conf {image.name} {mib}M {call[1]} {call[2]}"
    env = {"PATH": os.environ["PATH"], "tree": str(rootfs), "work": str(rootfs), "images": str(image.parent)}
    subprocess.run(["sh", "-c", script], env=env, check=True)


def made_by_yocto(rootfs: Path, image: Path, mib: int) -> None:
    commands = re.search(
        r"^    options=\$\{IMAGE_ROOTFS\}[^\n]*mkfs/recorder\n.*?(?=^\}$)",
        YOCTO_IMAGE.read_text(),
        re.MULTILINE | re.DOTALL,
    )
    assert commands
    env = {
        "PATH": os.environ["PATH"],
        "IMAGE_ROOTFS": str(rootfs),
        "nonarch_libdir": "/usr/lib",
        "EVENKEEL_PARTITIONS": str(image.parent),
        "EVENKEEL_RECORDER_MB": str(mib),
    }
    subprocess.run(["sh", "-euc", commands[0]], env=env, check=True)


@needs_mke2fs
@pytest.mark.parametrize("make", [made_by_the_debian_image, made_by_yocto])
def test_both_builders_use_these_mkfs_options(
    tmp_path: Path, make: Callable[[Path, Path, int], None]
) -> None:
    """Each builder's own command makes the same file system as mke2fs with the options of the installed file."""
    installed = tmp_path / "rootfs/usr/lib/evenkeel"
    installed.mkdir(parents=True)
    shutil.copytree(CONF / "mkfs", installed / "mkfs")
    image, by_hand = tmp_path / "recorder.ext4", tmp_path / "by-hand.ext4"
    make(tmp_path / "rootfs", image, 128)
    subprocess.run(
        ["mke2fs", "-q", "-t", "ext4", *mkfs_options("recorder"), str(by_hand), "128M"], check=True
    )
    # fields that each builder sets for itself: label, identifiers, times and the checksum over them
    own = re.compile("UUID|Hash Seed|created|write time|Last checked|volume name|Checksum|checksum|Lifetime")
    expected, found = (
        {key: value for key, value in superblock(path).items() if not own.search(key)}
        for path in (by_hand, image)
    )
    assert found == expected
    assert superblock(image)["Filesystem volume name"] == "recorder"


@pytest.mark.parametrize(
    ("interface", "matches"),
    [("enp1s0", True), ("end0", True), ("eth0", True), ("br0", False), ("veth1a2b", False), ("lo", False)],
)
def test_only_wired_interfaces_match(interface: str, matches: bool) -> None:
    text = (CONF / "systemd/network/60-wired.network").read_text()
    match = re.search(r"^Name=(.*)$", text, re.MULTILINE)
    assert match
    assert any(fnmatch.fnmatchcase(interface, pattern) for pattern in match[1].split()) == matches


def test_recorder_partition_belongs_to_the_recorder() -> None:
    users = (CONF.parent / "recipes/recorder/data/ek-recorder.sysusers").read_text()
    owner = re.search(r"^u\s+ek-recorder\s+(\d+):ek-record\s", users, re.MULTILINE)
    group = re.search(r"^g\s+ek-record\s+(\d+)$", users, re.MULTILINE)
    assert owner
    assert group
    assert f"root_owner={owner[1]}:{group[1]}" in " ".join(mkfs_options("recorder"))


def test_everything_is_installed() -> None:
    build = (CONF / "meson.build").read_text()
    sources = {
        m for line in re.findall(r"install_data\((.*)", build) for m in shlex.split(line.replace(",", " "))
    }
    for folder in ("mkfs", "sysctl.d", "udev", "systemd", "apps.d"):
        for path in (CONF / folder).rglob("*"):
            if path.is_file():
                assert str(path.relative_to(CONF)) in sources


def test_every_file_names_its_licence() -> None:
    for path in CONF.rglob("*"):
        if path.is_file() and "__pycache__" not in path.parts and not path.name.startswith("."):
            assert "SPDX-License-Identifier:" in "\n".join(path.read_text().splitlines()[:3]), path


def test_the_board_answers_to_its_name_by_mdns_only() -> None:
    """mDNS needs both files: resolved answers on an interface only if the settings of the interface allow it, too."""
    for name, section in (
        ("network/60-wired.network", "Network"),
        ("resolved.conf.d/60-evenkeel.conf", "Resolve"),
    ):
        text = (CONF / "systemd" / name).read_text()
        body = text[text.index(f"[{section}]") :]
        assert "\nMulticastDNS=yes\n" in body
        assert "\nLLMNR=no\n" in body


def test_no_dns_server_of_a_third_party_is_asked() -> None:
    text = (CONF / "systemd/resolved.conf.d/60-evenkeel.conf").read_text()
    assert re.findall(r"^(?:Fallback)?DNS=(.*)$", text, re.MULTILINE) == [""]
