# SPDX-License-Identifier: Apache-2.0
"""check-config: if Kconfig drops or changes an option of a fragment, the build fails and names the option.

fragment: options get the names that they have in the kernel's version.
"""

import subprocess
from pathlib import Path

import pytest

KERNEL = Path(__file__).resolve().parents[1]
FRAGMENTS = KERNEL.parents[1] / "conf/kernel"


def check(config: str, fragment: str, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    (tmp_path / ".config").write_text(config)
    (tmp_path / "wish.cfg").write_text(fragment)
    return subprocess.run(
        [str(KERNEL / "src/check-config"), str(tmp_path / ".config"), str(tmp_path / "wish.cfg")],
        capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("config", "wish", "has"),
    [
        ("# CONFIG_A is not set\n", "CONFIG_A=y\n", "n"),
        ("", "CONFIG_A=m\n", "n"),
        ("CONFIG_A=m\n", "CONFIG_A=y\n", "m"),
        ("CONFIG_A=y\n", "CONFIG_A=n\n", "y"),
        ("CONFIG_A=8\n", "CONFIG_A=16\n", "8"),
        ("CONFIG_AB=y\n", "CONFIG_A=y\n", "n"),
    ],
)
def test_a_lost_option_is_named(config: str, wish: str, has: str, tmp_path: Path) -> None:
    out = check(config, wish, tmp_path)
    assert out.returncode == 1
    assert out.stderr == f"kernel: wish.cfg sets {wish.strip()}, but the finished configuration has {has}\n"


def test_a_complete_configuration_passes(tmp_path: Path) -> None:
    out = check(
        "CONFIG_A=y\nCONFIG_B=m\n# CONFIG_C is not set\n",
        "# a comment\n\nCONFIG_A=y\nCONFIG_B=m\nCONFIG_C=n\n",
        tmp_path,
    )
    assert (out.returncode, out.stderr) == (0, "")


def test_every_fragment_belongs_to_a_variant_and_exists() -> None:
    used = set()
    for line in (FRAGMENTS / "variants").read_text().splitlines():
        if line and not line.startswith("#"):
            used |= set(line.split(":")[1].split())
    assert used == {f.stem for f in FRAGMENTS.glob("*.cfg")}


def test_fragments_of_a_variant_do_not_contradict_each_other() -> None:
    for line in (FRAGMENTS / "variants").read_text().splitlines():
        if not line or line.startswith("#"):
            continue
        wishes: dict[str, str] = {}
        for name in line.split(":")[1].split():
            for wish in (FRAGMENTS / f"{name}.cfg").read_text().splitlines():
                if wish.startswith("CONFIG_"):
                    option, _, value = wish.partition("=")
                    assert wishes.setdefault(option, value) == value, (
                        f"{option} has two values in {line.split(':')[0]}"
                    )


def fragment(release: str, wish: str, renamed: str, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    (tmp_path / "wish.cfg").write_text(wish)
    (tmp_path / "renamed").write_text(renamed)
    return subprocess.run(
        [str(KERNEL / "src/fragment"), release, str(tmp_path / "wish.cfg"), str(tmp_path / "renamed")],
        capture_output=True, text=True, check=False,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("release", "expected"),
    [
        ("6.12.117", "CONFIG_A=y\nCONFIG_AB=y\nCONFIG_B=m\n"),
        ("7.2.12", "CONFIG_A=y\nCONFIG_AB=y\nCONFIG_B=m\n"),
        ("7.3.4", "CONFIG_X=y\nCONFIG_AB=y\nCONFIG_B=m\n"),
        ("7.10.1", "CONFIG_X=y\nCONFIG_AB=y\n# not in 7.10.1: CONFIG_B=m\n"),
    ],
)
def test_a_renamed_option_gets_its_new_name(release: str, expected: str, tmp_path: Path) -> None:
    renamed = "# a comment\n\n7.3 CONFIG_A=y CONFIG_X=y\n7.10 CONFIG_B=m -\n"
    out = fragment(release, "CONFIG_A=y\nCONFIG_AB=y\nCONFIG_B=m\n", renamed, tmp_path)
    assert (out.returncode, out.stdout, out.stderr) == (0, expected, "")


@pytest.mark.parametrize("line", ["7.3 CONFIG_A=y", "7.3 A=y CONFIG_B=y", "CONFIG_A=y CONFIG_B=y"])
def test_a_damaged_list_of_renamed_options_is_refused(line: str, tmp_path: Path) -> None:
    out = fragment("7.3", "CONFIG_A=y\n", line + "\n", tmp_path)
    assert out.returncode == 1
    assert out.stderr.startswith("kernel: renamed: '")
    assert out.stderr.endswith("does not have the form SINCE OLD NEW\n")


def test_every_renamed_option_is_in_some_fragment() -> None:
    asked = {line for f in FRAGMENTS.glob("*.cfg") for line in f.read_text().splitlines()}
    renamed = (FRAGMENTS / "renamed").read_text().splitlines()
    assert [old for _, old, _ in (r.split() for r in renamed if r and r[0] != "#") if old not in asked] == []
