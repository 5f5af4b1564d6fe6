# SPDX-License-Identifier: Apache-2.0
"""A report in a few plain sentences, for a person who chooses boards. No I/O here."""

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from evenkeel_report.names import number
from evenkeel_report.row import Row

from . import cases

if TYPE_CHECKING:
    from .report import Report

CASES = {"quick": cases.quick, "full": cases.full, "soak": cases.soak}
# what follows the name of a case that runs again after a long stream of writes (profile soak)
TURN = re.compile(r"\.turn\d+(?=\.)")
# (direction, MB, weights) in the id of a share; the shares of the paper have no direction and size
SHARE = re.compile(r"fair\.shares\.(?:(read|write)\.(\d+)m\.)?([\d-]+)\.share-\w")
RATIO = re.compile(r"fair\.(read|write)\.(\d+)m\.ratio")


def sentences(report: "Report") -> list[str]:
    """What a buyer wants to know: rates, weights, stalls, sustained writes, and the state of the flash."""
    rows = worst(report.rows)
    found = [
        _rates(report, rows),
        _weights(report, rows),
        _shares(rows),
        _stalls(rows),
        _sustained(rows),
        _latency(rows),
    ]
    found += [_stopping(rows), _recorder(rows), _cache(rows), _health(report)]
    # Not every figure has a sentence.
    without = "The figures show what was measured." if report.rows else "Nothing was measured."
    measured = [line for line in found if line] or [without]
    return (
        ["All apps were paused, so the figures are those of the device alone.", *measured]
        if report.exclusive
        else measured
    )


def worst(rows: Sequence[Row]) -> dict[str, Row]:
    """The rows by id. Of a case that was measured in several turns, the one that a buyer must know: the worst figure.

    Where the rate of a stream falls is what the first turn with a fall has found: later turns begin after it.
    """
    found: dict[str, Row] = {}
    fell = next((row.id.rpartition(".")[0] for row in rows if row.id.endswith(".fast-cache")), "")
    for row in rows:
        id_ = TURN.sub("", row.id)
        case, _, metric = row.id.rpartition(".")
        if metric in ("first-mbps", "fast-cache"):
            if case == fell or (not fell and id_ not in found):
                found[id_] = row
        elif id_ not in found or _rank(row) > _rank(found[id_]):
            found[id_] = row
    return found


def _rank(row: Row) -> tuple[bool, bool, float]:
    """The worse a figure is, the larger: one that misses its bound first, and one without a bound last."""
    if isinstance(row.target, tuple):
        low, high = row.target
        how = max(low - row.value, row.value - high)
    else:
        how = -row.value if row.better == "higher" else row.value
    return row.holds() is False, row.target is not None, how


def _rates(report: "Report", rows: dict[str, Row]) -> str:
    """The best rates, and how much was moved at this rate: a short stream of writes may fit into a cache."""
    parts, writes = [], False
    for what in ("read", "write"):
        found = [r for id_, r in rows.items() if fnmatchcase(id_, f"device.sequential-{what}.*.mbps")]
        if not found:
            continue
        best = max(found, key=lambda r: r.value)
        case = next((c for c in CASES.get(report.profile, list)() if best.id == f"{c.name}.mbps"), None)
        writes = what == "write"
        span = ""
        if case:
            span = (
                f" in a burst of at most {case.written / 1e6:,.0f} MB"
                if writes
                else f" over {number(case.seconds)} s"
            )
        parts.append(f"{what}s {number(best.value)} MB/s{span}")
    lines = [f"At best, this device {listed(parts)}."] if parts else []
    if writes and "device.sustained.last-mbps" not in rows:
        lines.append("A longer stream of writes was not measured, and may be slower.")
    if small := rows.get("device.random-read.4k.qd1.iops"):
        who = "It" if parts else "This device"
        lines.append(f"{who} serves {number(small.value)} random reads of 4 KiB a second, one at a time.")
    return " ".join(lines)


def listed(parts: Sequence[str]) -> str:
    """Words as a list: a, b and c."""
    *most, last = parts
    return f"{', '.join(most)} and {last}" if most else last


def _weights(report: "Report", rows: dict[str, Row]) -> str:
    all_ = {(m[1], int(m[2])): r for id_, r in rows.items() if (m := RATIO.fullmatch(id_))}
    # A window with few blocks says too little to be judged.
    ratios = {key: r for key, r in all_.items() if r.target is not None}
    if not ratios:
        return ""
    missed = [f"{d}s of {mb} MB ({number(r.value)}:1)" for (d, mb), r in ratios.items() if r.holds() is False]
    with_ = f"With the scheduler {report.subject}, this device"
    if missed:
        return f"{with_} does not hold the ratio 2:1 for {', '.join(missed)}."
    if len(ratios) == len(all_):
        return f"{with_} holds the ratio 2:1 at every size that was measured."
    held = [f"{d}s of {mb} MB" for d, mb in ratios]
    return f"{with_} holds the ratio 2:1 for {listed(held)}. At the other sizes, the I/Os were too few to be judged."


def _shares(rows: dict[str, Row]) -> str:
    """Whether each group of two or four got its share. A case counts as missed if one of its groups did not get it."""
    held: dict[tuple[str, str, int], bool] = {}
    for id_, row in rows.items():
        if (m := SHARE.fullmatch(id_)) and row.target is not None:
            key = m[3].replace("-", ":"), m[1] or "read", int(m[2] or 100)
            held[key] = held.get(key, True) and row.holds() is not False
    if not held:
        return ""
    missed = [f"{weights} for {what}s of {mb} MB" for (weights, what, mb), ok in held.items() if not ok]
    if missed:
        return f"Not all groups get their share with the weights {listed(missed)}."
    weights = list(dict.fromkeys(weights for weights, _, _ in held))
    sizes = sorted({mb for _, _, mb in held})
    span = f"{sizes[0]} MB" if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]} MB"
    return f"Groups with the weights {listed(weights)} each get their share, for blocks of {span}."


def _stalls(rows: dict[str, Row]) -> str:
    # a player that played for a moment only was not judged, and says nothing if it did not stop
    counts = {
        id_: r
        for id_, r in rows.items()
        if id_.startswith("stall.") and id_.endswith(".count") and (r.value or r.target is not None)
    }
    if not counts:
        return ""
    bad = [id_ for id_, r in counts.items() if r.value]
    if not bad:
        kinds = "1 kind" if len(counts) == 1 else f"{len(counts)} kinds"
        return f"A video player never stopped alongside {kinds} of load."
    worst = max(
        rows[id_.replace(".count", ".worst_ms")].value
        for id_ in bad
        if id_.replace(".count", ".worst_ms") in rows
    )
    return f"A video player stopped alongside {len(bad)} of {len(counts)} kinds of load, for up to {number(worst)} ms."


def _sustained(rows: dict[str, Row]) -> str:
    first, last = rows.get("device.sustained.first-mbps"), rows.get("device.sustained.last-mbps")
    fast = rows.get("device.sustained.fast-cache")
    if not first or not last:
        return ""
    goes_on = f"A long stream of writes goes on at {number(last.value)} MB/s."
    if fast:
        rates = f"{number(first.value)} to {number(last.value)} MB/s"
        much = f"{number(fast.value)} GB" if fast.value >= 1 else f"{1000 * fast.value:.0f} MB"
        goes_on = f"After {much} of writes, the rate falls from {rates}."
    pauses = [
        f"{what} up to {number(row.value / 1000)} ms"
        for what, row in (
            ("a single write took", rows.get("device.sustained.max")),
            ("a small read", rows.get("device.sustained.read-max")),
        )
        if row
    ]  # fmt: skip
    return f"{goes_on} Meanwhile, {listed(pauses)}." if pauses else goes_on


def _latency(rows: dict[str, Row]) -> str:
    slowest = rows.get("latency.beside.writes.max")
    return (
        f"Alongside a stream of writes, the slowest small read took {number(slowest.value / 1000)} ms."
        if slowest
        else ""
    )


def _stopping(rows: dict[str, Row]) -> str:
    """Whether flushes and discards, during which a device may serve nothing else, hold up others."""
    lines = []
    for what in ("flushes", "discards"):
        found = rows.get(f"latency.beside.{what}.p99")
        if not found or found.holds() is None:
            continue
        bound = f"{number(found.target / 1000)} ms" if isinstance(found.target, int | float) else ""
        held = "meets" if found.holds() else "misses"
        lines.append(
            f"Alongside {what} of an app, 99 of 100 small reads took at most {number(found.value / 1000)} ms, which {held}"
            f" the bound of {bound}."
        )
    return " ".join(lines)


def _recorder(rows: dict[str, Row]) -> str:
    bad = {
        what: sum(r.value for id_, r in rows.items() if fnmatchcase(id_, f"rec.ek.*.{what}"))
        for what in ("late", "lost")
    }
    times = [r.value for id_, r in rows.items() if fnmatchcase(id_, "rec.ek.*.durable-max")]
    if not times:
        return ""
    if any(bad.values()):
        return f"The recorder lost {number(bad['lost'])} records, and {number(bad['late'])} were late."
    return f"The recorder lost no record and was never late: each was on the flash within {number(max(times))} ms."


def _cache(rows: dict[str, Row]) -> str:
    kept, without = rows.get("pool.directory.kept"), rows.get("pool.directory.kept-without")
    if not kept or not without:
        return ""
    return (
        f"While a file larger than the page cache was read, {number(kept.value)} % of the files of a priority directory stayed"
        f" in the cache. Without the page pool, {number(without.value)} % stayed."
    )


def _health(report: "Report") -> str:
    """What the device reports about its wear: the worse one of two kinds of flash, and spare blocks that run out."""
    facts = {f["title"]: f["value"] for f in report.facts if f["value"]}
    lives = [facts[title] for title in ("life time, type A", "life time, type B") if title in facts]
    lines = []
    if lives:
        worse = max(
            lives,
            key=lambda text: max(map(int, re.findall(r"\d+", text)), default=0) + text.startswith("more"),
        )
        lines.append(f"The device reports that {worse.removesuffix(' used')} of its life time is used.")
    elif used := facts.get("life time used, %"):
        lines.append(f"The device reports that {used} % of its life time is used.")
    if (spare := facts.get("spare blocks", "normal")) != "normal":
        urgent, _, used = spare.partition(": ")
        hint = " Replace the device soon." if urgent.startswith("urgent") else ""
        lines.append(f"Of its spare blocks, the device reports: {used or spare}.{hint}")
    if facts.get("health") == "FAILED":
        lines.append("The device reports that it fails. Save its data, and replace it.")
    return " ".join(lines)
