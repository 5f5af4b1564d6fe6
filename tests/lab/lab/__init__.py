# SPDX-License-Identifier: Apache-2.0
"""The lab: exact I/O experiments in a virtual machine on a virtual clock."""

import sys
from pathlib import Path

# evenkeel_report, which the lab shares with ek-validate; the simulator of evenkeel_pagepool and the attribution of
# evenkeel_history, which need evenkeel_common of the agent. The lab is not installed: it runs from the source tree.
_RECIPES = Path(__file__).resolve().parents[3] / "recipes"
sys.path += [str(_RECIPES / name / "src") for name in ("validate", "pagepool", "history", "agent")]
