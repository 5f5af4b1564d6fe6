# SPDX-License-Identifier: Apache-2.0
"""What a weight is: a whole number from 1 to 10000, as the cgroup file io.weight takes it."""

MIN = 1
MAX = 10000
DEFAULT = 100
RULE = f"a whole number from {MIN} to {MAX}"


def problem(value: object) -> str | None:
    """Why VALUE is no weight, or None. A bool is refused though Python counts it as an int."""
    if type(value) is not int:
        return f"weight must be {RULE}, not {value!r:.60}"
    if not MIN <= value <= MAX:
        # a huge number may not even be printable: Python limits the digits that it converts
        shown = str(value) if value.bit_length() <= 64 else "a far larger number"
        return f"weight must be {RULE}, not {shown}"
    return None


def from_text(text: str) -> int | None:
    """The number written in TEXT in plain digits, else None; it may still be out of range."""
    if text.isascii() and text.isdigit() and len(text) <= 20:
        return int(text)
    return None


def in_force(content: str, weight: int) -> bool:
    """Whether io.weight, with this CONTENT, gives WEIGHT on every device.

    Lines are "default W" and "MAJ:MIN W"; a device line overrides the default there, so one that
    differs means the weight is not in force.
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
