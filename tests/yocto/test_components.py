# SPDX-License-Identifier: Apache-2.0
"""Each recipe agrees with its component: versions, users, units, Python imports, partitions."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import textwrap
from pathlib import Path
from types import SimpleNamespace

import pytest
from components import Component, components
from conftest import LAYER, TOP, Series
from recipe_text import COMPONENTS, packages, recipe


def value(text: str, name: str) -> str:
    """The value that a recipe's text assigns to a variable, with continued lines joined."""
    match = re.search(rf'^{re.escape(name)}\s*\+?=\s*"((?:[^"\\]|\\\n)*)"', text, re.MULTILINE)
    assert match, f"the recipe sets no {name}"
    return match[1].replace("\\\n", " ")


@pytest.mark.parametrize(
    "part", [part for part in components() if part.recipe != "-"], ids=lambda part: part.name
)
def test_component_has_the_recipe_of_the_list(part: Component) -> None:
    """The recipe that mk/components names for a component builds from the folder of this component."""
    text = recipe(part.recipe).read_text()
    sources = " ".join(
        re.findall(r'^EVENKEEL_(?:COMPONENT|PATHS) = "((?:[^"\\]|\\\n)*)"', text, re.MULTILINE)
    )
    assert any(f"{path}/".startswith(f"{part.folder}/") for path in sources.split()), sources


def test_every_component_of_an_image_has_a_recipe() -> None:
    """Otherwise the Debian image would contain a component that BitBake's image lacks."""
    assert [part.name for part in components() if part.image != "-" and part.recipe == "-"] == []


@pytest.mark.parametrize("name", COMPONENTS)
def test_version_is_that_of_the_component(name: str) -> None:
    """meson.build and the class of the recipe both read the file VERSION."""
    build = (TOP / COMPONENTS[name] / "meson.build").read_text()
    match = re.search(r"\bversion: files\('([./]*VERSION)'\)", build)
    assert match
    file = (TOP / COMPONENTS[name] / match[1]).resolve()
    assert file == TOP / "VERSION"
    assert recipe(name).stem == name
    assert "inherit evenkeel_component" in recipe(name).read_text()
    own = re.search(r'^EVENKEEL_PATHS = "((?:[^"\\]|\\\n)*)"', recipe(name).read_text(), re.MULTILINE)
    assert own is None or "VERSION" in own[1].split()


@pytest.mark.parametrize(
    ("name", "sysusers"),
    [
        ("evenkeel-agent", "recipes/agent/data/evenkeel-agent.sysusers"),
        ("evenkeel-history", "recipes/history/data/evenkeel-history.sysusers"),
        ("evenkeel-recorder", "recipes/recorder/data/ek-recorder.sysusers"),
        ("evenkeel-webui", "webui/data/systemd/evenkeel-panel.sysusers"),
        ("evenkeel-demo", "recipes/demo/data/evenkeel-demo.sysusers"),
    ],
)
def test_users_are_those_of_sysusers(name: str, sysusers: str) -> None:
    text = recipe(name).read_text()
    users = value(text, "USERADD_PARAM:${PN}").replace("${localstatedir}", "/var").split(";")
    seen = 0
    for line in (TOP / sysusers).read_text().splitlines():
        match = re.fullmatch(r'u!?\s+(\S+)\s+(\S+)\s+"([^"]+)"(?:\s+(\S+)\s+(\S+))?', line)
        if match:
            who, number, comment, home, _ = match.groups()
            (user,) = (one for one in users if one.split()[-1] == who)
            assert f"--comment '{comment}'" in user
            assert f"--home-dir {home or '/'} " in user
            if number != "-":
                uid, group = number.split(":")
                assert f"--uid {uid} --gid {group} " in user
            else:
                assert "--user-group" in user
            seen += 1
        match = re.fullmatch(r"g\s+(\S+)\s+(\d+)", line)
        if match:
            groups = value(text, "GROUPADD_PARAM:${PN}").split(";")
            assert ["--gid", match[2], match[1]] in [one.split()[-3:] for one in groups]
            seen += 1
    assert seen, sysusers


def test_users_whose_files_outlive_the_image_have_fixed_numbers() -> None:
    """Otherwise another image could give them other numbers, and its services could not open the files."""
    users: dict[str, str] = {}
    owners: set[str] = set()
    for component in COMPONENTS.values():
        for path in (TOP / component).rglob("*.sysusers"):
            users |= re.findall(r"^u!?\s+(\S+)\s+(\S+)", path.read_text(), re.MULTILINE)
        for path in (TOP / component).rglob("*.tmpfiles"):
            lines = re.findall(r"^[a-zA-Z-]+ +/\S+ +\S+ +(\S+) +(\S+)", path.read_text(), re.MULTILINE)
            # The members of the group may have files in a folder of root.
            owners |= {group if owner == "root" else owner for owner, group in lines}
        for path in [*(TOP / component).rglob("*.service"), *(TOP / component).rglob("*.service.in")]:
            unit = path.read_text()
            if re.search(r"^(Logs|State)Directory=", unit, re.MULTILINE):
                owners |= set(re.findall(r"^User=(.*)$", unit, re.MULTILINE))
    lasting = owners & users.keys()
    assert lasting == {
        "ek-recorder",
        "evenkeel-agent",
        "evenkeel-certificate",
        "evenkeel-history",
        "evenkeel-network",
        "evenkeel-panel",
        "evenkeel-system",
    }
    numbers = [users[name].partition(":")[0] for name in lasting]
    assert all(number.isdecimal() for number in numbers), users
    assert len(set(numbers)) == len(numbers)


@pytest.mark.parametrize("name", COMPONENTS)
def test_units_that_can_be_enabled_are_enabled(name: str) -> None:
    """SYSTEMD_SERVICE lists every unit with an [Install] section, except evenkeel-board's, which presets enable.

    A unit or a person that needs an instance of a template enables it.
    """
    component = TOP / COMPONENTS[name]
    units = {
        path.name.removesuffix(".in")
        for path in component.rglob("*")
        if path.name.removesuffix(".in").rpartition(".")[2] in ("service", "socket", "target", "timer")
        and path.is_file()
        and "@." not in path.name
        and "\n[Install]" in path.read_text()
    }
    if name == "evenkeel-board":
        preset = (component / "data/rootfs/usr/lib/systemd/system-preset/10-evenkeel.preset").read_text()
        assert units == {unit for unit in units if f"enable {unit}\n" in preset}
        return
    text = recipe(name).read_text()
    named = set(value(text, "SYSTEMD_SERVICE:${PN}").split()) if "SYSTEMD_SERVICE" in text else set()
    assert named == units


# Units of other projects that our preset enables → (our recipe, the package that it must depend on). None: no
# dependency is needed; the comment gives the reason, and units of systemd are always there.
OTHERS = {
    # The distribution may use another implementation of D-Bus.
    "dbus-broker.service": None,
    # OE-Core's util-linux does not contain this unit. evenkeel-board installs it (PACKAGECONFIG).
    "fstrim.timer": None,
    "nginx.service": ("evenkeel-webui", "nginx"),
    "systemd-networkd.service": None,
    "systemd-networkd.socket": None,
    # in the package systemd of OE-Core, unless a distribution removes them from its PACKAGECONFIG
    "systemd-resolved.service": None,
    "systemd-timesyncd.service": None,
}


def test_units_that_the_preset_enables_are_installed() -> None:
    """systemd silently ignores units of a preset that are missing. OE-Core has some units in separate packages."""
    preset = (TOP / "recipes/image/data/rootfs/usr/lib/systemd/system-preset/10-evenkeel.preset").read_text()
    enabled = set(re.findall(r"^enable (\S+)$", preset, re.MULTILINE))
    others = {unit for unit in enabled if not unit.startswith(("evenkeel", "ek-"))}
    assert others == OTHERS.keys()
    board = recipe("evenkeel-board").read_text()
    assert 'PACKAGECONFIG ??= "fstrim"' in board
    assert 'PACKAGECONFIG[fstrim] = "-Dfstrim=true,-Dfstrim=false,,util-linux-fstrim"' in board
    for owner in filter(None, OTHERS.values()):
        name, package = owner
        assert package in value(recipe(name).read_text(), "RDEPENDS:${PN}").split()


def test_scripts_of_the_panel_are_those_of_the_lock_file() -> None:
    packages = json.loads((TOP / "webui/src/static-deps/package-lock.json").read_text())["packages"]
    text = recipe("evenkeel-webui").read_text()
    assert value(text, "HTMX_VERSION") == packages["node_modules/htmx.org"]["version"]
    assert value(text, "UPLOT_VERSION") == packages["node_modules/uplot"]["version"]


def test_partitions_are_those_of_the_debian_image() -> None:
    """Order, names, PARTUUIDs and default sizes."""
    genimage = (TOP / "recipes/image/data/genimage.cfg").read_text()
    build = (TOP / "recipes/image/src/build").read_text()
    image = genimage[genimage.index("image evenkeel-x86_64.img") :]
    wanted = re.findall(r"partition (\S+) \{.*?partition-uuid = (\S+)", image, re.DOTALL)
    wks = (LAYER / "files/wic/evenkeel.wks.in").read_text()
    assert re.findall(r"--part-name (\S+) .*--uuid (\S+)", wks) == wanted
    classes = (LAYER / "classes-recipe/evenkeel_image.bbclass").read_text()
    for variable, file in (("ROOT", "root"), ("RECORDER", "recorder"), ("DATA", "data")):
        assert f"{file}.ext4 {value_weak(classes, f'EVENKEEL_{variable}_MB')}M" in build


@pytest.mark.parametrize("label", ["root", "bootstate", "recorder", "data"])
def test_file_systems_are_those_of_the_debian_image(label: str) -> None:
    """UUID and hash seed are fixed: the same files give the same bytes."""
    build = (TOP / "recipes/image/src/build").read_text()
    wanted = re.search(rf"^ext4\S* {label}\.ext4 \d+M (\S+)", build, re.MULTILINE)
    assert wanted
    uuid = wanted[1]
    ours = (LAYER / "classes-recipe/evenkeel_image.bbclass").read_text() + recipe(
        "evenkeel-bootloader"
    ).read_text()
    command = re.search(rf"(-L {label}\b(?:.*\\\n)*.*-U|-U) {uuid}\b(?:.*\\\n)*.*", ours)
    assert command, f"no mke2fs command of ours uses {uuid}"
    assert f"-L {label}" in command[0]
    assert ours.count(f"hash_seed={uuid}") == 1


def value_weak(text: str, name: str) -> str:
    match = re.search(rf'^{name} \?= "([^"]*)"', text, re.MULTILINE)
    assert match, name
    return match[1]


def imports(folder: Path) -> set[str]:
    """Modules of Python's standard library that the programs of a folder import."""
    found: set[str] = set()
    for path in folder.rglob("*.py"):
        # These files are used only for development, and are not installed.
        if path.name in ("dev.py", "fake_agent.py", "testing.py"):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                found |= {name.name.split(".")[0] for name in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                found.add(node.module.split(".")[0])
    return found & sys.stdlib_module_names


# OE-Core splits Python's standard library into packages. Module → package python3-NAME, for modules that our programs
# import and that scarthgap does not have in python3-core. Later series have some of these modules in python3-core.
PARTS = {
    "asyncio": "asyncio",
    "calendar": "datetime",
    "concurrent": "asyncio",
    "ctypes": "ctypes",
    "email": "email",
    "datetime": "datetime",
    "fcntl": "fcntl",
    "hashlib": "crypt",
    "hmac": "netclient",
    "html": "html",
    "http": "netclient",
    "fractions": "numbers",
    "json": "json",
    "logging": "logging",
    "mmap": "mmap",
    "random": "math",
    "secrets": "netclient",
    "smtplib": "netclient",
    "socket": "io",
    "sqlite3": "sqlite3",
    "ssl": "io",
    "tempfile": "io",
    "tarfile": "compression",
    "tomllib": "tomllib",
    "urllib": "netclient",
}
CORE = {
    *(
        "__future__",
        "argparse",
        "array",
        "bisect",
        "collections",
        "contextlib",
        "csv",
        "dataclasses",
        "errno",
        "fnmatch",
        "functools",
        "gc",
        "io",
    ),
    *(
        "importlib",
        "ipaddress",
        "itertools",
        "math",
        "operator",
        "os",
        "pathlib",
        "pwd",
        "re",
        "select",
        "shutil",
        "signal",
        "stat",
    ),
    *(
        "struct",
        "subprocess",
        "sys",
        "threading",
        "time",
        "types",
        "typing",
        "unicodedata",
        "weakref",
        "zlib",
    ),
}
PROGRAMS = pytest.mark.parametrize(
    ("name", "package", "folder"),
    [
        ("evenkeel-agent", "${PN}", "recipes/agent/src"),
        ("evenkeel-history", "${PN}", "recipes/history/src"),
        ("evenkeel-validate", "${PN}", "recipes/validate/src"),
        ("evenkeel-pagepool", "${PN}", "recipes/pagepool/src"),
        ("evenkeel-webui", "${PN}", "webui/src/evenkeel_panel"),
        ("evenkeel-recorder", "python3-ek-recorder", "recipes/recorder/src/python/ek_recorder"),
    ],
)


# package → packages that it needs, but that its recipe does not list: dbus-fast imports xml.etree; prometheus_client
# imports gzip, mmap, socketserver and wsgiref
ALSO = {
    "python3-dbus-fast": {"python3-xml"},
    "python3-prometheus-client": {
        "python3-compression",
        "python3-misc",
        "python3-mmap",
        "python3-netserver",
    },
}


@PROGRAMS
def test_python_imports_are_dependencies(name: str, package: str, folder: str) -> None:
    loaded = imports(TOP / folder)
    unknown = loaded - PARTS.keys() - CORE
    assert not unknown, "look them up in OE-Core's python3-manifest.json and add them to PARTS or CORE"
    wanted = {"python3-core", *(f"python3-{PARTS[module]}" for module in loaded & PARTS.keys())}
    assert len(wanted) > 2
    listed = set(value(recipe(name).read_text(), f"RDEPENDS:{package}").split())
    assert wanted | {part for module in listed & ALSO.keys() for part in ALSO[module]} <= listed


@PROGRAMS
def test_python_imports_are_in_the_packages_of_oe_core(
    series: Series, name: str, package: str, folder: str
) -> None:
    """The same check as above, with OE-Core's own list of Python packages instead of PARTS."""
    text = (series.oecore / "meta/recipes-devtools/python/python3/python3-manifest.json").read_text()
    manifest = json.loads("\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#")))
    owner: dict[str, str] = {}
    for part, content in manifest.items():
        # Skip two packages: `modules` stands for all of them, and `misc` has the modules that no other package has.
        if part in ("modules", "misc"):
            continue
        for file in content["files"]:
            owner.setdefault(file.rstrip("/").rpartition("/")[2].split(".")[0], part)
    wanted = {f"python3-{owner[module]}" for module in imports(TOP / folder) if module in owner}
    assert len(wanted) > 2
    assert wanted <= set(value(recipe(name).read_text(), f"RDEPENDS:{package}").split())


def test_rule_is_in_the_folder_that_udev_reads(tmp_path: Path) -> None:
    """udev reads /usr/lib with usrmerge, and /lib without it."""
    text = recipe("evenkeel-conf").read_text()
    match = re.search(r"^do_install:append\(\) \{\n(.*?)^\}", text, re.MULTILINE | re.DOTALL)
    assert match
    for base in ("/usr/lib", "/lib"):
        root = tmp_path / base.replace("/", "-")
        (root / "usr/lib/udev/rules.d").mkdir(parents=True)
        (root / "usr/lib/udev/rules.d/60-evenkeel.rules").touch()
        values = {"D": str(root), "nonarch_libdir": "/usr/lib", "nonarch_base_libdir": base}
        body = re.sub(r"\$\{(\w+)\}", lambda name, values=values: values[name[1]], match[1])
        subprocess.run(["sh", "-eu", "-c", body], check=True)
        found = [str(path.relative_to(root)) for path in root.rglob("*.rules")]
        assert found == [f"{base[1:]}/udev/rules.d/60-evenkeel.rules"]
        parts = packages(recipe("evenkeel-conf"), {"nonarch_base_libdir": base})
        assert parts.owner(f"/{found[0]}") == "evenkeel-conf-udev"


def test_scheduler_alone_installs_only_its_own_sysctls() -> None:
    """The package group of the scheduler must not set sysctls for panics and hardening: the product decides these."""
    group = LAYER / "recipes-core/packagegroups/packagegroup-evenkeel-scheduler.bb"
    taken = set(value(group.read_text(), "RDEPENDS:${PN}").split())
    parts = packages(recipe("evenkeel-conf"))
    for path in (TOP / "conf/sysctl.d").iterdir():
        owner = parts.owner(f"/usr/lib/sysctl.d/{path.name}")
        assert (owner in taken) == (path.name == "60-evenkeel.conf"), (path.name, owner)


def test_allarch_recipes_have_no_dependencies() -> None:
    """Dependencies are part of a recipe's hash, so every machine would build the allarch recipe again.

    OE-Core excepts only package groups (lib/oe/sstatesig.py).
    """
    seen = 0
    for path in LAYER.rglob("*.bb"):
        text = path.read_text()
        if not re.search(r"^inherit .*\ballarch\b", text, re.MULTILINE):
            continue
        seen += 1
        own = set(packages(path).files)
        for words in re.findall(r'^R(?:DEPENDS|RECOMMENDS):\S+ \+?= "([^"]*)"', text, re.MULTILINE):
            assert set(words.split()) - {"\\", "${PACKAGE_BEFORE_PN}"} <= own, path.name
    assert seen


def in_series(series: str, file: Path, variable: str) -> str:
    """The value of a VARIABLE of a recipe that depends on the series."""
    match = re.search(rf'^{variable} = "\$\{{@(.*)\}}"$', file.read_text(), re.MULTILINE)
    assert match

    def contains(variable: str, words: str, yes: str, no: str, _: object) -> str:
        assert variable == "LAYERSERIES_CORENAMES"
        return yes if set(words.split()) <= {series} else no

    bb = SimpleNamespace(utils=SimpleNamespace(contains=contains))
    return str(eval(match[1], {"bb": bb, "d": None}))  # noqa: S307  # text of our own recipe


def owns_rules(series: str) -> bool:
    """Whether evenkeel-agent makes polkitd the owner of the folder of polkit rules in a series."""
    return {"true": True, "false": False}[
        in_series(series, recipe("evenkeel-agent"), "EVENKEEL_POLKIT_OWNS_RULES")
    ]


@pytest.mark.parametrize(
    ("name", "owns"), [("scarthgap", True), ("walnascar", False), ("whinlatter", False), ("wrynose", False)]
)
def test_folder_of_rules_has_the_owner_that_polkit_gives_it(name: str, owns: bool) -> None:
    """The packages of polkit and of the agent both contain this folder, so owner and mode must be the same.

    rpm refuses two owners. With two modes, the mode of the package that is installed later would apply.
    """
    assert owns_rules(name) == owns


def test_networkd_is_a_dependency_if_it_is_a_package(series: Series) -> None:
    """systemd only recommends the package systemd-networkd, and a product may ignore recommendations."""
    (systemd,) = (series.oecore / "meta/recipes-core/systemd").glob("systemd_*.bb")
    apart = bool(re.search(r"^FILES:\$\{PN\}-networkd", systemd.read_text(), re.MULTILINE))
    group = LAYER / "recipes-core/packagegroups/packagegroup-evenkeel.bb"
    named = in_series(series.name, group, "EVENKEEL_NETWORKD")
    assert named == ("systemd-networkd" if apart else "")


def test_folder_of_rules_is_as_in_the_series(series: Series) -> None:
    series.needs("METAOE")
    assert series.metaoe
    (polkit,) = (series.metaoe / "meta-oe/recipes-extended/polkit").glob("polkit_*.bb")
    kept = re.search(
        r"^\s*chown polkitd:root \$\{D\}/?\$\{datadir\}/polkit-1/rules.d$", polkit.read_text(), re.MULTILINE
    )
    assert owns_rules(series.name) == bool(kept)


@pytest.mark.parametrize("clone", ["/home/me/evenkeel", ""])
def test_epoch_of_a_build_is_not_the_time_of_the_checkout(clone: str) -> None:
    """With a clone, the class writes a fixed time. With sources from git, OE-Core's time of the commit stays."""
    text = (LAYER / "classes-recipe/evenkeel_component.bbclass").read_text()
    assert 'do_unpack[postfuncs] += "evenkeel_source_date_epoch"' in text
    match = re.search(r"^python evenkeel_source_date_epoch\(\) \{\n(.*?)^\}", text, re.MULTILINE | re.DOTALL)
    assert match
    written: list[tuple[int, str]] = []
    oe = SimpleNamespace(
        reproducible=SimpleNamespace(epochfile_write=lambda time, file, _: written.append((time, file)))
    )
    values = {"EVENKEEL_SRC": clone, "SDE_FILE": "epoch.txt", "SOURCE_DATE_EPOCH_FALLBACK": "1302044400"}
    exec(textwrap.dedent(match[1]), {"oe": oe, "d": SimpleNamespace(getVar=values.get)})  # noqa: S102  # text of our own class
    assert written == ([(1302044400, "epoch.txt")] if clone else [])


def console(consoles: str, arch: str) -> object:
    """The default of EVENKEEL_CONSOLE for a machine with these SERIAL_CONSOLES."""
    text = (LAYER / "classes-recipe/evenkeel_console.bbclass").read_text()
    match = re.search(r"^(def evenkeel_console.*)", text, re.MULTILINE | re.DOTALL)
    assert match
    scope: dict[str, object] = {}
    exec(match[1], scope)  # noqa: S102  # text of our own class
    function = scope["evenkeel_console"]
    assert callable(function)
    return function(SimpleNamespace(getVar={"SERIAL_CONSOLES": consoles, "TARGET_ARCH": arch}.get))


@pytest.mark.parametrize(
    ("consoles", "kernel", "unit"),
    [
        ("115200;ttyAMA0 115200;hvc0", "ttyAMA0,115200", "/dev/ttyAMA0"),
        ("1500000;ttyS2", "ttyS2,1500000", "/dev/ttyS2"),
        # a machine without SERIAL_CONSOLES: its firmware chooses
        ("", "none", "/dev/console"),
    ],
)
def test_console_is_that_of_the_machine(tmp_path: Path, consoles: str, kernel: str, unit: str) -> None:
    """The kernel and the root shell use the first of the machine's SERIAL_CONSOLES."""
    assert console(consoles, "aarch64") == kernel
    expect_shell_on(tmp_path, kernel, unit)


def test_console_of_an_x86_machine_without_serial_consoles() -> None:
    """On x86 the kernel does not take the console from the firmware, so there is a default, ttyS0."""
    assert console("", "x86_64") == "ttyS0,115200"


def test_last_of_several_consoles_is_the_boards(tmp_path: Path) -> None:
    expect_shell_on(tmp_path, "tty0 ttymxc1,115200", "/dev/ttymxc1")


def test_empty_console_leaves_the_choice_to_the_kernel(tmp_path: Path) -> None:
    expect_shell_on(tmp_path, "", "/dev/console")


def expect_shell_on(tmp_path: Path, consoles: str, unit: str) -> None:
    """Check the TTYPath that evenkeel-board sets for EVENKEEL_CONSOLE."""
    name = "usr/lib/systemd/system/evenkeel-console.service"
    (tmp_path / name).parent.mkdir(parents=True)
    (tmp_path / name).write_text((TOP / "recipes/image/data/rootfs" / name).read_text())
    match = re.search(
        r"^do_install:append\(\) \{\n(.*?)^\}", recipe("evenkeel-board").read_text(), re.MULTILINE | re.DOTALL
    )
    assert match
    inline = re.search(r"\$\{@(.*?)\}", match[1])
    assert inline
    port = eval(inline[1], {"d": SimpleNamespace(getVar={"EVENKEEL_CONSOLE": consoles}.get)})  # noqa: S307  # text of our own recipe
    body = match[1].replace(inline[0], port)
    values = {"D": str(tmp_path), "systemd_system_unitdir": "/usr/lib/systemd/system"}
    body = re.sub(r"\$\{(\w+)\}", lambda found: values[found[1]], body)
    subprocess.run(["sh", "-eu", "-c", body], check=True)
    assert f"\nTTYPath={unit}\n" in (tmp_path / name).read_text()


# --- the check of the kernel by evenkeel-module ----------------------------------------------


def configure(tmp_path: Path, version: str, config: str) -> tuple[int, str]:
    """Run do_configure of evenkeel-module for a kernel of this version and configuration. Returns status and output."""
    text = (LAYER / "recipes-kernel/evenkeel-module/evenkeel-module.inc").read_text()
    match = re.search(r"^do_configure\(\) \{\n(.*?)^\}", text, re.MULTILINE | re.DOTALL)
    assert match
    (tmp_path / ".config").write_text(config)
    values = {
        "STAGING_KERNEL_BUILDDIR": str(tmp_path),
        "S": str(TOP / "recipes/scheduler/src"),
        "PN": "evenkeel-module",
        "KERNEL_VERSION": version,
        "EVENKEEL_KERNEL": "linux-yocto",
        "EVENKEEL_KERNEL_OPTIONS": "CONFIG_64BIT CONFIG_BLK_CGROUP",
    }
    body = re.sub(r"\$\{([A-Z][\w/]*)\}", lambda name: values[name[1]], match[1])
    script = f'bbfatal() {{ echo "ERROR: $*"; exit 1; }}\nbbwarn() {{ echo "WARNING: $*"; }}\n{body}'
    done = subprocess.run(["sh", "-e", "-c", script], capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


GOOD = "CONFIG_64BIT=y\nCONFIG_BLK_CGROUP=y\n# CONFIG_BLK_CGROUP_IOCOST is not set\n"


@pytest.mark.parametrize("version", ["6.12.80-evenkeel", "6.18.39-yocto-standard", "7.3.4"])
def test_kernel_is_accepted(tmp_path: Path, version: str) -> None:
    assert configure(tmp_path, version, GOOD) == (0, "")


@pytest.mark.parametrize("version", ["6.6.140-yocto-standard", "5.15.200", "6.9.0"])
def test_old_kernel_is_refused_and_the_needed_version_is_named(tmp_path: Path, version: str) -> None:
    status, output = configure(tmp_path, version, GOOD)
    assert status == 1
    assert f"evenkeel-module needs Linux 6.12 or later, but linux-yocto is {version}" in output


def test_kernel_without_cgroups_is_refused(tmp_path: Path) -> None:
    status, output = configure(tmp_path, "6.12.80", "CONFIG_64BIT=y\n")
    assert status == 1
    assert "needs CONFIG_BLK_CGROUP=y" in output


def test_kernel_with_iocost_causes_a_warning(tmp_path: Path) -> None:
    status, output = configure(tmp_path, "6.18.39", GOOD + "CONFIG_BLK_CGROUP_IOCOST=y\n")
    assert status == 0
    assert "WARNING" in output
    assert "io.evenkeel.weight" in output
