# SPDX-License-Identifier: Apache-2.0
"""The web panel of an Evenkeel board.

Unprivileged: it owns panel.db, and for everything else it asks the agent over
D-Bus. This module stays free of imports, because first boot (root, before the
panel) loads the package without Flask.
"""

__version__ = "0.1.0"
