# SPDX-License-Identifier: Apache-2.0
"""The promises that a bench found not met, in words that the README's readers know."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatch

from evenkeel_report import names
from evenkeel_report.names import natural, state

from lab.model import Row

PAGE = "docs/reference/results.md#promises-not-met"
FIXED = "docs/explanation/scheduler.md#a-known-error-the-share-is-not-that-of-the-job-alone"
# Rows that check the lab, not Evenkeel: the flash model, and the oracle's replica of the guest.
LAB = ("calibrate.*", "*.replica_pct")
# Row id -> what users see when the promise of this row is missed: {figure} is the row's figure, {times} is "N times",
# {group} is a text of GROUPS. A row that is not listed here is shown by its id.
WORDS = {
    "channel.mixed-90-10.replica_pct": "The oracle's replica of the guest differs from the guest by {figure}.",
    "cost.read.cpu2.added": "On a device that completes requests faster than two CPUs submit them, two groups compete."
    " A request then costs {figure} more than with `none`.",
    "fair.buffered.read.ratio": "Two groups with weights 2:1 write through the page cache while a third one reads. The first"
    " writes {figure} times as much as the second.",
    "promise.read-write-worn.emmc51.least": "On a worn eMMC, one group reads 16 KiB at random and another one writes 512 KiB."
    " One of them gets only {figure} of its share.",
    "promise.small-medium.sd-uhs3.least": "On an SD card, a group that reads 4 KiB at random competes with one that reads"
    " 1 MiB at a time. {group} gets only {figure} of its share.",
    "promise.twelve.pipe.wait": "Twelve groups of small weight compete with one of large weight on a link of 10 MB/s. The"
    " longest wait of a request is {figure} times as long as promised.",
    "rec.ek.bgall.max": "While other programs truncate and allocate files, the longest of 20,000 submissions of a record takes"
    " {figure}.",
    "rec.ek.bgall.times-quiet": "While other programs truncate and allocate files, the longest submission of a record takes"
    " more than 1.5 times as long as without them.",
    "scale.2cpu.one-group.ratio": "On a device that completes requests faster than two CPUs submit them, one group reaches"
    " {figure} times the IOPS of mq-deadline.",
    "scale.2cpu.ratio": "On a device that completes requests faster than two CPUs submit them, two groups compete."
    " They reach {figure} times the IOPS of mq-deadline.",
    "stall.emmc51.buffered.write.100m.count": "On an eMMC that collects garbage, a video player stalls {times} in 30 s"
    " while another group writes through the page cache.",
}
# Row id of a promise about the least group -> the row with each group's part -> the group in words. The weights of these
# groups are equal. So the group with the smallest part is the group that gets least of its share.
GROUPS = {
    "promise.small-medium.sd-uhs3.least": {
        "promise.small-medium.sd-uhs3.part-small": "The group that reads 4 KiB",
        "promise.small-medium.sd-uhs3.part-medium": "The group that reads 1 MiB",
    },
}


def _group(row: Row, rows: Sequence[Row]) -> str:
    """The group that a row `least` is about, in words."""
    parts = {r.id: r.value for r in rows if r.kernel == row.kernel and r.id in GROUPS.get(row.id, {})}
    return GROUPS[row.id][min(parts, key=lambda id_: parts[id_])] if parts else "One of them"


def _line(row: Row, rows: Sequence[Row]) -> str:
    ((_, [shown])) = names.readable([row])
    figure = names.with_unit(shown.value, shown.unit)
    if row.id in WORDS:
        times = f"{figure} time" if shown.value == 1 else f"{figure} times"
        return f"- {WORDS[row.id].format(figure=figure, times=times, group=_group(row, rows))}\n"
    return (
        f"- `{row.id}` on Linux {row.kernel} is {figure}; promised is {names.wanted(shown)} {shown.unit}".rstrip()
        + ".\n"
    )


def render(rows: Sequence[Row]) -> str:
    """How many of Evenkeel's promises the bench checked, each one that is missed, and whether fixed shares are among them."""
    checked = [r for r in rows if r.must and state(r) and not any(fnmatch(r.id, lab) for lab in LAB)]
    missed = sorted(
        (r for r in checked if state(r) == "missed"), key=lambda r: (natural(r.id), natural(r.kernel))
    )
    head = f"The last bench checked {len(checked)} of Evenkeel's promises, and"
    if any(r.id.startswith("regulate.") for r in checked):
        fixed = ""
    else:
        fixed = (
            "It did not check fixed shares (a set percentage of the device for an app, whether the device is busy or not)."
            f" Earlier measurements show that their accuracy [misses its target]({FIXED}).\n"
        )
    if not missed:
        return f"{head} all are met.\n{fixed}"
    are = "is" if len(missed) == 1 else "are"
    lines = "".join(_line(row, rows) for row in missed)
    return f"{head} {len(missed)} {are} [not met]({PAGE}):\n\n{lines}" + (f"\n{fixed}" if fixed else "")
