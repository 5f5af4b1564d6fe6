# SPDX-License-Identifier: Apache-2.0
"""Fixtures by which the tests of the layer run BitBake.

`make yocto OECORE=… BITBAKE=…` names the source trees. OECORE, BITBAKE, METAOE (meta-openembedded), METARAUC and
METAYOCTO may each name several trees, separated by colons, one per series. A test then runs once per series. If a
tree that a test needs is not named, the test is skipped with a message that names the variable.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import re
import subprocess
import sys
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))
# the list of components
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
TOP = Path(__file__).resolve().parents[2]
LAYER = TOP / "meta-iosched"
# BitBake refuses to run as root. The user nobody exists on every machine and owns no files.
BUILD_USER = "nobody"
# Time limits. On two idle cores, the first parse of all layers takes 90 s, and a dry run of an image 300 s.
PARSE_SECONDS = 2400
DRY_RUN_SECONDS = 7200

# Additional lines of local.conf. APPLIANCE configures one of our images. PRODUCT is a product without settings for us.
APPLIANCE = """\
INIT_MANAGER = "systemd"
DISTRO_FEATURES:append = " evenkeel polkit rauc"
PREFERRED_PROVIDER_virtual/kernel = "linux-evenkeel"
"""
PRODUCT = ""
LOCAL_CONF = """\
MACHINE ?= "qemux86-64"
BB_SERVER_TIMEOUT = "0"
# nothing is fetched, so BitBake must not check the network
CONNECTIVITY_CHECK_URIS = ""
INHERIT:remove = "uninative"
BB_HASHSERVE_DB_DIR = "${SSTATE_DIR}"
"""


def trees(variable: str) -> list[str]:
    return os.environ.get(variable, "").split(":") if os.environ.get(variable) else []


@dataclass(frozen=True)
class Series:
    """The trees of one series of OpenEmbedded."""

    oecore: Path
    bitbake: Path
    metaoe: Path | None
    metarauc: Path | None
    metayocto: Path | None

    @cached_property
    def name(self) -> str:
        conf = (self.oecore / "meta/conf/layer.conf").read_text()
        match = re.search(r'^LAYERSERIES_CORENAMES\s*=\s*"(\w+)', conf, re.MULTILINE)
        assert match, f"{self.oecore}/meta/conf/layer.conf names no series"
        return match[1]

    def layers(self) -> list[Path]:
        """All layers that the image needs, as far as their trees are named."""
        found = [self.oecore / "meta"]
        if self.metaoe:
            found += [self.metaoe / name for name in ("meta-oe", "meta-python", "meta-webserver")]
        if self.metarauc:
            found.append(self.metarauc)
        return [*found, LAYER]

    def needs(self, *variables: str) -> None:
        """Skip the test unless all these variables name a tree."""
        for variable in variables:
            if getattr(self, variable.lower()) is None:
                pytest.skip(f"needs {variable}=DIR, see docs/howto/test-the-yocto-layer.md")


def all_series() -> list[Series]:
    oecore, bitbake = trees("OECORE"), trees("BITBAKE")
    if len(oecore) != len(bitbake):
        raise pytest.UsageError("OECORE and BITBAKE must name the same number of trees, separated by colons")
    found = []
    for i, (core, tool) in enumerate(zip(oecore, bitbake, strict=True)):
        optional = [
            Path(trees(variable)[i]).resolve() if i < len(trees(variable)) else None
            for variable in ("METAOE", "METARAUC", "METAYOCTO")
        ]
        found.append(Series(Path(core).resolve(), Path(tool).resolve(), *optional))
    return found


@dataclass
class Build:
    """A build directory in which BitBake runs.

    Attributes:
        path: the build directory.
        series: the trees that it uses.
        layers: folders of the layers, for BBLAYERS.
        local: additional lines of local.conf.
        what: APPLIANCE or PRODUCT.
    """

    path: Path
    series: Series
    layers: list[Path]
    local: str = ""
    what: str = APPLIANCE

    def _write(self) -> None:
        conf = self.path / "conf"
        conf.mkdir(parents=True, exist_ok=True)
        layers = " \\\n    ".join(str(layer) for layer in self.layers)
        (conf / "bblayers.conf").write_text(
            f'BBPATH = "${{TOPDIR}}"\nBBFILES ?= ""\nBBLAYERS = "\\\n    {layers} \\\n"\n'
        )
        shared = self.path.parent / "shared"
        shared.mkdir(exist_ok=True)
        more = f'DL_DIR = "{shared}/downloads"\nSSTATE_DIR = "{shared}/sstate"\n'
        (conf / "local.conf").write_text(LOCAL_CONF + self.what + more + self.local)
        if os.geteuid() == 0:
            give_away(self.path, shared)

    def run(self, *command: str, timeout: float = PARSE_SECONDS) -> subprocess.CompletedProcess[str]:
        """Run a program of BitBake or OE-Core, never as root. Field stdout of the result has output and errors."""
        self._write()
        # PATH has only system folders: a Python interpreter from another folder lacks the host's modules.
        path = [self.series.oecore / "scripts", self.series.bitbake / "bin"]
        environment = {
            "HOME": str(self.path),
            "LANG": "en_US.UTF-8",
            "LC_ALL": "en_US.UTF-8",
            "PATH": ":".join([*map(str, path), "/usr/sbin:/usr/bin:/sbin:/bin"]),
            "BBPATH": str(self.path),
            "BUILDDIR": str(self.path),
            # The source trees may belong to another user, whose trees git refuses by default.
            "GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": "safe.directory",
            "GIT_CONFIG_VALUE_0": "*",
        }
        become = []
        if os.geteuid() == 0:
            become = ["setpriv", f"--reuid={BUILD_USER}", "--regid=nogroup", "--clear-groups"]
        return subprocess.run(
            [*become, *command],
            cwd=self.path,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            errors="replace",
            timeout=timeout,
        )

    def bitbake(self, *arguments: str, timeout: float = PARSE_SECONDS) -> str:
        """Run BitBake, and return its output. It must succeed, and must not warn about our layer."""
        done = self.run("bitbake", *arguments, timeout=timeout)
        assert done.returncode == 0, tail(done.stdout)
        ours = [
            line
            for line in done.stdout.splitlines()
            if line.startswith("WARNING") and ("iosched" in line or "evenkeel" in line)
        ]
        assert not ours, "\n".join(ours)
        return done.stdout

    def masked(self, keep: str, append: str, local: str = "") -> Build:
        """The same build, but with the recipes of other layers masked, so that parsing takes seconds.

        Args:
            keep: pattern of recipes in other layers that are not masked.
            append: pattern of our appends to mask, because their recipes are masked.
            local: additional lines of local.conf.
        """
        others = [
            layer for layer in self.layers if not (layer / "classes-recipe/evenkeel_src.bbclass").exists()
        ]
        mask = " ".join([*(f"{layer}/(?!{keep}).*/" for layer in others), append])
        path = self.path.with_name(self.path.name + "-masked")
        return Build(path, self.series, self.layers, f'{self.local}BBMASK = "{mask}"\n{local}', self.what)

    def refuses(self, target: str) -> str:
        """Ask BitBake to build one of our recipes, which it must refuse. Returns BitBake's output."""
        done = self.masked(keep="nothing", append="bbappend").run("bitbake", "-g", target)
        assert done.returncode != 0, tail(done.stdout)
        return done.stdout

    def variables(self, recipe: Path | str) -> dict[str, str]:
        """Every variable of a recipe → its expanded value.

        If `recipe` is a path, BitBake parses only this file, without appends. If it is a name, BitBake parses the
        recipe with all its appends.
        """
        done = self.run("bitbake", "-e", *(["-b", str(recipe)] if isinstance(recipe, Path) else [recipe]))
        output = done.stdout
        # Do not check the exit status: BitBake prints the variables, and may then fail because dependencies are masked.
        assert re.search(r'^PN="', output, re.MULTILINE), tail(output)
        pairs = re.findall(r'^(?:export )?([^\s#="]+)="((?:[^"\\]|\\.)*)"$', output, re.MULTILINE)
        return {name: value.replace("\\\n", " ") for name, value in pairs}


def give_away(*folders: Path) -> None:
    """Give root's files in these folders to BUILD_USER. A BitBake server that is ending may delete files meanwhile."""
    user = pwd.getpwnam(BUILD_USER).pw_uid
    for folder in folders:
        os.chown(folder, user, -1)
        for at, folders_in_it, files in os.walk(folder):
            for name in (*folders_in_it, *files):
                with contextlib.suppress(FileNotFoundError):
                    path = Path(at, name)
                    if path.lstat().st_uid == 0:
                        os.chown(path, user, -1, follow_symlinks=False)


def tail(text: str, lines: int = 40) -> str:
    return "\n".join(text.splitlines()[-lines:])


SERIES: list[Series | None] = [*all_series()] or [None]


@pytest.fixture(scope="session", params=SERIES, ids=lambda s: s.name if s else "no-oe-core")
def series(request: pytest.FixtureRequest) -> Series:
    found = request.param
    if found is None:
        pytest.skip("no OE-Core: make yocto OECORE=DIR BITBAKE=DIR, see docs/howto/test-the-yocto-layer.md")
    assert isinstance(found, Series)
    return found


@pytest.fixture(scope="session")
def folder(series: Series) -> Path:
    """Folder for the build directories of a series. It is kept between test runs, because parsing is expensive."""
    path = TOP / "build" / "yocto" / series.name
    path.mkdir(parents=True, exist_ok=True)
    return path


@pytest.fixture(scope="session")
def build(series: Series, folder: Path) -> Build:
    """A build with all layers that the image needs, and a signing key."""
    series.needs("METAOE")
    key, certificate = folder / "key.pem", folder / "cert.pem"
    if not certificate.exists():
        command = "openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=test -days 3650"
        subprocess.run(
            [*command.split(), "-keyout", key, "-out", certificate], check=True, stderr=subprocess.DEVNULL
        )
    local = f'RAUC_KEY_FILE = "{key}"\nRAUC_CERT_FILE = "{certificate}"\n'
    return Build(folder / "build", series, series.layers(), local)
