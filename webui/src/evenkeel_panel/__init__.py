# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: PTH100, PTH113, PTH118, PTH120, PTH123
"""The web panel of an Evenkeel board.

The panel has no privileges. It owns panel.db and asks the agent over D-Bus for everything else.
This module imports nothing but os: first boot runs as root and loads the package without Flask.
"""

import os


def _version() -> str:
    """From the file VERSION, which is next to an installed package, or at the top of a clone."""
    folder = os.path.dirname(os.path.abspath(__file__))
    while not os.path.isfile(os.path.join(folder, "VERSION")):
        if folder == os.path.dirname(folder):
            return "unknown"
        folder = os.path.dirname(folder)
    with open(os.path.join(folder, "VERSION"), encoding="ascii") as file:
        return file.read().strip()


__version__ = _version()
