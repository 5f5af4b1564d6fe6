# SPDX-License-Identifier: Apache-2.0
"""The items of an image: Debian's packages, kernel, boot loader, Evenkeel's components, the scripts of the panel."""

from __future__ import annotations

import base64
import json
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from . import SupplyError, debian, licences

TOP = Path(__file__).resolve().parents[4]
# dpkg's list of packages, where the image keeps it
STATUS = "usr/lib/evenkeel/debian-packages"


@dataclass
class Item:
    """One entry of the SBOM."""

    name: str
    version: str
    purl: debian.Purl
    licence: licences.Licence
    kind: str  # for people: "Debian package", "kernel", …
    supplier: str  # SPDX: "Organization: …"
    texts: dict[str, bytes] = field(default_factory=dict)  # path in the archive of licence texts → contents
    source: debian.Purl | None = None  # the source package of Debian from which it is made
    built_using: list[debian.Purl] = field(
        default_factory=list
    )  # other source packages of which it has parts
    summary: str = ""
    homepage: str = ""
    depends: list[str] = field(default_factory=list)  # names of other items of the same kind
    checksum: tuple[str, str] | None = None  # algorithm, hexadecimal digits
    in_root: bool = True  # in the root file system, not only in the disk image
    comment: str = ""


DEBIAN = "Organization: Debian"
EVENKEEL = "Organization: Evenkeel"


def read(path: Path) -> str:
    """The text of a file. Raises SupplyError if it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise SupplyError(f"cannot read {path}: {error.strerror}") from error


def codename(tree: Path) -> str:
    """The codename of the Debian release in the root file system."""
    found = re.search(r"^VERSION_CODENAME=(\w+)$", read(tree / "usr/lib/os-release"), re.MULTILINE)
    if not found:
        raise SupplyError(f"{tree}/usr/lib/os-release has no VERSION_CODENAME")
    return found[1]


def debian_packages(tree: Path) -> Iterator[Item]:
    """All packages of Debian in the root file system `tree`, with their copyright files."""
    packages = debian.installed(read(tree / STATUS))
    depends = debian.dependencies(packages)
    release = codename(tree)
    for each in packages:
        text = read(tree / "usr/share/doc" / each.name / "copyright")
        item = _package(each, text, release, "Debian package")
        item.depends = depends[each.name]
        yield item


def _package(each: debian.Package, copyright_file: str, release: str, kind: str) -> Item:
    return Item(
        each.name,
        each.version,
        debian.deb_purl(each.name, each.version, each.architecture, release),
        licences.of_copyright(each.source, copyright_file),
        kind,
        DEBIAN,
        {f"debian/{each.name}/copyright": copyright_file.encode()},
        debian.deb_purl(each.source, each.source_version, "source", release),
        [debian.deb_purl(name, version, "source", release) for name, version in each.built_using],
        each.summary,
        each.homepage,
    )


def common_licences(tree: Path) -> dict[str, bytes]:
    """The licences to which copyright files refer: path in the archive of texts → contents."""
    folder = tree / "usr/share/common-licenses"
    return {f"debian/common-licenses/{path.name}": path.read_bytes() for path in sorted(folder.iterdir())}


def of_build_root(name: str) -> debian.Package:
    """A package that is installed in the build root."""
    status = _output("dpkg-query", "--status", name).decode()
    return debian.package(next(debian.paragraphs(status)))


def boot_loader(release: str) -> Item:
    """GRUB, of which the disk image has a file that is made from modules of the build root."""
    each = of_build_root("grub-efi-amd64-bin")
    item = _package(each, read(Path("/usr/share/doc", each.name, "copyright")), release, "boot loader")
    item.comment = "EFI/BOOT/BOOTX64.EFI is made of modules of this package."
    item.in_root = False
    return item


def kernel(objects: Path, version: str, release: str) -> Item:
    """The kernel that was built in `objects` from Debian's source package linux. If `version` is empty, the build root has
    the package with its source."""
    name = read(objects / "include/config/kernel.release").strip()
    if not version:
        series = ".".join(name.split(".")[:2])
        version = of_build_root(f"linux-source-{series}").source_version
    tree = objects / "source"
    texts = ("COPYING", "LICENSES/preferred/GPL-2.0", "LICENSES/exceptions/Linux-syscall-note")
    return Item(
        "linux",
        name,
        debian.Purl("generic", "linux", name),
        licences.plain("GPL-2.0-only WITH Linux-syscall-note"),
        "kernel",
        EVENKEEL,
        {f"linux/{path}": read(tree / path).encode() for path in texts},
        debian.deb_purl("linux", version, "source", release),
        summary="Linux kernel",
        comment="Built from Debian's source package with the options of conf/kernel.",
    )


def data_package(deb: Path, release: str) -> Item:
    """A package of Debian that is not installed, but from which a component takes data."""
    each = debian.package(next(debian.paragraphs(_output("dpkg-deb", "-f", str(deb)).decode())))
    archive = _output("dpkg-deb", "--fsys-tarfile", str(deb))
    text = _output("tar", "-xO", f"./usr/share/doc/{each.name}/copyright", given=archive)
    item = _package(each, text.decode(), release, "data")
    item.comment = "A component takes data of this package; none of its programs is in the image."
    return item


def _output(*command: str, given: bytes = b"") -> bytes:
    done = subprocess.run(command, input=given, capture_output=True, check=False)
    if done.returncode:
        raise SupplyError(f"{' '.join(command)}: {done.stderr.decode().strip()}")
    return done.stdout


def npm_packages(lock: Path) -> Iterator[Item]:
    """The packages of npm's lock file `lock`. Their licence texts are next to it, as NAME.LICENSE."""
    texts = {path.stem.lower(): path.read_bytes() for path in lock.parent.glob("*.LICENSE")}
    for path, entry in sorted(json.loads(read(lock))["packages"].items()):
        if not path:
            continue
        name = path.rpartition("node_modules/")[2]
        text = texts.get(name.partition(".")[0].lower())
        if text is None:
            raise SupplyError(f"{lock.parent} has no licence text of the npm package {name}")
        algorithm, _, digest = entry["integrity"].partition("-")
        yield Item(
            name,
            entry["version"],
            debian.Purl("npm", name, entry["version"]),
            licences.plain(entry["license"]),
            "script",
            f"Organization: {name}",
            {f"npm/{name}/LICENSE": text},
            checksum=(algorithm.upper(), base64.b64decode(digest).hex()),
            comment="A script of the panel's pages. The checksum is that of the npm package.",
        )


# SPDX identifiers of a file, in its first lines
TAG = re.compile(r"SPDX-License-Identifier: ([A-Za-z0-9.+ -]+?)\s*(?:\*/|#\}|-->|$)", re.MULTILINE)


def component(folder: Path) -> Item:
    """A component of Evenkeel. Its licence is what the heads of its files name."""
    heading = re.search(r"^# (\S+): (.*)$", read(folder / "README.md"), re.MULTILINE)
    if not heading:
        raise SupplyError(f"{folder}/README.md has no heading '# NAME: SUMMARY'")
    tags: set[str] = set()
    for path in folder.rglob("*"):
        inner = path.relative_to(folder).parts
        if (
            path.is_file()
            and inner[0] != "tests"
            and not any(part.startswith((".", "__")) for part in inner[:-1])
        ):
            tags.update(TAG.findall("\n".join(read(path).splitlines()[:5])))
    if not tags:
        raise SupplyError(f"no file of {folder} has an SPDX-License-Identifier")
    version = read(TOP / "VERSION").strip()
    name = f"evenkeel-{heading[1]}"
    return Item(
        name,
        version,
        debian.Purl("generic", name, version),
        licences.plain(*tags),
        "component",
        EVENKEEL,
        {f"evenkeel/{tag}.txt": read(TOP / "LICENSES" / f"{tag}.txt").encode() for tag in tags},
        summary=heading[2],
    )


def module_folder(module: str) -> Path:
    """The folder of the component that builds the kernel module `module`."""
    for folder in _listed():
        if re.search(rf"^obj-m := {re.escape(module)}\.o$", _kbuild(folder), re.MULTILINE):
            return folder
    raise SupplyError(f"no component of mk/components builds the kernel module {module}")


def _listed() -> Iterator[Path]:
    for line in read(TOP / "mk/components").splitlines():
        words = line.partition("#")[0].split()
        if words:
            yield TOP / words[1]


def _kbuild(folder: Path) -> str:
    path = folder / "src/Kbuild"
    return read(path) if path.is_file() else ""


def compiled(objects: Path) -> list[str]:
    """The source files from which the kernel in `objects` was compiled: paths in the kernel's source, sorted.

    Included headers are among them. kbuild writes them into a file .NAME.cmd for each object."""
    source = (objects / "source").resolve()
    found: set[str] = set()
    for folder in sorted(path for path in objects.iterdir() if path.is_dir() and not path.is_symlink()):
        if folder.name in ("scripts", "tools", "conf"):  # programs of the build machine
            continue
        for path in folder.rglob(".*.o.cmd"):
            for name in re.findall(r"(?:^source_\S+ := |^ +)(\S+?)(?: \\)?$", read(path), re.MULTILINE):
                if name.startswith(f"{source}/"):
                    found.add(name[len(str(source)) + 1 :])
    if not found:
        raise SupplyError(f"{objects} has no kernel that was compiled from {source}")
    return sorted(found)
