# SPDX-License-Identifier: Apache-2.0
"""What agent and history keep out of their memory when they start as their units start them."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

COMPONENT = Path(__file__).resolve().parent.parent
HISTORY = COMPONENT.parent / "history"
# Runs the program as far as its settings, then prints what it has loaded, and what it hashes with.
CODE = """
import runpy, sys, evenkeel_agent.settings
class Settings:
    def __init__(self, **_):
        sys.exit()
evenkeel_agent.settings.Settings = Settings
del sys.argv[0]
try:
    runpy.run_path(sys.argv[0])
except SystemExit:
    pass
print(*sys.modules)
import hashlib, hmac
print(hashlib.sha256(b"").hexdigest(), hmac.digest(b"key", b"text", "sha256").hex())
print(open("/proc/self/maps").read())
"""


def _loaded(program: Path) -> tuple[set[str], list[str], str]:
    """The modules that PROGRAM has loaded, two digests, and its memory map."""
    found = subprocess.run(
        [sys.executable, "-c", CODE, str(program)],
        env={"PYTHONPATH": ":".join([*sys.path, str(HISTORY / "src")])},
        capture_output=True,
        text=True,
        check=True,
    )
    modules, digests, maps = found.stdout.split("\n", 2)
    return set(modules.split()), digests.split(), maps


def test_the_agent_does_not_load_openssl() -> None:
    modules, digests, maps = _loaded(COMPONENT / "src/evenkeeld")
    assert "evenkeel_agent.accounts" in modules, "the agent has loaded its modules"
    assert "libcrypto" not in maps
    assert "libssl" not in maps
    assert digests == [
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        "6afa9046a9579cad143a384c1b564b9a250d27d6f6a63f9f20bf3a7594c9e2c6",
    ]


@pytest.mark.parametrize(
    ("program", "unit"),
    [
        (COMPONENT / "src/evenkeeld", COMPONENT / "data/evenkeeld.service"),
        (HISTORY / "src/evenkeel-history", HISTORY / "data/evenkeel-history.service"),
    ],
)
def test_without_options_the_parser_of_options_is_not_loaded(program: Path, unit: Path) -> None:
    assert re.search(f"^ExecStart=/usr/bin/{program.name}$", unit.read_text(), re.MULTILINE)
    modules, _, _ = _loaded(program)
    assert "evenkeel_agent.settings" in modules
    assert "argparse" not in modules
