# SPDX-License-Identifier: Apache-2.0
"""Recipes say what the rooms say: versions, users, units, what Python imports, partitions."""

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
from conftest import LAYER, TOP, Series
from recipe_text import ROOMS, packages, recipe


def value(text: str, name: str) -> str:
    """What a recipe's text assigns to a variable, lines joined."""
    match = re.search(rf'^{re.escape(name)}\s*\+?=\s*"((?:[^"\\]|\\\n)*)"', text, re.MULTILINE)
    assert match, f"the recipe sets no {name}"
    return match[1].replace("\\\n", " ")


@pytest.mark.parametrize("name", ROOMS)
def test_version_is_the_rooms(name: str) -> None:
    build = (TOP / ROOMS[name] / "meson.build").read_text()
    match = re.search(r"version: '([^']+)'", build)
    assert match
    assert recipe(name).stem == f"{name}_{match[1]}"


@pytest.mark.parametrize(
    ("name", "sysusers"),
    [
        ("evenkeel-recorder", "recipes/recorder/units/ek-recorder.sysusers"),
        ("evenkeel-webui", "webui/systemd/evenkeel-panel.sysusers"),
        ("evenkeel-demo", "recipes/demo/units/evenkeel-demo.sysusers"),
    ],
)
def test_users_are_those_of_sysusers(name: str, sysusers: str) -> None:
    text = recipe(name).read_text()
    user = value(text, "USERADD_PARAM:${PN}").replace("${localstatedir}", "/var")
    seen = 0
    for line in (TOP / sysusers).read_text().splitlines():
        match = re.fullmatch(r'u!?\s+(\S+)\s+(\S+)\s+"([^"]+)"(?:\s+(\S+)\s+(\S+))?', line)
        if match:
            who, number, comment, home, _ = match.groups()
            assert user.split()[-1] == who
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
            assert value(text, "GROUPADD_PARAM:${PN}").split()[-3:] == ["--gid", match[2], match[1]]
            seen += 1
    assert seen, sysusers


def test_users_whose_files_outlive_the_image_have_numbers_that_stay() -> None:
    """Another image would give them others, and its services could not open the files."""
    users: dict[str, str] = {}
    owners: set[str] = set()
    for room in ROOMS.values():
        for path in (TOP / room).rglob("*.sysusers"):
            users |= re.findall(r"^u!?\s+(\S+)\s+(\S+)", path.read_text(), re.MULTILINE)
        for path in (TOP / room).rglob("*.tmpfiles"):
            owners |= set(re.findall(r"^[a-zA-Z-]+\s+/\S+\s+\S+\s+(\S+)", path.read_text(), re.MULTILINE))
        for path in [*(TOP / room).rglob("*.service"), *(TOP / room).rglob("*.service.in")]:
            unit = path.read_text()
            if re.search(r"^(Logs|State)Directory=", unit, re.MULTILINE):
                owners |= set(re.findall(r"^User=(.*)$", unit, re.MULTILINE))
    lasting = owners - {"root"}
    assert lasting == {"ek-recorder", "evenkeel-panel"}
    numbers = [users[name].partition(":")[0] for name in lasting]
    assert all(number.isdecimal() for number in numbers), users
    assert len(set(numbers)) == len(numbers)


@pytest.mark.parametrize("name", ROOMS)
def test_units_that_can_be_enabled_are_enabled(name: str) -> None:
    """SYSTEMD_SERVICE has each unit with an [Install] section, but the board's: presets enable those."""
    room = TOP / ROOMS[name]
    units = {
        path.name.removesuffix(".in")
        for path in room.rglob("*")
        if path.name.removesuffix(".in").rpartition(".")[2] in ("service", "socket", "target", "timer")
        and path.is_file()
        and "\n[Install]" in path.read_text()
    }
    if name == "evenkeel-board":
        preset = (room / "rootfs/usr/lib/systemd/system-preset/10-evenkeel.preset").read_text()
        assert units == {unit for unit in units if f"enable {unit}\n" in preset}
        return
    text = recipe(name).read_text()
    named = set(value(text, "SYSTEMD_SERVICE:${PN}").split()) if "SYSTEMD_SERVICE" in text else set()
    assert named == units


# units of others that our preset enables, and whose package must be there; None: every systemd has it
OTHERS = {
    # another D-Bus may be the distribution's
    "dbus-broker.service": None,
    # OE-Core's util-linux has none: the board's, by PACKAGECONFIG
    "fstrim.timer": None,
    "nginx.service": ("evenkeel-webui", "nginx"),
    "systemd-networkd.service": None,
    "systemd-networkd.socket": None,
}


def test_units_that_the_preset_enables_are_there() -> None:
    """OE-Core splits what Debian has in one package: a unit that is missing is enabled without a word."""
    preset = (TOP / "recipes/image/rootfs/usr/lib/systemd/system-preset/10-evenkeel.preset").read_text()
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
    packages = json.loads((TOP / "webui/static-deps/package-lock.json").read_text())["packages"]
    text = recipe("evenkeel-webui").read_text()
    assert value(text, "HTMX_VERSION") == packages["node_modules/htmx.org"]["version"]
    assert value(text, "UPLOT_VERSION") == packages["node_modules/uplot"]["version"]


def test_partitions_are_those_of_the_fast_image() -> None:
    """Order, names and PARTUUIDs; sizes by default."""
    genimage = (TOP / "recipes/image/genimage.cfg").read_text()
    build = (TOP / "recipes/image/build").read_text()
    image = genimage[genimage.index("image evenkeel-x86_64.img") :]
    wanted = re.findall(r"partition (\S+) \{.*?partition-uuid = (\S+)", image, re.DOTALL)
    wks = (LAYER / "files/wic/evenkeel.wks.in").read_text()
    assert re.findall(r"--part-name (\S+) .*--uuid (\S+)", wks) == wanted
    classes = (LAYER / "classes-recipe/evenkeel_image.bbclass").read_text()
    for variable, file in (("ROOT", "root"), ("RECORDER", "recorder"), ("DATA", "data")):
        assert f"{file}.ext4 {value_weak(classes, f'EVENKEEL_{variable}_MB')}M" in build


@pytest.mark.parametrize("label", ["root", "bootstate", "recorder", "data"])
def test_file_systems_are_those_of_the_fast_image(label: str) -> None:
    """UUID and hash seed are fixed: the same files give the same bytes."""
    build = (TOP / "recipes/image/build").read_text()
    wanted = re.search(rf"^ext4\S* {label}\.ext4 \d+M (\S+)", build, re.MULTILINE)
    assert wanted
    uuid = wanted[1]
    ours = (LAYER / "classes-recipe/evenkeel_image.bbclass").read_text() + recipe(
        "evenkeel-bootloader"
    ).read_text()
    command = re.search(rf"(-L {label}\b(?:.*\\\n)*.*-U|-U) {uuid}\b(?:.*\\\n)*.*", ours)
    assert command, f"nothing of ours has {uuid}"
    assert f"-L {label}" in command[0]
    assert ours.count(f"hash_seed={uuid}") == 1


def value_weak(text: str, name: str) -> str:
    match = re.search(rf'^{name} \?= "([^"]*)"', text, re.MULTILINE)
    assert match, name
    return match[1]


def imports(folder: Path) -> set[str]:
    """Modules of Python's own library that the programs of a folder load."""
    found: set[str] = set()
    for path in folder.rglob("*.py"):
        # for development, and not installed
        if path.name in ("dev.py", "fake_agent.py", "testing.py"):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                found |= {name.name.split(".")[0] for name in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                found.add(node.module.split(".")[0])
    return found & sys.stdlib_module_names


# OE-Core splits Python's library into packages; of what our programs load, which package has it where
# that is not python3-core, as in scarthgap. Later series have more in core.
PARTS = {
    "asyncio": "asyncio",
    "concurrent": "asyncio",
    "ctypes": "ctypes",
    "datetime": "datetime",
    "fcntl": "fcntl",
    "hashlib": "crypt",
    "hmac": "netclient",
    "html": "html",
    "json": "json",
    "logging": "logging",
    "random": "math",
    "secrets": "netclient",
    "socket": "io",
    "sqlite3": "sqlite3",
    "ssl": "io",
    "tempfile": "io",
    "tomllib": "tomllib",
}
CORE = {
    *("__future__", "argparse", "collections", "contextlib", "dataclasses", "errno", "functools"),
    *(
        "importlib",
        "ipaddress",
        "itertools",
        "math",
        "os",
        "pathlib",
        "pwd",
        "re",
        "shutil",
        "signal",
        "stat",
    ),
    *("struct", "subprocess", "sys", "threading", "time", "types", "typing", "unicodedata", "zlib"),
}
PROGRAMS = pytest.mark.parametrize(
    ("name", "package", "folder"),
    [
        ("evenkeel-agent", "${PN}", "recipes/agent/evenkeel_agent"),
        ("evenkeel-webui", "${PN}", "webui/evenkeel_panel"),
        ("evenkeel-recorder", "python3-ek-recorder", "recipes/recorder/python/ek_recorder"),
    ],
)


# what they import themselves and their recipes do not say: dbus-fast's begins with xml.etree
ALSO = {"python3-dbus-fast": {"python3-xml"}}


@PROGRAMS
def test_what_python_imports_is_depended_on(name: str, package: str, folder: str) -> None:
    loaded = imports(TOP / folder)
    unknown = loaded - PARTS.keys() - CORE
    assert not unknown, "python3-manifest.json of OE-Core says where: add it to PARTS or CORE"
    wanted = {"python3-core", *(f"python3-{PARTS[module]}" for module in loaded & PARTS.keys())}
    assert len(wanted) > 2
    listed = set(value(recipe(name).read_text(), f"RDEPENDS:{package}").split())
    assert wanted | {part for module in listed & ALSO.keys() for part in ALSO[module]} <= listed


@PROGRAMS
def test_what_python_imports_is_where_oe_core_has_it(
    series: Series, name: str, package: str, folder: str
) -> None:
    """The same by the series' own list."""
    text = (series.oecore / "meta/recipes-devtools/python/python3/python3-manifest.json").read_text()
    manifest = json.loads("\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#")))
    owner: dict[str, str] = {}
    for part, content in manifest.items():
        # python3-modules has all of them
        if part in ("modules", "misc"):
            continue
        for file in content["files"]:
            owner.setdefault(file.rstrip("/").rpartition("/")[2].split(".")[0], part)
    wanted = {f"python3-{owner[module]}" for module in imports(TOP / folder) if module in owner}
    assert len(wanted) > 2
    assert wanted <= set(value(recipe(name).read_text(), f"RDEPENDS:{package}").split())


def test_rule_lies_where_udev_looks(tmp_path: Path) -> None:
    """With usrmerge and without."""
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


def test_scheduler_alone_brings_no_settings_but_its_own() -> None:
    """How a product panics, and what it hides from whom, is its own."""
    group = LAYER / "recipes-core/packagegroups/packagegroup-evenkeel-scheduler.bb"
    taken = set(value(group.read_text(), "RDEPENDS:${PN}").split())
    parts = packages(recipe("evenkeel-conf"))
    for path in (TOP / "conf/sysctl.d").iterdir():
        owner = parts.owner(f"/usr/lib/sysctl.d/{path.name}")
        assert (owner in taken) == (path.name == "60-evenkeel.conf"), (path.name, owner)


def test_recipe_for_all_machines_hangs_on_none() -> None:
    """What an allarch recipe depends on is part of its hash, so that each machine would build it anew.

    Only package groups are excepted (OE-Core, lib/oe/sstatesig.py).
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
    """A VARIABLE of a recipe that hangs on the series."""
    match = re.search(rf'^{variable} = "\$\{{@(.*)\}}"$', file.read_text(), re.MULTILINE)
    assert match

    def contains(variable: str, words: str, yes: str, no: str, _: object) -> str:
        assert variable == "LAYERSERIES_CORENAMES"
        return yes if set(words.split()) <= {series} else no

    bb = SimpleNamespace(utils=SimpleNamespace(contains=contains))
    return str(eval(match[1], {"bb": bb, "d": None}))  # noqa: S307  # of our own recipe


def owns_rules(series: str) -> bool:
    """Whether evenkeel-agent keeps the folder of polkit's rules for polkitd in a series."""
    return {"true": True, "false": False}[
        in_series(series, recipe("evenkeel-agent"), "EVENKEEL_POLKIT_OWNS_RULES")
    ]


@pytest.mark.parametrize(
    ("name", "owns"), [("scarthgap", True), ("walnascar", False), ("whinlatter", False), ("wrynose", False)]
)
def test_folder_of_rules_is_polkits_as_its_recipe_has_it(name: str, owns: bool) -> None:
    """Both packages have the folder: rpm refuses two owners of it, and the later of two modes would win."""
    assert owns_rules(name) == owns


def test_networkd_is_named_where_it_is_a_package(series: Series) -> None:
    """systemd only recommends it, and a product may build without recommendations."""
    (systemd,) = (series.oecore / "meta/recipes-core/systemd").glob("systemd_*.bb")
    apart = bool(re.search(r"^FILES:\$\{PN\}-networkd", systemd.read_text(), re.MULTILINE))
    group = LAYER / "recipes-core/packagegroups/packagegroup-evenkeel.bb"
    named = in_series(series.name, group, "EVENKEEL_NETWORKD")
    assert named == ("systemd-networkd" if apart else "")


def test_folder_of_rules_is_as_the_series_has_it(series: Series) -> None:
    series.needs("METAOE")
    assert series.metaoe
    (polkit,) = (series.metaoe / "meta-oe/recipes-extended/polkit").glob("polkit_*.bb")
    kept = re.search(
        r"^\s*chown polkitd:root \$\{D\}/?\$\{datadir\}/polkit-1/rules.d$", polkit.read_text(), re.MULTILINE
    )
    assert owns_rules(series.name) == bool(kept)


@pytest.mark.parametrize("clone", ["/home/me/evenkeel", ""])
def test_time_of_what_is_built_is_not_that_of_a_checkout(clone: str) -> None:
    """A commit that was fetched keeps its own, which OE-Core has found."""
    text = (LAYER / "classes-recipe/evenkeel_room.bbclass").read_text()
    assert 'do_unpack[postfuncs] += "evenkeel_source_date_epoch"' in text
    match = re.search(r"^python evenkeel_source_date_epoch\(\) \{\n(.*?)^\}", text, re.MULTILINE | re.DOTALL)
    assert match
    written: list[tuple[int, str]] = []
    oe = SimpleNamespace(
        reproducible=SimpleNamespace(epochfile_write=lambda time, file, _: written.append((time, file)))
    )
    values = {"EVENKEEL_SRC": clone, "SDE_FILE": "epoch.txt", "SOURCE_DATE_EPOCH_FALLBACK": "1302044400"}
    exec(textwrap.dedent(match[1]), {"oe": oe, "d": SimpleNamespace(getVar=values.get)})  # noqa: S102  # of our own class
    assert written == ([(1302044400, "epoch.txt")] if clone else [])


def console(consoles: str, arch: str) -> object:
    """EVENKEEL_CONSOLE of a machine with these SERIAL_CONSOLES."""
    text = (LAYER / "classes-recipe/evenkeel_console.bbclass").read_text()
    match = re.search(r"^(def evenkeel_console.*)", text, re.MULTILINE | re.DOTALL)
    assert match
    scope: dict[str, object] = {}
    exec(match[1], scope)  # noqa: S102  # of our own class
    function = scope["evenkeel_console"]
    assert callable(function)
    return function(SimpleNamespace(getVar={"SERIAL_CONSOLES": consoles, "TARGET_ARCH": arch}.get))


@pytest.mark.parametrize(
    ("consoles", "kernel", "unit"),
    [
        ("115200;ttyAMA0 115200;hvc0", "ttyAMA0,115200", "/dev/ttyAMA0"),
        ("1500000;ttyS2", "ttyS2,1500000", "/dev/ttyS2"),
        # a machine that names none: its firmware says which
        ("", "none", "/dev/console"),
    ],
)
def test_console_is_the_machines(tmp_path: Path, consoles: str, kernel: str, unit: str) -> None:
    """The kernel's, and that of the shell which tests ask for."""
    assert console(consoles, "aarch64") == kernel
    expect_shell_on(tmp_path, kernel, unit)


def test_console_of_an_x86_machine_that_names_none() -> None:
    """Its kernel does not ask the firmware."""
    assert console("", "x86_64") == "ttyS0,115200"


def test_several_consoles_end_with_the_boards_own(tmp_path: Path) -> None:
    expect_shell_on(tmp_path, "tty0 ttymxc1,115200", "/dev/ttymxc1")


def test_console_that_is_set_to_nothing_is_the_kernels_own(tmp_path: Path) -> None:
    expect_shell_on(tmp_path, "", "/dev/console")


def expect_shell_on(tmp_path: Path, consoles: str, unit: str) -> None:
    """What evenkeel-board makes of EVENKEEL_CONSOLE."""
    name = "usr/lib/systemd/system/evenkeel-console.service"
    (tmp_path / name).parent.mkdir(parents=True)
    (tmp_path / name).write_text((TOP / "recipes/image/rootfs" / name).read_text())
    match = re.search(
        r"^do_install:append\(\) \{\n(.*?)^\}", recipe("evenkeel-board").read_text(), re.MULTILINE | re.DOTALL
    )
    assert match
    inline = re.search(r"\$\{@(.*?)\}", match[1])
    assert inline
    port = eval(inline[1], {"d": SimpleNamespace(getVar={"EVENKEEL_CONSOLE": consoles}.get)})  # noqa: S307  # of our own recipe
    body = match[1].replace(inline[0], port)
    values = {"D": str(tmp_path), "systemd_system_unitdir": "/usr/lib/systemd/system"}
    body = re.sub(r"\$\{(\w+)\}", lambda found: values[found[1]], body)
    subprocess.run(["sh", "-eu", "-c", body], check=True)
    assert f"\nTTYPath={unit}\n" in (tmp_path / name).read_text()


# --- the module's check of its kernel ----------------------------------------------


def configure(tmp_path: Path, version: str, config: str) -> tuple[int, str]:
    """do_configure of evenkeel-module beside a kernel that says so: exit code and output."""
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
def test_old_kernel_is_refused_with_the_version_that_is_needed(tmp_path: Path, version: str) -> None:
    status, said = configure(tmp_path, version, GOOD)
    assert status == 1
    assert f"evenkeel-module needs Linux 6.12 or later, and linux-yocto is {version}" in said


def test_kernel_without_cgroups_is_refused(tmp_path: Path) -> None:
    status, said = configure(tmp_path, "6.12.80", "CONFIG_64BIT=y\n")
    assert status == 1
    assert "needs CONFIG_BLK_CGROUP=y" in said


def test_iocost_is_warned_of(tmp_path: Path) -> None:
    status, said = configure(tmp_path, "6.18.39", GOOD + "CONFIG_BLK_CGROUP_IOCOST=y\n")
    assert status == 0
    assert "WARNING" in said
    assert "io.evenkeel.weight" in said
