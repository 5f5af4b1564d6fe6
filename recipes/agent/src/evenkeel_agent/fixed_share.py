# SPDX-License-Identifier: Apache-2.0
"""Fixed shares: a percentage of each flash device, as the cgroup file io.evenkeel.fixed accepts it.

Also evaluates the counters of a group with a fixed share: which part of the fixed share the app used, and
whether the scheduler delivers the fixed share.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from evenkeel_api.features.apps import FIXED_SHARE_MAX as MAX
from evenkeel_api.features.apps import FIXED_SHARE_MIN as MIN
from evenkeel_api.features.apps import FIXED_SHARE_OFF as OFF
from evenkeel_api.messages import Message

__all__ = ["MAX", "MIN", "OFF", "RULE", "Counters", "Usage", "from_text", "in_force", "problem", "usage"]
RULE = f"a whole number of percent from {MIN} to {MAX}"

# The scheduler is behind if requests take this many times their ideal time. The scheduler itself aims at
# 1.014. Late requests alone mean nothing, because the next requests make up for them.
SLOW = 1.05
# In addition, this part of the requests must be late. Otherwise a burst would look the same, because its
# requests wait for each other.
LATE = 0.1


def problem(value: object) -> Message | None:
    """Why VALUE is not a fixed share, or None if it is one or OFF. A bool is refused, although it is an int."""
    if type(value) is not int:
        return Message("fixed-share-not-a-number", value=repr(value))
    if value != OFF and not MIN <= value <= MAX:
        # Python refuses to convert a huge number to text.
        shown = str(value) if value.bit_length() <= 64 else "a far larger number"
        return Message("fixed-share-not-a-number", value=shown)
    return None


def from_text(text: str) -> int | None:
    """The percentage in TEXT, written as "10", "10%", "10 %" or "off"; else None. It may be out of range.

    0 gives None: a reader would take it for "no I/O at all", but it means "no limit".
    """
    if text == "off":
        return OFF
    digits = text.removesuffix("%").rstrip(" ")
    if digits.isascii() and digits.isdigit() and len(digits) <= 9:
        return int(digits) or None
    return None


def in_force(content: str, devices: Iterable[str], percent: int) -> bool:
    """Whether io.evenkeel.fixed with this CONTENT sets PERCENT for each of DEVICES ("MAJ:MIN").

    A line is "MAJ:MIN PERCENT". A device without a line has no fixed share. If DEVICES is empty, only OFF is
    in force.
    """
    numbers = list(devices)
    lines = dict(line.split(" ", 1) for line in content.splitlines() if " " in line)
    if percent == OFF:
        return not any(number in lines for number in numbers)
    return bool(numbers) and all(lines.get(number) == str(percent) for number in numbers)


@dataclass(slots=True)
class Counters:
    """Increase of a group's fixed_* counters in io.evenkeel.stat, on one device, over some time."""

    ios: int = 0
    late: int = 0
    ideal_us: int = 0
    actual_us: int = 0

    def add(self, other: "Counters") -> None:
        self.ios += other.ios
        self.late += other.late
        self.ideal_us += other.ideal_us
        self.actual_us += other.actual_us


@dataclass(frozen=True, slots=True)
class Usage:
    """How an app uses its fixed share.

    USED: used part of the fixed share, LATE: late part of the requests. Both are 0 to 1, or -1 without
    requests, and belong to the device on which the app used most. BEHIND: whether the scheduler is behind
    on any device.
    """

    used: float = -1.0
    late: float = -1.0
    behind: bool = False


def usage(devices: Iterable[Counters], seconds: float) -> Usage:
    """Evaluate the counters of each of DEVICES over SECONDS.

    A group with a fixed share is served as if by a slower device of its own. So:

    - Used part = ideal times / elapsed time.
    - Mean number of waiting requests = actual times / elapsed time (Little's law).
    - While at least one request waits, the group should use all of its fixed share. The used part should
      therefore be min(1, waiting). The quotient min(1, waiting) / used says how many times longer than
      ideal the requests took. It does not depend on the app's queue depth, as actual / ideal would.
    """
    busy = [device for device in devices if device.ios and device.ideal_us]
    if not busy or seconds <= 0:
        return Usage()
    most = max(busy, key=lambda device: device.ideal_us)
    behind = False
    for device in busy:
        used, waiting = device.ideal_us / 1e6 / seconds, device.actual_us / 1e6 / seconds
        behind |= min(1.0, waiting) > SLOW * used and device.late > LATE * device.ios
    # A request counts when it completes. One that began before the window may exceed the window.
    return Usage(min(1.0, most.ideal_us / 1e6 / seconds), most.late / most.ios, behind)
