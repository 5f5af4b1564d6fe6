# SPDX-License-Identifier: Apache-2.0
"""The kernel configuration of linux-evenkeel: the fragments of a variant, and the options that a product adds."""

from __future__ import annotations

import re
import subprocess
import textwrap
from pathlib import Path
from types import SimpleNamespace

import pytest
from conftest import TOP
from recipe_text import recipe

TEXT = recipe("linux-evenkeel").read_text()
# Fakes for the shell functions that the recipe calls. The fake of Kconfig takes the last assignment of an option.
KCONFIG = """\
oe_runmake_call() { sed -n 's/^CONFIG_/&/p' "$KCONFIG_ALLCONFIG" | tac | awk -F= '!seen[$1]++' | grep -v '=n$' > B/.config; }
bbfatal() { echo "ERROR: $*" >&2; exit 1; }
"""


def configure(work: Path, product: str = "", variant: str = "board") -> subprocess.CompletedProcess[str]:
    """Run KERNEL_CONFIG_COMMAND in `work` with a product's fragment. It writes work/B/.config."""
    match = re.search(r"^evenkeel_configure_kernel\(\) \{\n(.*?)^\}", TEXT, re.MULTILINE | re.DOTALL)
    assert match
    (work / "B").mkdir(exist_ok=True)
    (work / "product.cfg").write_text(product)
    values = {
        "B": "B",
        "EVENKEEL_S": str(TOP),
        "EVENKEEL_KERNEL_FRAGMENTS": "product.cfg" if product else "",
        "EVENKEEL_KERNEL_VARIANT": variant,
        "LINUX_VERSION": "6.12.80",
    }
    body = re.sub(r"\$\{([A-Z_]+)\}", lambda name: values.get(name[1], ""), match[1])
    return subprocess.run(["sh", "-e", "-c", KCONFIG + body], cwd=work, capture_output=True, text=True)


def options(work: Path) -> dict[str, str]:
    return dict(line.split("=", 1) for line in (work / "B/.config").read_text().splitlines())


def test_product_adds_and_overrides(tmp_path: Path) -> None:
    product = (
        "CONFIG_USB_SERIAL=m\nCONFIG_MQ_IOSCHED_KYBER=y\n# CONFIG_IOSCHED_BFQ is not set\nCONFIG_IPV6=n\n"
    )
    done = configure(tmp_path, product)
    assert done.returncode == 0, done.stderr
    found = options(tmp_path)
    assert found["CONFIG_USB_SERIAL"] == "m"
    assert found["CONFIG_MQ_IOSCHED_KYBER"] == "y"
    assert "CONFIG_IOSCHED_BFQ" not in found
    assert "CONFIG_IPV6" not in found
    # Other options stay, even if their names begin with the name of a changed option.
    assert found["CONFIG_BLK_CGROUP"] == "y"
    assert "CONFIG_BLK_CGROUP_IOCOST" not in found
    assert found["CONFIG_BFQ_GROUP_IOSCHED"] == "y"


def test_option_that_does_not_survive_is_named(tmp_path: Path) -> None:
    """The check includes the product's options. Here product.cfg sets one option to two values, so one is lost."""
    done = configure(tmp_path, "CONFIG_USB_SERIAL=m\nCONFIG_USB_SERIAL=y\n")
    assert done.returncode == 1
    assert "product.cfg sets CONFIG_USB_SERIAL=m" in done.stderr


def test_variant_that_does_not_exist_is_named(tmp_path: Path) -> None:
    done = configure(tmp_path, variant="fast")
    assert done.returncode == 1
    assert "no variant fast for x86" in done.stderr


def offered() -> set[str]:
    """The variants that the recipe and the files in kas/ offer for an image."""
    texts = [TEXT, *(path.read_text() for path in (TOP / "kas").rglob("*.yml"))]
    named = {name for text in texts for name in re.findall(r'EVENKEEL_KERNEL_VARIANT \??= "(.*)"', text)}
    comment = re.search(r"^# the name of a line of conf/kernel/variants;.*\n(?:#.*\n)*", TEXT, re.MULTILINE)
    assert comment
    return named | set(re.findall(r"\bboard\b[a-z-]*", comment[0]))


def test_variant_for_an_image_can_boot_one() -> None:
    """Each variant for an image has all fragments of `board`, such as flash drivers, and Unix sockets for systemd."""
    lines = (TOP / "conf/kernel/variants").read_text().splitlines()
    variants = {line.partition(" ")[0]: line.partition(":")[2].split() for line in lines if line[0] != "#"}
    assert offered() == {"board", "board-debug"}
    for name in offered():
        assert set(variants["board"]) <= set(variants[name]), name
    assert set(variants["board-debug"]) - set(variants["board"]) == {"debug"}


def fragments_of(feature: str) -> set[str]:
    """The .cfg files of a feature of linux-yocto, including those of included features."""
    found: set[str] = set()
    for line in (TOP / f"conf/kernel/{feature}.scc").read_text().splitlines():
        match line.split():
            case ["kconf", "hardware" | "non-hardware", name]:
                found.add(name)
            case ["include", name]:
                found |= fragments_of(name.removesuffix(".scc"))
    return found


def test_features_of_linux_yocto_are_fragments_of_the_board() -> None:
    """The feature `evenkeel` must add neither other schedulers nor test devices to a product."""
    board = re.search(r"^board x86: (.*)$", (TOP / "conf/kernel/variants").read_text(), re.MULTILINE)
    assert board
    assert fragments_of("evenkeel") == {"cgroup.cfg", "alone.cfg"}
    assert fragments_of("evenkeel") < fragments_of("evenkeel-board") <= {f"{n}.cfg" for n in board[1].split()}


@pytest.mark.parametrize(
    ("uris", "fragments"),
    [
        ("file://conf/kernel;subdir=evenkeel https://host/linux.tar.xz;name=linux", ""),
        (
            "https://host/a.cfg file://usb.cfg file://more/net.cfg;x=y file://fix.patch",
            "U/usb.cfg U/more/net.cfg",
        ),
    ],
)
def test_fragments_of_an_append_are_found(uris: str, fragments: str) -> None:
    match = re.search(r"^(def evenkeel_kernel_fragments.*?)^$", TEXT, re.MULTILINE | re.DOTALL)
    assert match
    scope: dict[str, object] = {}
    exec(textwrap.dedent(match[1]), scope)  # noqa: S102  # text of our own recipe
    variables = {"SRC_URI": uris, "EVENKEEL_UNPACKDIR": "U"}
    function = scope["evenkeel_kernel_fragments"]
    assert callable(function)
    assert function(SimpleNamespace(getVar=variables.get)) == fragments
