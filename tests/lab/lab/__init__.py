# SPDX-License-Identifier: Apache-2.0
"""The lab: exact I/O experiments in a virtual machine on a virtual clock."""

import sys
from pathlib import Path

# evenkeel_report, which the lab shares with ek-validate. The lab is not installed: it runs from the source tree.
sys.path.append(str(Path(__file__).resolve().parents[3] / "recipes/validate/src"))
