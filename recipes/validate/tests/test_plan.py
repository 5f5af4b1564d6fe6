# SPDX-License-Identifier: Apache-2.0
"""Plans: what the profiles promise about time and wear, and what the announcement says."""

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest
from evenkeel_report.names import TOPICS
from evenkeel_report.papers import RATIOS, SPLIT, STALLS
from evenkeel_validate import cases, discards, fio, measure, plan
from evenkeel_validate.cases import MB, Case, Need
from evenkeel_validate.errors import Stopped
from evenkeel_validate.plan import PROFILES, Budget, Plan, Profile
from hypothesis import given
from hypothesis import strategies as st

ALL = frozenset(get_args(Need))
OTHERS = ("bfq", "none", "mq-deadline", "kyber")


def made(
    name: str,
    kind: str = "mmc",
    have: frozenset[Need] = ALL,
    others: Sequence[str] = (),
    budget: int | None = None,
) -> Plan:
    return plan.make(
        PROFILES[name], subject="evenkeel", others=others, have=have, reasons={}, kind=kind, budget=budget
    )


@pytest.mark.parametrize("kind", plan.GUESS)
@pytest.mark.parametrize("name", PROFILES)
def test_a_profile_keeps_its_time_and_its_wear(name: str, kind: str) -> None:
    profile = PROFILES[name]
    found = made(name, kind, others=OTHERS if profile.compares else ())
    assert found.seconds <= profile.seconds
    assert found.total <= profile.written


def test_quick_fits_into_two_minutes_and_a_gigabyte() -> None:
    assert (PROFILES["quick"].seconds, PROFILES["quick"].written) == (120, 10**9)
    found = made("quick")
    # nothing of it is left out for lack of time on a slow eMMC
    assert found.skipped == {}
    assert {s.case.kind for s in found.steps} == {"limit", "latency", "ratio", "shares", "promise", "stall"}


def test_full_has_all_cases_of_the_papers_on_a_slow_device() -> None:
    found = made("full", others=OTHERS)
    assert not [name for name in found.skipped if " on " not in name]
    names = {s.case.name for s in found.steps}
    assert {f"fair.{d}.{mb}m" for d, sizes in RATIOS.items() for mb in sizes} <= names
    assert {f"fair.shares.{case}" for case in SPLIT} <= names
    assert {f"stall.{how}.{d}.{mb}m" for how, d, mb in STALLS} <= names
    assert {
        "rec.quiet",
        "rec.truncate",
        "rec.allocate",
        "rec.ek.allocate",
        "channel.probe",
        "device.sustained",
        "pool.directory",
    } <= names


@pytest.mark.parametrize("name", PROFILES)
def test_names_are_ids_and_each_load_fits_into_its_part_of_the_file(name: str) -> None:
    profile = PROFILES[name]
    found = profile.cases()
    assert len({c.name for c in found}) == len(found)
    for case in found:
        assert case.name.partition(".")[0] in {*TOPICS, "device"}
        assert case.kind in measure.KINDS
        for job in case.jobs:
            area = fio.areas(Path("x"), profile.file, len(case.jobs))[0]
            fio.job_file(job, area, seconds=1, limit=0, seed=1)
        # each case that writes says how much, and no other one does
        writes = any(j.writes for j in case.jobs) or case.kind in ("record", "recorder", "cache")
        assert bool(case.written) == writes, case.name


def test_the_cases_of_the_subject_come_first_and_others_are_left_out_first() -> None:
    found = made("full", others=OTHERS, budget=30 * 10**9)
    order = [(s.scheduler != "evenkeel" and s.case.compared, s.scheduler) for s in found.steps]
    rounds = [False, "first", "later"]
    assert order == sorted(order, key=lambda o: (rounds.index(o[0]), ["evenkeel", *OTHERS].index(o[1])))


# at least these are compared: 2:1 at the size that decides, a player alongside the worst load, and the tail of latencies
DECIDING = {"fair.read.100m", "stall.direct.write.100m", "latency.beside.writes"}


@pytest.mark.parametrize("kind", plan.GUESS)
@pytest.mark.parametrize("name", ["full", "soak"])
def test_each_scheduler_has_the_deciding_cases(name: str, kind: str) -> None:
    found = made(name, kind, others=OTHERS)
    for other in OTHERS:
        of_other = {s.case.name for s in found.steps if s.scheduler == other}
        assert of_other >= DECIDING
        assert plan.compared(found)[other] == len(of_other)
    deciding = {(s.case.name, s.scheduler) for s in plan.deciding(found)}
    assert deciding == {(name, scheduler) for name in DECIDING for scheduler in ("evenkeel", *OTHERS)}
    assert not [name for name in found.skipped if " on " not in name]
    text = " ".join(plan.announcement(found, where="x", capacity=0))
    assert f"{plan.compared(found)['kyber']} on kyber." in text


@pytest.mark.parametrize(("name", "sizes"), [("full", {1, 10, 100}), ("soak", {1, 10, 100})])
def test_shares_of_two_and_four_groups_have_small_and_large_blocks(name: str, sizes: set[int]) -> None:
    for weights in ((300, 200), (300, 200, 200, 100)):
        found = [s.case for s in made(name).steps if tuple(j.weight for j in s.case.jobs) == weights]
        assert {int(c.jobs[0].bs[:-1]) for c in found if not c.written} == sizes
        assert bool([c for c in found if c.written]) is (name == "soak")


@given(st.integers(0, 3 * 10**10), st.sampled_from(sorted(PROFILES)), st.sampled_from(sorted(plan.GUESS)))
def test_no_plan_exceeds_its_budget(budget: int, name: str, kind: str) -> None:
    found = made(name, kind, others=OTHERS, budget=budget)
    if found.written:
        assert found.total <= budget
    chosen = {s.case.name for s in found.steps if s.scheduler == "evenkeel"}
    assert chosen | set(found.skipped) >= {c.name for c in PROFILES[name].cases()}


def test_a_budget_below_what_loads_read_is_named() -> None:
    found = made("full", budget=12_000_000)
    assert not found.steps
    assert "are written for the loads to read" in found.skipped["fair.read.1m"]
    assert "the budget of 12 MB" in found.skipped["fair.read.1m"]


@given(st.lists(st.tuples(st.integers(0, 200), st.floats(1.0, 1.01)), max_size=40))
def test_the_run_ends_within_one_percent_of_its_budget(wanted: Sequence[tuple[int, float]]) -> None:
    """Each case writes what it is allowed, and up to 1 % more, because its loads are stopped while I/O is in flight."""
    budget = Budget(1000 * MB)
    for mb, more in wanted:
        try:
            limit = budget.limit(mb * MB)
        except Stopped:
            assert budget.left < mb * MB / 2
            break
        assert limit <= mb * MB
        budget.spend(int(limit * more))
    assert budget.written <= 1000 * MB * (1 + Budget.SLACK)


def test_an_io_that_does_not_fit_into_a_small_test_file_is_left_out() -> None:
    small = replace(PROFILES["quick"], file=16 * MB)
    found = plan.make(small, subject="evenkeel", others=(), have=ALL, reasons={}, kind="mmc")
    assert (
        found.skipped["fair.read.30m"] == "an I/O of 30m does not fit into its part of the test file, 8 MiB"
    )
    assert {"fair.read.1m", "fair.write.8m"} <= {s.case.name for s in found.steps}


def test_the_space_has_all_files_that_exist_at_once() -> None:
    trims = discards.BYTES
    assert plan.space(PROFILES["quick"]) == PROFILES["quick"].file + plan.MOVIE + trims
    others = plan.MOVIE + 300 * 10**6 + trims + cases.PRIORITY_BYTES + cases.RECORDER_BYTES
    assert plan.space(PROFILES["full"]) == PROFILES["full"].file + others
    assert plan.space(PROFILES["full"], ["stall."]) == PROFILES["full"].file + plan.MOVIE
    assert plan.space(PROFILES["full"], ["fair."]) == PROFILES["full"].file


def test_only_chosen_cases_run() -> None:
    found = plan.make(
        PROFILES["full"], subject="evenkeel", others=(), have=ALL, reasons={}, kind="mmc", only=["fair.read", "latency.alone"]
    )  # fmt: skip
    assert {s.case.name.rpartition(".")[0] for s in found.steps} == {"fair.read", "latency"}


@pytest.mark.parametrize("name", PROFILES)
def test_the_cases_on_which_a_bound_rests_are_chosen_too(name: str) -> None:
    """Without its own cases, the bound of a light reader is not known, and its promise could not be judged."""
    for case in PROFILES[name].cases():
        found = plan.chosen(PROFILES[name], [case.name])
        before = {c.name for c in found[: [c.name for c in found].index(case.name)]}
        known = {(other, percentile): 1.0 for other in before for percentile in ("p50", "p99")}
        load = case.jobs[1] if case.kind == "latency" and len(case.jobs) > 1 else None
        if load:
            assert measure.light_bound(known, load, 1.0) is not None, case.name
        else:
            assert {c.name for c in found if not c.name.startswith(case.name)} == set()
    names = [c.name for c in plan.chosen(PROFILES[name])]
    assert names == [c.name for c in PROFILES[name].cases()]


def test_the_announcement_says_bytes_endurance_time_and_what_is_slower() -> None:
    text = " ".join(
        plan.announcement(
            made("full", others=["bfq"]), where="the file /data/x on mmcblk0", capacity=64 * 10**9
        )
    )
    found = made("full", others=["bfq"])
    share = 100 * found.total / (64e9 * 3000)
    assert f"They write {found.total / 1e6:,.0f} MB, or less if the device turns out to be too slow" in text
    assert f"This is {share:.2g} % of the endurance" in text
    assert "at most 45 min" in text
    assert "updates, backups and apps without a weight are slower" in text
    assert (
        "(evenkeel, bfq, none). While another one than evenkeel is active, weights and fixed shares" in text
    )


def test_the_announcement_says_that_a_device_loses_its_data() -> None:
    text = " ".join(plan.announcement(made("full"), where="x", capacity=0, destroys="/dev/sdb"))
    assert "ALL DATA ON /dev/sdb IS LOST." in text
    assert "no file" not in text
    assert "LOST" not in " ".join(plan.announcement(made("full"), where="x", capacity=0))


def test_the_announcement_names_the_scheduler_for_loads_alone() -> None:
    """Without a comparison, too: what a load gets alone is measured with `none`."""
    assert plan.schedulers_of(made("quick")) == ["evenkeel", "none"]
    text = " ".join(plan.announcement(made("quick"), where="x", capacity=0))
    assert "(evenkeel, none). While another one than evenkeel is active" in text
    limits = plan.make(
        PROFILES["quick"], subject="evenkeel", others=(), have=ALL, reasons={}, kind="mmc", only=["device"]
    )
    assert plan.schedulers_of(limits) == ["evenkeel"]


def test_the_announcement_says_that_apps_are_paused() -> None:
    for name, time in (("quick", "2 min"), ("full", "45 min")):
        lines = plan.announcement(made(name), where="x", capacity=0, exclusive=True)
        assert any(line.startswith(f"All apps are paused for up to {time}.") for line in lines)
        assert not any("Apps keep their share" in line for line in lines)
        assert not any("paused" in line for line in plan.announcement(made(name), where="x", capacity=0))


def test_the_announcement_says_that_free_space_is_discarded() -> None:
    line = "Free space of the target, which holds no file, is discarded again and again."
    for have, said in ((ALL, True), (ALL - {"discard"}, False)):
        text = " ".join(plan.announcement(made("quick", have=have), where="x", capacity=0))
        assert (line in text) is said


def test_the_announcement_says_that_files_leave_the_page_cache() -> None:
    line = "A file that is larger than the page cache is read through it."
    for have, said in ((ALL, True), (ALL - {"ek-pool"}, False)):
        text = " ".join(plan.announcement(made("full", have=have), where="x", capacity=0))
        assert (line in text) is said


def test_the_case_of_the_cache_writes_its_files_and_takes_all_its_passes() -> None:
    """Its time follows from the size of the test file: four passes at least, two of them at least CACHE_S long."""
    case = next(c for c in cases.full() if c.kind == "cache")
    assert case.written == cases.PRIORITY_BYTES
    assert case.longest == cases.CACHE_PARTS * (case.seconds + 1)
    waits = cases.GROWTH_PASSES * cases.GROWTH_S + cases.CACHE_PARTS
    assert plan.estimate(case, "mmc", 800 * 10**6) == 4 * 10 + 2 * cases.CACHE_S + waits
    assert plan.estimate(case, "mmc", 800 * 10**6, 20e6) == 4 * 20 + 2 * cases.CACHE_S + waits
    assert plan.estimate(case, "mmc", 10**11) == case.longest


def test_what_is_missing_is_said_for_each_case() -> None:
    found = plan.make(
        PROFILES["quick"], subject="none", others=(), have=ALL - {"groups"}, reasons={"groups": "no systemd"}, kind="mmc"
    )  # fmt: skip
    assert found.skipped["fair.read.1m"] == "no systemd"
    lines = plan.announcement(found, where="x", capacity=0)
    assert "Left out: fair.read.1m, because no systemd." in lines
    assert not any("one group alongside the apps" in line for line in lines)


def test_a_slow_device_is_planned_with_what_it_can_write() -> None:
    """After a run, the announcement says the bytes exactly, and the time that a slow case takes."""
    first = made("full", others=["bfq"])
    assert not first.proven
    many = {
        plan.full_name(s.case.name, s.scheduler, "evenkeel"): 1 << 62 for s in first.steps if s.case.written
    }
    slow = {**many, "fair.write.100m": 1500 * MB, "latency.beside.writes on bfq": 100 * MB}
    for reached, less in ((many, 0), (slow, 6000 * MB - 1500 * MB + 512 * MB - 100 * MB)):
        found = plan.make(
            PROFILES["full"], subject="evenkeel", others=["bfq"], have=ALL, reasons={}, kind="mmc", reached=reached
        )  # fmt: skip
        assert found.proven
        assert found.total == first.total - less
        text = " ".join(plan.announcement(found, where="x", capacity=0))
        assert f"They write {found.total / 1e6:,.0f} MB. This is" in text
    step = next(s for s in found.steps if s.case.name == "fair.write.100m")
    assert step.case.written == 1500 * MB
    assert found.seconds >= first.seconds
    # one case that no run has measured
    del many["device.sustained"]
    assert not plan.make(
        PROFILES["full"], subject="evenkeel", others=[], have=ALL, reasons={}, kind="mmc", reached=many
    ).proven


def test_a_device_without_a_size_has_no_share_of_its_endurance() -> None:
    assert math.isnan(plan.endurance(1, 0))
    assert plan.endurance(192 * 10**12, 64 * 10**9) == 100


def test_without_loads_no_test_file_is_written() -> None:
    probe = Profile("p", "", 60, 10**9, 240 * MB, lambda: [c for c in cases.full() if c.kind == "channels"])
    found = plan.make(probe, subject="evenkeel", others=(), have=ALL, reasons={}, kind="mmc")
    assert (found.prepared, found.total) == (0, 0)


def test_disturbances_of_the_recorder() -> None:
    found = {c.name: tuple(cases.disturbances(c)) for c in cases.full() if c.kind == "record"}
    assert found == {
        "rec.quiet": (), "rec.truncate": ("truncate",), "rec.allocate": ("truncate", "allocate"), "rec.read": ("read",),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("seconds", "text"), [(5, "5 s"), (89.6, "90 s"), (120, "2 min"), (2700, "45 min"), (28800, "8.0 h")]
)
def test_durations(seconds: float, text: str) -> None:
    assert plan.duration(seconds) == text


def test_estimates_are_bounded_by_the_case() -> None:
    case = Case(
        "device.x",
        "limit",
        "",
        (cases.Job("job", "randwrite", "4k"),),
        settle=0.5,
        seconds=20,
        written=24 * MB,
    )
    assert plan.estimate(case, "mmc", MB) == pytest.approx(24 * MB / 4e6 + 1.5)
    assert plan.estimate(case, "nvme", MB) < 2
