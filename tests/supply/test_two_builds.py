# SPDX-License-Identifier: Apache-2.0
"""Two builds give the same bytes: a clone in another folder builds the image again, under other conditions.

The sources of the second clone are in a tmpfs. Their files were created in a random order, with random times and a strict
umask. The build has another time zone, language and user. It fetches the scripts of the panel and the list of passwords again,
and builds the kernel modules again. With DEEP=1 it has an empty cache, so it also installs the Debian root and builds the
kernel again. Only the build root is shared. DEEP=1 needs about half an hour, and a mirror of Debian.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from built import IMAGE, TOP
from sample import DEEP, SEED

FILES = ("img", "bmap", "spdx.json", "licences.txt", "licences.tar.xz", "kernel-files")
WORK = TOP / "build/supply"
# conditions of the second build that must not matter
CONDITIONS = {"TZ": "Asia/Tokyo", "LANG": "C", "USER": "other", "LOGNAME": "other"}
REPORT = 40  # differing files or lines that a failure names


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of all files that git tracks, as they are in the work tree."""
    chance = random.Random(SEED)  # noqa: S311 no secret
    names = subprocess.run(
        ["git", "-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=TOP, capture_output=True, text=True, check=True,
    ).stdout.split("\0")  # fmt: skip
    chance.shuffle(names)
    target = tmp_path_factory.mktemp("another") / "folder with a longer name".replace(" ", "-")
    before = os.umask(0o077)
    try:
        for name in filter(None, names):
            if not (TOP / name).is_file():
                continue
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(TOP / name, target / name, follow_symlinks=False)
            if os.access(TOP / name, os.X_OK):
                (target / name).chmod(0o700)
            when = chance.randrange(10**9, 17 * 10**8)
            os.utime(target / name, (when, when), follow_symlinks=False)
    finally:
        os.umask(before)
    return target


@pytest.fixture(scope="module")
def again(clone: Path) -> Path:
    """The folder of the second image."""
    shutil.rmtree(WORK, ignore_errors=True)
    ours, build = WORK / "cache", WORK / "build"
    ours.mkdir(parents=True)
    build.mkdir()
    (clone / "build").symlink_to(build)  # results are too large for a tmpfs
    cache = Path(os.environ["EVENKEEL_CACHE"])
    if not DEEP:
        # Debian root, source and objects of the kernel
        for path in cache.glob("*"):
            if re.match(r"root-|linux-|kernel-board-", path.name) and path.suffix != ".lock":
                (ours / path.name).symlink_to(path)
    keyring = IMAGE / "keyring.pem"
    environment = {k: v for k, v in os.environ.items() if not k.startswith("MAKE") and k != "MFLAGS"}
    done = subprocess.run(
        [
            *("make", "image", f"EVENKEEL_CACHE={ours}", f"EVENKEEL_TOOLROOT={os.environ['EVENKEEL_TOOLROOT']}"),
            f"KEYRING={keyring if keyring.stat().st_size else 'none'}",
        ],
        cwd=clone, env=environment | CONDITIONS, umask=0o077,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-4000:]
    return clone / "build/image"


@pytest.mark.parametrize("kind", FILES)
def test_the_second_build_has_the_same_bytes(again: Path, kind: str, tmp_path: Path) -> None:
    name = f"evenkeel-x86_64.{kind}"
    if subprocess.run(["cmp", "-s", IMAGE / name, again / name], check=False).returncode:
        pytest.fail(f"{name} differs:\n{difference(IMAGE / name, again / name, tmp_path)}")


def test_a_bundle_of_the_second_build_has_the_same_contents(again: Path, tmp_path: Path) -> None:
    """A signature has its time, and the hash tree of a bundle begins with random bytes. So the contents are compared."""
    keys = tmp_path / "keys"
    subprocess.run([TOP / "recipes/update/src/keys", "new", keys], check=True, capture_output=True)
    more = {"RAUC_KEY_FILE": f"{keys}/sign.key.pem", "RAUC_CERT_FILE": f"{keys}/sign.cert.pem"}
    contents = []
    for number, folder in enumerate((IMAGE, again)):
        out = tmp_path / f"{number}.raucb"
        subprocess.run(
            [TOP / "recipes/image/src/bundle", folder / "evenkeel-x86_64.img", "1.0.0", out],
            check=True, capture_output=True, env=os.environ | more | {"EVENKEEL_BUNDLE_LEVEL": "1"},
        )  # fmt: skip
        contents.append(squashfs(out))
    assert contents[0] == contents[1]


def squashfs(bundle: Path) -> bytes:
    """The file system at the beginning of a bundle."""
    data = bundle.read_bytes()
    assert data[:4] == b"hsqs"
    return data[: int.from_bytes(data[40:48], "little")]  # bytes_used of the superblock


def difference(one: Path, other: Path, work: Path) -> str:
    """Where two files differ: lines of text, or files in the root file systems of images."""
    if one.suffix != ".img":
        done = subprocess.run(
            ["diff", "-u", one, other], capture_output=True, text=True, errors="replace", check=False
        )
        return "\n".join(done.stdout.splitlines()[:REPORT])
    trees = []
    for number, image in enumerate((one, other)):
        listing = subprocess.run(
            ["sfdisk", "--json", image], capture_output=True, text=True, check=True
        ).stdout
        found = re.search(
            r'"start": (\d+),\s+"size": (\d+),(?:(?!start).)*?"name": "root-a"', listing, re.DOTALL
        )
        assert found
        root = work / f"{number}.ext4"
        command = [
            "dd",
            f"if={image}",
            f"of={root}",
            "bs=512",
            f"skip={found[1]}",
            f"count={found[2]}",
            "status=none",
        ]
        subprocess.run([*command, "conv=sparse"], check=True)
        subprocess.run(["debugfs", "-R", f"rdump / {work}/{number}", root], capture_output=True, check=True)
        trees.append(work / str(number))
    command = ["diff", "-rq", "--no-dereference", *map(str, trees)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return "\n".join(done.stdout.splitlines()[:REPORT]) or "only outside of the files of root-a"
