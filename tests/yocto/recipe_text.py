# SPDX-License-Identifier: Apache-2.0
"""What a recipe says of its packages, read from its text: seconds instead of BitBake's minutes.

Only what our recipes use is understood: VAR = "…" with =, ?=, ??=, +=, :append and :prepend, and ${VAR}.
Where BitBake is, test_packages.py holds it against BitBake's own answer.
"""

from __future__ import annotations

import fnmatch
import re
from dataclasses import dataclass
from pathlib import Path

LAYER = Path(__file__).resolve().parents[2] / "meta-iosched"

# recipe → the folder of the repository that it builds, each with a meson.build
ROOMS = {
    "evenkeel-agent": "recipes/agent",
    "evenkeel-board": "recipes/image",
    "evenkeel-conf": "conf",
    "evenkeel-demo": "recipes/demo",
    "evenkeel-loads": "recipes/loads",
    "evenkeel-recorder": "recipes/recorder",
    "evenkeel-webui": "webui",
}

ASSIGNMENT = re.compile(
    r"^(?P<name>[A-Za-z0-9_.+\-:${}]+?)\s*(?P<how>\?\?=|\?=|\+=|=)\s*\"(?P<value>(?:[^\"\\]|\\.)*)\"",
    re.MULTILINE | re.DOTALL,
)

# the target's folders, as nodistro has them
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

# of bitbake.conf, as far as a room of ours installs there
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
    """The one recipe of a name."""
    found = list(LAYER.rglob(f"{name}_*.bb"))
    assert len(found) == 1, found
    return found[0]


class Variables:
    """Variables of a text, unexpanded until they are asked for."""

    def __init__(self, folders: dict[str, str]) -> None:
        self._values = dict(folders)
        self._more: list[tuple[str, str]] = []

    def read(self, text: str) -> None:
        """Take over the assignments of a text, in their order."""
        for match in ASSIGNMENT.finditer(text):
            name, value = match["name"], match["value"].replace("\\\n", " ")
            if name.endswith(":append"):
                self._more.append((name.removesuffix(":append"), value))
            elif name.endswith(":prepend"):
                raise ValueError(f"{name}: not understood here")
            elif match["how"] == "+=":
                name = self._spelled(name)
                self._values[name] = f"{self._values.get(name, '')} {value}"
            elif match["how"] == "=" or self._spelled(name) not in self._values:
                self._values[self._spelled(name)] = value

    def _spelled(self, name: str) -> str:
        """A name with ${PN} in it under the one name that it has."""
        return re.sub(r"\$\{PN\}", self._values.get("PN", ""), name)

    def __getitem__(self, name: str) -> str:
        value = self._values.get(name, "")
        value += "".join(more for of, more in self._more if self._spelled(of) == name)
        return re.sub(r"\$\{([\w:-]+)\}", lambda match: self[match[1]], value)

    def of(self, prefix: str) -> dict[str, str]:
        """What is set as PREFIX:NAME, by NAME."""
        names = [*self._values, *(self._spelled(name) for name, _ in self._more)]
        return {
            name.removeprefix(prefix + ":"): self[name] for name in names if name.startswith(prefix + ":")
        }


@dataclass(frozen=True)
class Packages:
    """Packages of a recipe.

    Attributes:
        files: package → patterns of FILES; the first package that has a pattern for a path gets it.
        conffiles: package → paths.
        own: package → those of its patterns that are the recipe's, not bitbake.conf's.
    """

    files: dict[str, list[str]]
    conffiles: dict[str, list[str]]
    own: dict[str, list[str]]

    def owner(self, path: str) -> str | None:
        """The package that a path goes to; None: BitBake would say "installed but not shipped"."""
        for package, patterns in self.files.items():
            if any(matches(path, pattern) for pattern in patterns):
                return package
        return None


def matches(path: str, pattern: str) -> bool:
    """Whether FILES' PATTERN takes PATH, or a folder that it is in."""
    pattern = pattern.rstrip("/")
    # BitBake expands a pattern in the file system, where * stays within a folder
    depth = pattern.count("/")
    return fnmatch.fnmatchcase("/".join(path.split("/")[: depth + 1]), pattern)


def packages(recipe: Path, folders: dict[str, str] | None = None) -> Packages:
    """The packages of a recipe NAME_VERSION.bb, with the target's folders where they are others than FOLDERS."""

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
    """A variable as a recipe has it, after CLASSES that it inherits."""
    variables = Variables({**FOLDERS, "PN": recipe.stem.partition("_")[0]})
    for path in (*classes, recipe):
        variables.read(path.read_text())
    return variables[name].strip()
