# SPDX-License-Identifier: Apache-2.0
"""What a regulated performance is: percent of each flash device, as the cgroup file io.evenkeel.perf takes it.

And what the counters of a regulated group say: how much of its performance an app used, and whether the
scheduler keeps up.
"""

from collections.abc import Iterable
from dataclasses import dataclass

OFF = 0  # by weight, like everybody
MIN = 1
MAX = 100
RULE = f"a whole number of percent from {MIN} to {MAX}"

# Times a request may take longer than its ideal time before the scheduler is said to be behind. It aims at
# 1.014; what one request is late the next makes up for, so late ones alone mean nothing.
SLOW = 1.05
# and the part of requests that must be late, or a burst that waits for its own requests would look the same
LATE = 0.1


def problem(value: object) -> str | None:
    """Why VALUE is no performance, or None; OFF is one. A bool is refused though Python counts it as an int."""
    if type(value) is not int:
        return f"performance must be {RULE}, or {OFF} for none, not {value!r:.60}"
    if value != OFF and not MIN <= value <= MAX:
        # a huge number may not even be printable: Python limits the digits that it converts
        shown = str(value) if value.bit_length() <= 64 else "a far larger number"
        return f"performance must be {RULE}, or {OFF} for none, not {shown}"
    return None


def from_text(text: str) -> int | None:
    """The percent that a person wrote, as in "10", "10%", "10 %" and "off", else None.

    It may still be out of range. 0 is None: it reads as "nothing at all", and would be the opposite.
    """
    if text == "off":
        return OFF
    digits = text.removesuffix("%").rstrip(" ")
    if digits.isascii() and digits.isdigit() and len(digits) <= 9:
        return int(digits) or None
    return None


def in_force(content: str, devices: Iterable[str], percent: int) -> bool:
    """Whether io.evenkeel.perf, with this CONTENT, has PERCENT for every one of DEVICES ("MAJ:MIN").

    A line is "MAJ:MIN PERCENT"; a device without one is shared by weight. Without a device nothing is
    regulated.
    """
    numbers = list(devices)
    found = dict(line.split(" ", 1) for line in content.splitlines() if " " in line)
    if percent == OFF:
        return not any(number in found for number in numbers)
    return bool(numbers) and all(found.get(number) == str(percent) for number in numbers)


@dataclass(slots=True)
class Regulated:
    """What a regulated group did on one device in some time, by the counters of io.evenkeel.stat."""

    ios: int = 0
    late: int = 0
    ideal_us: int = 0
    actual_us: int = 0

    def add(self, other: "Regulated") -> None:
        self.ios += other.ios
        self.late += other.late
        self.ideal_us += other.ideal_us
        self.actual_us += other.actual_us


@dataclass(frozen=True, slots=True)
class Use:
    """Of its performance on the device where it used most: the part used and the part of requests that came
    late, 0 to 1, -1 if there were none; and whether the scheduler is behind on any device."""

    used: float = -1.0
    late: float = -1.0
    behind: bool = False


def use(devices: Iterable[Regulated], seconds: float) -> Use:
    """Judge what a group did in SECONDS on each of DEVICES.

    A group is served as by a device of its own that is slower. Ideal times over the time that passed are
    the part of it that was used; actual ones are how many requests were waiting on average (Little), and
    while at least one was, all of it should have been used. So min(1, waiting) / used is how many times
    longer than they should requests took, however many an app issues at once; actual / ideal alone would
    count the app's own queue.
    """
    busy = [device for device in devices if device.ios and device.ideal_us]
    if not busy or seconds <= 0:
        return Use()
    most = max(busy, key=lambda device: device.ideal_us)
    behind = False
    for device in busy:
        used, waiting = device.ideal_us / 1e6 / seconds, device.actual_us / 1e6 / seconds
        behind |= min(1.0, waiting) > SLOW * used and device.late > LATE * device.ios
    # a request counts when it is done, so one that began before may fill more than the window
    return Use(min(1.0, most.ideal_us / 1e6 / seconds), most.late / most.ios, behind)
