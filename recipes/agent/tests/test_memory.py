# SPDX-License-Identifier: Apache-2.0
"""What the agent keeps out of its memory."""

import subprocess
import sys
from pathlib import Path

PROGRAM = Path(__file__).resolve().parent.parent / "src/evenkeeld"
# Runs the program as far as its options, then prints which libraries it has loaded, and what it hashes with.
CODE = """
import runpy, sys
try:
    runpy.run_path(sys.argv[1])
except SystemExit:
    pass
import hashlib, hmac
print(hashlib.sha256(b"").hexdigest(), hmac.digest(b"key", b"text", "sha256").hex())
print(open("/proc/self/maps").read())
"""


def test_the_agent_does_not_load_openssl() -> None:
    found = subprocess.run(
        [sys.executable, "-c", CODE, str(PROGRAM), "--no-such-option"],
        env={"PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )
    digests, _, maps = found.stdout.partition("\n")
    assert "_core.cpython" in maps, "the agent has loaded its modules"
    assert "libcrypto" not in maps
    assert "libssl" not in maps
    assert digests.split() == [
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        "6afa9046a9579cad143a384c1b564b9a250d27d6f6a63f9f20bf3a7594c9e2c6",
    ]
