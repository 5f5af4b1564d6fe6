# SPDX-License-Identifier: Apache-2.0
"""The kernels that guests boot. `make kernel KERNEL=VERSION` puts them below build/."""

from __future__ import annotations

import functools
import hashlib
import re
from dataclasses import dataclass
from pathlib import Path

from lab.model import LabError

TOP = Path(__file__).resolve().parents[3]
_IMAGE = "arch/x86/boot/bzImage"
_VERSION = re.compile(r"\d+\.\d+")
_VARIANT = re.compile(r"\w+")
# the kernel variant with baselines and layers that the board's kernel lacks (conf/kernel/variants)
COMPARISONS = "lab"
_DEPENDS = re.compile(rb"\0depends=([^\0]*)\0")


@functools.cache
def _digest(path: Path, size: int, mtime_ns: int) -> str:
    with path.open("rb") as f:
        return hashlib.file_digest(f, "sha256").hexdigest()


def digest(path: Path) -> str:
    """SHA-256 of a file. The file is read again only if its size or time stamp has changed."""
    stat = path.stat()
    return _digest(path, stat.st_size, stat.st_mtime_ns)


@dataclass(frozen=True)
class Kernel:
    """A kernel in `build`, which is build/VERSION. `variant` names the folder with its objects, such as board or debug."""

    version: str
    build: Path
    variant: str = "board"

    @property
    def image(self) -> Path:
        built = self.build / self.variant / _IMAGE
        return built if built.is_file() else self.build / "bzImage"

    @property
    def is_binary(self) -> bool:
        """True for an unpacked binary kernel of Debian. No module can be built for it."""
        return (self.build / "modules").is_dir() and not (self.build / self.variant).is_dir()

    def module(self, name: str) -> Path:
        """The file of a kernel module. Modules of this project come before the kernel's own. Raises LabError."""
        if self.variant == "board":
            ours = [self.build / f"{name}.ko"]
        else:
            ours = sorted(self.build.glob(f"module-{self.variant}*/**/{name}.ko"))
        theirs = [
            f for d in (self.variant, "modules") for f in sorted((self.build / d).glob(f"**/{name}.ko"))
        ]
        for path in [*ours, *theirs]:
            if path.is_file():
                return path
        if self.is_binary:
            raise LabError(
                f"kernel {self.version} has no module {name}.ko: it is a binary kernel of Debian, for which this project"
                " builds no modules"
            )
        raise LabError(
            f"kernel {self.version} has no module {name}.ko; 'make module KERNEL={self.version}' builds those of this project"
        )

    def has_builtin(self, name: str) -> bool:
        listed = [self.build / self.variant / "modules.builtin", self.build / "modules" / "modules.builtin"]
        pattern = re.compile(rf"/{re.escape(name).replace('_', '[_-]')}\.ko$", re.M)
        return any(f.is_file() and pattern.search(f.read_text()) for f in listed)

    def with_needs(self, names: list[str]) -> dict[str, tuple[Path, list[str]]]:
        """The modules and their dependencies in loading order: file stem → (file, modules to load before it).

        Modules that are built into the kernel are omitted. Raises LabError for an unknown module.
        """
        order: dict[str, tuple[Path, list[str]]] = {}

        def visit(name: str) -> None:
            if name in order:
                return
            try:
                path = self.module(name)
            except LabError:
                alias = name.replace("_", "-")
                if self.has_builtin(name):
                    return
                if alias == name:
                    raise
                path = self.module(alias)
            match = _DEPENDS.search(path.read_bytes())
            needs = [n for n in match.group(1).decode().split(",") if n] if match else []
            for need in needs:
                visit(need)
            order[name] = (path, needs)

        for name in names:
            visit(name)
        return order


def find(version: str, variant: str = "board", top: Path = TOP) -> Kernel:
    """The kernel of that version. The LabError for a missing one lists the existing ones and says how to build it."""
    kernel = Kernel(version, top / "build" / version, variant)
    if not kernel.image.is_file():
        built = sorted(
            p.parent.name for p in (top / "build").glob("*/bzImage") if _VERSION.fullmatch(p.parent.name)
        )
        raise LabError(
            f"no kernel {version!r} below build/; there {'are' if built else 'is'} {', '.join(built) or 'none'}"
            f" ('make module KERNEL=VERSION' builds one; 5.10 is a binary kernel of Debian: 'make kernel KERNEL=5.10')"
        )
    # A variant must have an image of its own. Otherwise the guest would boot another variant's image under its name.
    if variant != "board" and not (
        _VARIANT.fullmatch(variant) and (kernel.build / variant / _IMAGE).is_file()
    ):
        raise LabError(
            f"kernel {version} has no variant {variant!r} in build/{version}"
            f"{'' if variant != COMPARISONS else '; make baselines builds it'}"
        )
    return kernel
