# SPDX-License-Identifier: Apache-2.0
"""A small initramfs for lab guests: busybox, programs with their libraries, modules, a script."""

from __future__ import annotations

import errno
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import IO

from lab.model import LabError

_LIB = re.compile(r"(?:=> )?(/\S+) \(0x")


def libraries(program: Path) -> list[Path]:
    """The shared libraries of a program, as the host's dynamic linker resolves them."""
    out = subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=False).stdout
    return [Path(m.group(1)) for m in _LIB.finditer(out)]


def _copy(source: Path, tree: Path, where: Path) -> None:
    target = tree / where.relative_to("/")
    target.parent.mkdir(parents=True, exist_ok=True)
    if not target.exists():
        shutil.copyfile(source.resolve(), target)
        target.chmod(0o755)


def build(
    out: Path, *, programs: Iterable[str], modules: Iterable[Path], files: Mapping[str, str],
    copies: Mapping[Path, Path] | None = None,
) -> None:  # fmt: skip
    """Write a cpio archive to `out`.

    - `programs`: paths, or names to look up on PATH.
    - `modules`: copied to /modules under their file names.
    - `files`: absolute path in the guest → text. /init and files in /bin are executable.
    - `copies`: absolute path in the guest → file of the host, which is copied with its libraries.

    Raises LabError when an input is missing and OSError when writing fails. Then
    no partial archive is left.
    """
    part = out.with_suffix(".part")
    try:
        with part.open("wb") as stream:
            pack(stream, programs=programs, modules=modules, files=files, copies=copies)
        os.replace(part, out)
    finally:
        part.unlink(missing_ok=True)


def pack(
    stream: IO[bytes], *, programs: Iterable[str], modules: Iterable[Path], files: Mapping[str, str],
    copies: Mapping[Path, Path] | None = None,
) -> None:  # fmt: skip
    """Like build(), but writes to an open file."""
    with tempfile.TemporaryDirectory(prefix="lab-initramfs-") as scratch:
        tree = Path(scratch)
        for d in ("bin", "dev", "proc", "sys", "tmp", "modules"):
            (tree / d).mkdir()
        busybox = shutil.which("busybox")
        if busybox is None:
            raise LabError("busybox is not on PATH (package busybox-static)")
        _copy(Path(busybox), tree, Path("/bin/busybox"))
        (tree / "bin/sh").symlink_to("busybox")
        wanted = dict(copies or {})
        for program in programs:
            found = shutil.which(program)
            if found is None:
                raise LabError(f"program {program!r} is not on PATH")
            wanted[Path("/bin") / Path(program).name] = Path(found)
        for where, source in wanted.items():
            _copy(source, tree, where)
            if source.suffix != ".py":
                for lib in libraries(source):
                    _copy(lib, tree, lib)
        for module in modules:
            if not module.is_file():
                raise LabError(f"kernel module {module} does not exist")
            shutil.copyfile(module, tree / "modules" / module.name)
        for name, text in files.items():
            target = tree / name.lstrip("/")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text)
            if name == "/init" or name.startswith("/bin/"):
                target.chmod(0o755)
        # Equal content must give equal bytes: reports are cached under the archive's hash.
        for path in [tree, *tree.rglob("*")]:
            os.utime(path, (0, 0), follow_symlinks=False)
        names = subprocess.run(
            ["find", ".", "-print0"], cwd=tree, capture_output=True, check=True
        ).stdout.split(b"\0")
        listing = b"\0".join(sorted(n for n in names if n)) + b"\0"
        packed = subprocess.run(
            ["cpio", "--null", "--create", "--format=newc", "--quiet", "--reproducible"],
            cwd=tree, input=listing, stdout=stream, stderr=subprocess.PIPE, check=False,
        )  # fmt: skip
        if packed.returncode:
            message = packed.stderr.decode(errors="replace").strip().splitlines()[-1:] or ["cpio failed"]
            raise OSError(errno.EIO, message[0])
