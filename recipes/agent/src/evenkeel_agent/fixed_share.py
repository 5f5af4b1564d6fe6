# SPDX-License-Identifier: Apache-2.0
"""Fixed shares: a percentage of each flash device, as the cgroup file io.evenkeel.fixed accepts it.

This module checks values. It also evaluates the counters of a group with a fixed share: which part of the fixed
share the app used, and whether the scheduler delivers the fixed share.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from evenkeel_api.features.apps import FIXED_SHARE_MAX as MAX
from evenkeel_api.features.apps import FIXED_SHARE_MIN as MIN
from evenkeel_api.features.apps import FIXED_SHARE_OFF as OFF
from evenkeel_api.messages import Message

__all__ = ["MAX", "MIN", "OFF", "RULE", "Counters", "Usage", "from_text", "in_force", "problem", "usage"]
RULE = f"a whole number of percent from {MIN} to {MAX}"

# The scheduler is behind (fails to deliver a fixed share) if both of these limits are exceeded.
# SLOW: requests take more than this many times their ideal time. The scheduler itself aims at 1.014.
# A count of late requests is not sufficient, because later requests make up for them.
SLOW = 1.05
# LATE: more than this part of the requests is late. SLOW is not sufficient, because the requests of a burst wait for
# each other and take longer, too.
LATE = 0.1


def problem(value: object) -> Message | None:
    """Why VALUE is not valid; None if it is a fixed share or OFF. A bool is not valid, although Python counts it as an int."""
    if type(value) is not int:
        return Message("fixed-share-not-a-number", value=repr(value))
    if value != OFF and not MIN <= value <= MAX:
        # A huge number is not shown: Python refuses to convert it to text.
        shown = str(value) if value.bit_length() <= 64 else "a far larger number"
        return Message("fixed-share-not-a-number", value=shown)
    return None


def from_text(text: str) -> int | None:
    """The percentage in TEXT, which may be "10", "10%", "10 %" or "off" (gives OFF); else None. It may be out of range.

    The text "0" gives None. It would mean OFF, but a person could take it for "no I/O at all".
    """
    if text == "off":
        return OFF
    digits = text.removesuffix("%").rstrip(" ")
    if digits.isascii() and digits.isdigit() and len(digits) <= 9:
        return int(digits) or None
    return None


def in_force(content: str, devices: Iterable[str], percent: int) -> bool:
    """Whether CONTENT, the text of io.evenkeel.fixed, sets PERCENT for each of DEVICES ("MAJ:MIN").

    A line is "MAJ:MIN PERCENT". A device without a line has no fixed share. If DEVICES is empty, OFF is in force, and
    no other value is.
    """
    numbers = list(devices)
    lines = dict(line.split(" ", 1) for line in content.splitlines() if " " in line)
    if percent == OFF:
        return not any(number in lines for number in numbers)
    return bool(numbers) and all(lines.get(number) == str(percent) for number in numbers)


@dataclass(slots=True)
class Counters:
    """The increase of a group's fixed_* counters in io.evenkeel.stat during some time, on one device."""

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
    """How an app uses its fixed share, and whether the scheduler delivers it.

    - USED: the used part of the fixed share, 0 to 1.
    - LATE: the part of the requests that were late, 0 to 1.
    - BEHIND: whether the scheduler is behind on at least one device.

    USED and LATE are of the device on which the app used most. They are -1 if there were no requests.
    """

    used: float = -1.0
    late: float = -1.0
    behind: bool = False


def usage(devices: Iterable[Counters], seconds: float) -> Usage:
    """Evaluate the counters of an app. DEVICES has their increase on each device during SECONDS.

    A group with a fixed share is served as if by a slower device of its own. This gives three formulas:

    - used = sum of ideal times / SECONDS. This is the used part of the fixed share.
    - waiting = sum of actual times / SECONDS. This is the mean number of waiting requests (Little's law).
    - While at least one request waits, the group should use all of its fixed share. So `used` should be
      min(1, waiting). The quotient min(1, waiting) / used says how many times their ideal time the requests took.
      Unlike actual time / ideal time, it does not grow with the app's queue depth.
    """
    busy = [device for device in devices if device.ios and device.ideal_us]
    if not busy or seconds <= 0:
        return Usage()
    most = max(busy, key=lambda device: device.ideal_us)
    behind = False
    for device in busy:
        used, waiting = device.ideal_us / 1e6 / seconds, device.actual_us / 1e6 / seconds
        behind |= min(1.0, waiting) > SLOW * used and device.late > LATE * device.ios
    # `used` may exceed 1: a request counts in full when it completes, even if it began before the window.
    return Usage(min(1.0, most.ideal_us / 1e6 / seconds), most.late / most.ios, behind)
