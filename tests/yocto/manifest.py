# SPDX-License-Identifier: Apache-2.0
"""The manifest of our part of a root file system: files, modes, owners, links, enabled units, kernel options.

Tests use manifests to compare images that were built in two ways. To print a manifest:

    python3 tests/yocto/manifest.py TREE|IMAGE

IMAGE is a disk image or one ext4 slot. Reading it needs debugfs; reading the owners needs root.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import re
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

# OURS matches our paths, relative to the root. NOT_OURS excludes some of them: byte code, which depends on the version
# of Python, and files that the build generates from other packages of an image. Our images have no documentation and
# no headers, so OURS does not match such paths.
OURS = re.compile(
    r"""
    etc/(hostname|hosts|fstab|resolv\.conf|evenkeel(/.*)?|ek-recorder(/.*)?|nginx/conf\.d/evenkeel\.conf)
  | usr/bin/(ek-.*|ekctl|evenkeel.*)
  | usr/lib/libek-(history|recorder|reader)\.so\..*
  | usr/lib/evenkeel(/.*)?
  | usr/lib/(modules-load|sysctl|sysusers|tmpfiles)\.d/(60-)?(evenkeel|ek-recorder).*
  | usr/lib/systemd/(journald|resolved|system|timesyncd)\.conf\.d/60-evenkeel.*
  | usr/lib/systemd/network/60-wired\.network
  | usr/lib/systemd/system/(evenkeel.*|ek-recorder.*)
  | usr/lib/systemd/system/nginx\.service\.d/evenkeel\.conf
  | usr/lib/systemd/system/(data\.mount|systemd-.*|var\.mount)\.d/50-(after-panel|fewer|lower)\.conf
  | usr/lib/systemd/system/multi-user\.target\.wants/evenkeel.*
  | usr/lib/systemd/system-preset/10-evenkeel\.preset
  | usr/lib/udev/rules\.d/60-evenkeel\.rules
  | usr/share/dbus-1/.*evenkeel.*
  | usr/share/evenkeel-panel(/.*)?
  | usr/share/polkit-1/.*evenkeel.*
  | PYTHON/(ek_recorder|evenkeel_agent|evenkeel_api|evenkeel_common|evenkeel_history|evenkeel_pagepool|evenkeel_panel)(/.*)?
    """,
    re.VERBOSE,
)
NOT_OURS = re.compile(
    r"""
    .*/__pycache__(/.*)?
  | usr/lib/tmpfiles\.d/evenkeel-var\.conf
  | usr/lib/evenkeel/debian-packages
    """,
    re.VERBOSE,
)
PYTHON = re.compile(r"usr/lib/python3[^/]*/(dist|site)-packages/")
WANTS = re.compile(r"(etc|usr/lib)/systemd/system/[^/]+\.(wants|requires)/([^/]+)")
# our units, and units of other projects that our preset enables
UNITS = re.compile(
    r"(ek-recorder|evenkeel)[^/]*|nginx\.service|systemd-(networkd|resolved|timesyncd)\.(service|socket)|fstrim\.timer"
)


@dataclass(frozen=True)
class Entry:
    """One path.

    Attributes:
        kind: 'file', 'folder' or 'link'.
        mode: octal; empty for a link.
        owner: 'user:group', by name.
        content: the SHA-256 of a file, or the target of a link. For a program only 'ELF', because its bytes depend on
            the compiler.
    """

    kind: str
    mode: str
    owner: str
    content: str


@dataclass(frozen=True)
class Manifest:
    """Our part of a root file system.

    Attributes:
        files: path → entry; PYTHON/ stands for the folder of Python's modules.
        enabled: units that start at boot.
        masked: units that never start.
        kernel: options that are set; empty if the kernel does not contain its configuration.
    """

    files: dict[str, Entry]
    enabled: frozenset[str]
    masked: frozenset[str]
    kernel: dict[str, str]


def names(tree: Path, table: str) -> dict[int, str]:
    """Number → name, from etc/passwd or etc/group of the tree."""
    path = tree / "etc" / table
    if not path.exists():
        return {}
    return {int(line.split(":")[2]): line.split(":")[0] for line in path.read_text().splitlines() if line}


def entry(path: Path, users: dict[int, str], groups: dict[int, str]) -> Entry:
    status = path.lstat()
    owner = f"{users.get(status.st_uid, status.st_uid)}:{groups.get(status.st_gid, status.st_gid)}"
    if stat.S_ISLNK(status.st_mode):
        return Entry("link", "", owner, str(path.readlink()))
    mode = f"{stat.S_IMODE(status.st_mode):04o}"
    if stat.S_ISDIR(status.st_mode):
        return Entry("folder", mode, owner, "")
    content = path.read_bytes()
    return Entry(
        "file", mode, owner, "ELF" if content[:4] == b"\x7fELF" else hashlib.sha256(content).hexdigest()
    )


def kernel_options(tree: Path) -> dict[str, str]:
    """The options in the configuration that boot/vmlinuz contains (CONFIG_IKCONFIG); empty if there is none."""
    kernel = tree / "boot/vmlinuz"
    if not kernel.exists():
        return {}
    image = kernel.read_bytes()
    # Behind the boot code is the kernel, compressed by zstd or gzip. Try each place where the magic number is.
    for magic, tool in ((b"\x28\xb5\x2f\xfd", "zstd"), (b"\x1f\x8b\x08", "gzip")):
        at = image.find(magic)
        while at >= 0:
            plain = subprocess.run([tool, "-dcq"], input=image[at:], capture_output=True).stdout
            start = plain.find(b"IKCFG_ST\x1f\x8b")
            if start >= 0:
                text = gzip.decompress(plain[start + 8 : plain.index(b"IKCFG_ED", start)]).decode()
                # Leave out options that describe the compiler: they differ between builders.
                found = re.findall(r"^(CONFIG_\w+)=(.+)$", text, re.MULTILINE)
                builder = re.compile(r"CONFIG_(CC_|GCC_|LD_|AS_|PAHOLE_|RUSTC?_|CLANG_|TOOLS_|HAVE_|ARCH_)")
                return {name: value for name, value in found if not builder.match(name)}
            at = image.find(magic, at + 1)
    return {}


def read_tree(tree: Path) -> Manifest:
    """The manifest of an unpacked root file system.

    Raises ValueError if no path is ours: then it is not one of our images.
    """
    users, groups = names(tree, "passwd"), names(tree, "group")
    files, enabled, masked = {}, set(), set()
    for folder, folders, found in os.walk(tree):
        for name in [*folders, *found]:
            path = Path(folder) / name
            inside = str(path.relative_to(tree))
            wanted = WANTS.fullmatch(inside)
            if wanted and UNITS.fullmatch(wanted[3]):
                enabled.add(wanted[3])
            if (
                inside == f"etc/systemd/system/{name}"
                and path.is_symlink()
                and str(path.readlink()) == "/dev/null"
            ):
                masked.add(name)
            shown = PYTHON.sub("PYTHON/", inside)
            if OURS.fullmatch(shown) and not NOT_OURS.fullmatch(shown):
                files[shown] = entry(path, users, groups)
    if not files:
        raise ValueError(f"{tree}: contains no file of Evenkeel; is it one of our images?")
    return Manifest(files, frozenset(enabled), frozenset(masked), kernel_options(tree))


def slot_offset(image: Path) -> int:
    """Offset of the first slot in a disk image, in bytes; 0 if the image is a single slot."""
    table = subprocess.run(["sfdisk", "-J", image], capture_output=True, text=True)
    if table.returncode:
        return 0
    parts = json.loads(table.stdout)["partitiontable"]["partitions"]
    found = [part["start"] * 512 for part in parts if part.get("name") == "root-a"]
    if len(found) != 1:
        raise ValueError(f"{image}: expected one partition named root-a, found {len(found)}")
    return int(found[0])


@contextmanager
def unpacked(image: Path) -> Iterator[Path]:
    """Extract the first slot of an image to a temporary folder. The files get their owners only if root does this."""
    with tempfile.TemporaryDirectory() as work:
        tree = Path(work) / "tree"
        tree.mkdir()
        where = f"{image}?offset={slot_offset(image)}"
        done = subprocess.run(["debugfs", "-R", f"rdump / {tree}", where], capture_output=True, text=True)
        if not any(tree.iterdir()):
            raise ValueError(f"{image}: debugfs extracted nothing from the first slot: {done.stderr.strip()}")
        yield tree


def read(path: Path) -> Manifest:
    """The manifest of a folder or of an image."""
    if path.is_dir():
        return read_tree(path)
    with unpacked(path) as tree:
        return read_tree(tree)


def lines(manifest: Manifest) -> list[str]:
    """A manifest as sorted lines, to read or compare."""
    out = [
        f"{item.kind:6} {item.mode:4} {item.owner:24} {path} {item.content[:16]}".rstrip()
        for path, item in manifest.files.items()
    ]
    out += [f"enabled {unit}" for unit in manifest.enabled]
    out += [f"masked {unit}" for unit in manifest.masked]
    out += [f"kernel {name}={value}" for name, value in manifest.kernel.items()]
    return sorted(out)


if __name__ == "__main__":
    print("\n".join(lines(read(Path(sys.argv[1])))))
