# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: PTH100, PTH113, PTH118, PTH120, PTH123
"""The web panel of an Evenkeel board.

The panel has no privileges. It stores only its own settings (settings.db). For everything else, it calls the agent over
D-Bus. This module imports only os, because firstboot.py runs as root and loads the package without Flask.
"""

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
