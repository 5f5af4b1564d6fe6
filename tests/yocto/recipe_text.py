# SPDX-License-Identifier: Apache-2.0
"""A reader that finds the packages of a recipe in its text, in seconds; BitBake would take minutes.

The reader understands only the syntax that our recipes use: VAR = "…" with =, ?=, ??=, += and :append, and
${VAR}. With BitBake, test_packages.py compares the result of the reader with that of BitBake.
"""

from __future__ import annotations

import fnmatch
import re
import sys
from dataclasses import dataclass
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(TOP / "tests"))

import components  # noqa: E402

LAYER = TOP / "meta-iosched"


# recipe → folder of its component; only components that an image installs by meson
COMPONENTS = components.recipes()

ASSIGNMENT = re.compile(
    r"^(?P<name>[A-Za-z0-9_.+\-:${}]+?)\s*(?P<how>\?\?=|\?=|\+=|=)\s*\"(?P<value>(?:[^\"\\]|\\.)*)\"",
    re.MULTILINE | re.DOTALL,
)

# the target's folders in the distribution nodistro, by BitBake's names
FOLDERS = {
    "bindir": "/usr/bin",
    "sbindir": "/usr/sbin",
    "libdir": "/usr/lib",
    "nonarch_libdir": "/usr/lib",
    "nonarch_base_libdir": "/usr/lib",
    "includedir": "/usr/include",
    "datadir": "/usr/share",
    "docdir": "/usr/share/doc",
    "mandir": "/usr/share/man",
    "sysconfdir": "/etc",
    "localstatedir": "/var",
    "systemd_system_unitdir": "/usr/lib/systemd/system",
    "PYTHON_SITEPACKAGES_DIR": "/usr/lib/python3/site-packages",
    "SOLIBS": ".so.*",
    "SOLIBSDEV": ".so",
}

# the part of bitbake.conf that our components need
DEFAULTS = r"""
PACKAGES = "${PN}-src ${PN}-dbg ${PN}-staticdev ${PN}-dev ${PN}-doc ${PN}-locale ${PACKAGE_BEFORE_PN} ${PN}"
PACKAGE_BEFORE_PN = ""
FILES:${PN}-src = ""
FILES:${PN}-dbg = "/usr/lib/debug /usr/src/debug"
FILES:${PN}-staticdev = "${libdir}/*.a"
FILES:${PN}-dev = "${includedir} ${libdir}/lib*${SOLIBSDEV} ${libdir}/pkgconfig"
FILES:${PN}-doc = "${docdir} ${mandir}"
FILES:${PN}-locale = "${datadir}/locale"
FILES:${PN} = "${bindir}/* ${sbindir}/* ${libdir}/lib*${SOLIBS} ${sysconfdir} ${localstatedir} \
    ${nonarch_libdir}/udev ${datadir}/${PN}"
"""


def recipe(name: str) -> Path:
    """Path of the recipe of this name. There must be exactly one."""
    found = [*LAYER.rglob(f"{name}.bb"), *LAYER.rglob(f"{name}_*.bb")]
    assert len(found) == 1, found
    return found[0]


class Variables:
    """The variables of a recipe. A reference to another variable is expanded when a value is read."""

    def __init__(self, folders: dict[str, str]) -> None:
        self._values = dict(folders)
        self._more: list[tuple[str, str]] = []

    def read(self, text: str) -> None:
        """Apply the assignments of a text, in their order."""
        for match in ASSIGNMENT.finditer(text):
            name, value = match["name"], match["value"].replace("\\\n", " ")
            if name.endswith(":append"):
                self._more.append((name.removesuffix(":append"), value))
            elif name.endswith(":prepend"):
                raise ValueError(f"{name}: this reader does not support :prepend")
            elif match["how"] == "+=":
                name = self._spelled(name)
                self._values[name] = f"{self._values.get(name, '')} {value}"
            elif match["how"] == "=" or self._spelled(name) not in self._values:
                self._values[self._spelled(name)] = value

    def _spelled(self, name: str) -> str:
        """A variable's name with ${PN} expanded."""
        return re.sub(r"\$\{PN\}", self._values.get("PN", ""), name)

    def __getitem__(self, name: str) -> str:
        value = self._values.get(name, "")
        value += "".join(more for of, more in self._more if self._spelled(of) == name)
        return re.sub(r"\$\{([\w:-]+)\}", lambda match: self[match[1]], value)

    def of(self, prefix: str) -> dict[str, str]:
        """The values of all variables PREFIX:NAME, by NAME."""
        names = [*self._values, *(self._spelled(name) for name, _ in self._more)]
        return {
            name.removeprefix(prefix + ":"): self[name] for name in names if name.startswith(prefix + ":")
        }


@dataclass(frozen=True)
class Packages:
    """Packages of a recipe.

    Attributes:
        files: package → patterns of FILES. A path belongs to the first package with a matching pattern.
        conffiles: package → paths of CONFFILES.
        own: package → the patterns of FILES that the recipe adds to those of bitbake.conf.
    """

    files: dict[str, list[str]]
    conffiles: dict[str, list[str]]
    own: dict[str, list[str]]

    def owner(self, path: str) -> str | None:
        """The package that ships a path; None if no package does, which BitBake reports as an error."""
        for package, patterns in self.files.items():
            if any(matches(path, pattern) for pattern in patterns):
                return package
        return None


def matches(path: str, pattern: str) -> bool:
    """Whether a pattern of FILES matches a path, or a folder that contains the path."""
    pattern = pattern.rstrip("/")
    # BitBake expands a pattern like a shell, so * does not match a slash.
    depth = pattern.count("/")
    return fnmatch.fnmatchcase("/".join(path.split("/")[: depth + 1]), pattern)


def packages(recipe: Path, folders: dict[str, str] | None = None) -> Packages:
    """The packages of a recipe, whose file is NAME.bb or NAME_VERSION.bb. `folders` overrides entries of FOLDERS."""

    def read(*texts: str) -> tuple[Variables, dict[str, list[str]]]:
        variables = Variables({**FOLDERS, **(folders or {}), "PN": recipe.stem.partition("_")[0]})
        for text in texts:
            variables.read(text)
        return variables, {part: variables[f"FILES:{part}"].split() for part in variables["PACKAGES"].split()}

    _, before = read(DEFAULTS)
    variables, files = read(DEFAULTS, recipe.read_text())
    own = {
        part: [pattern for pattern in patterns if pattern not in before.get(part, [])]
        for part, patterns in files.items()
    }
    return Packages(files, {part: value.split() for part, value in variables.of("CONFFILES").items()}, own)


def setting(name: str, recipe: Path, *classes: Path) -> str:
    """The value of a variable in a recipe that inherits the classes in these files."""
    variables = Variables({**FOLDERS, "PN": recipe.stem.partition("_")[0]})
    for path in (*classes, recipe):
        variables.read(path.read_text())
    return variables[name].strip()
