# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: PTH100, PTH113, PTH118, PTH120, PTH123
"""The agent: evenkeeld, the board's service with D-Bus interface org.evenkeel.Agent1, and ekctl."""

import os


def _version() -> str:
    """The content of the file VERSION, which is in the folder of an installed package, or at the top of a clone.

    Without such a file: "unknown".
    """
    folder = os.path.dirname(os.path.abspath(__file__))
    while not os.path.isfile(os.path.join(folder, "VERSION")):
        if folder == os.path.dirname(folder):
            return "unknown"
        folder = os.path.dirname(folder)
    with open(os.path.join(folder, "VERSION"), encoding="ascii") as file:
        return file.read().strip()


__version__ = _version()
