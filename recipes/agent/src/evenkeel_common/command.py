# SPDX-License-Identifier: Apache-2.0
"""Runs a program of the system for a helper. Neither the agent nor the panel runs programs."""

import subprocess
from collections.abc import Container, Sequence


def run(command: Sequence[str], limit_s: float, success: Container[int] = (0,)) -> str:
    """What COMMAND prints on stdout. Its exit status must be in SUCCESS. Ctrl+C in a terminal does not reach it.

    Raises OSError with the reason if COMMAND cannot be started, takes longer than LIMIT_S, or has another exit status.
    """
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=limit_s,
            start_new_session=True,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise OSError(f"{command[0]} did not end within {limit_s:g} s") from None
    if done.returncode not in success:
        raise OSError(done.stderr.strip()[-300:] or f"{command[0]} ended with status {done.returncode}")
    return done.stdout
