# SPDX-License-Identifier: Apache-2.0
"""Weights: whole numbers from 1 to 10000, as the cgroup file io.weight accepts them."""

from evenkeel_api.features.apps import WEIGHT_DEFAULT as DEFAULT
from evenkeel_api.features.apps import WEIGHT_MAX as MAX
from evenkeel_api.features.apps import WEIGHT_MIN as MIN
from evenkeel_api.messages import Message

__all__ = ["DEFAULT", "MAX", "MIN", "RULE", "from_text", "in_force", "problem"]
RULE = f"a whole number from {MIN} to {MAX}"


def problem(value: object) -> Message | None:
    """Why VALUE is not a weight; None if it is one. A bool is not a weight, although Python counts it as an int."""
    if type(value) is not int:
        return Message("weight-not-a-number", value=repr(value))
    if not MIN <= value <= MAX:
        # A huge number is not shown: Python refuses to convert it to text.
        shown = str(value) if value.bit_length() <= 64 else "a far larger number"
        return Message("weight-not-a-number", value=shown)
    return None


def from_text(text: str) -> int | None:
    """The number in TEXT if it consists of digits only, else None. The number may be out of range."""
    if text.isascii() and text.isdigit() and len(text) <= 20:
        return int(text)
    return None


def in_force(content: str, weight: int) -> bool:
    """Whether CONTENT, the text of io.weight, sets WEIGHT on every device.

    Lines are "default W" and "MAJ:MIN W". A line for a device overrides the default on that device. So WEIGHT is in
    force only if all lines have it.
    """
    found = False
    for line in content.splitlines():
        fields = line.split()
        if not fields:
            continue
        if len(fields) != 2 or from_text(fields[1]) != weight:
            return False
        found = True
    return found
