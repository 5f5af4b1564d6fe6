# SPDX-License-Identifier: Apache-2.0
"""The I/O settings of conf/ are read from the files there, and each of them has an experiment."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from lab import settings
from lab.experiments import tune
from lab.kernels import TOP
from lab.model import LabError, Output, Row
from lab.report import tuning

SYSCTL = """\
## Writing back

# Flushers start here: a burst is gathered. More of it. (vm.rst)
vm.dirty_background_bytes = 1
# Two values, one reason.
vm.dirty_bytes = 2
vm.dirty_expire_centisecs = 3

kernel.panic = 10
"""
FSTAB = """\
# noatime, lazytime  reading must not write: stamps
#                    come later. Or never.
# commit=            how often
# /data and what stands on it is mounted by preinit
PARTLABEL=data  /data ext4 noauto,noatime,lazytime,commit=15,errors=remount-ro,nodev 0 0
/data/var       /var  none noauto,bind 0 0
PARTLABEL=rec   /rec  ext4 nofail,x-systemd.device-timeout=10s,noatime,commit=30 0 2
"""
RULES = 'LABEL="x"\nATTR{queue/scheduler}="evenkeel"\nATTR{queue/read_ahead_kb}="512"\n'


@pytest.fixture
def top(tmp_path: Path) -> Path:
    for name, text in (
        ("sysctl.d/60-x.conf", SYSCTL),
        ("fstab", FSTAB),
        ("udev/rules.d/60-x.rules", RULES),
    ):
        path = tmp_path / "conf" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def test_every_setting_is_found_with_its_reason(top: Path) -> None:
    assert [(s.name, s.ours, s.reason) for s in settings.read(top)] == [
        ("vm.dirty_background_bytes", "1", "Flushers start here: a burst is gathered."),
        ("vm.dirty_bytes", "2", "Two values, one reason."),
        ("vm.dirty_expire_centisecs", "3", "Two values, one reason."),
        ("noatime", "noatime", "reading must not write: stamps come later."),
        ("lazytime", "lazytime", "reading must not write: stamps come later."),
        ("commit", "15 on /data, 30 on /rec", "how often"),
        ("queue/read_ahead_kb", "512", ""),
    ]
    assert settings.data_options(top) == {"noatime": "noatime", "lazytime": "lazytime", "commit": "commit=15"}


def test_a_setting_with_an_unknown_default_is_named(top: Path) -> None:
    path = top / "conf/sysctl.d/60-x.conf"
    path.write_text(path.read_text() + "vm.laptop_mode = 5\n")
    with pytest.raises(LabError, match=r"60-x\.conf: vm\.laptop_mode is set"):
        settings.read(top)


def test_a_missing_file_of_conf_is_an_error_of_one_line(tmp_path: Path) -> None:
    with pytest.raises(LabError, match=r"cannot read .*fstab"):
        settings.read(tmp_path)


def test_every_setting_of_conf_has_an_experiment() -> None:
    known = {e.name for e in tune.EXPERIMENTS}
    missing = [s.name for s in settings.read() if f"tune.{settings.slug(s.name)}" not in known]
    assert not missing, f"set in conf/, but no experiment tune.* measures their effect: {', '.join(missing)}"


def test_no_setting_of_conf_equals_the_kernels_default() -> None:
    assert not [s.name for s in settings.read() if s.ours == s.default]


@pytest.mark.parametrize("setting", settings.read(), ids=lambda s: s.name)
def test_every_setting_of_conf_has_a_reason_for_the_page(setting: tuning.Setting) -> None:
    assert len(setting.reason) > 20


@pytest.mark.parametrize("name", tune.CASE)
def test_the_two_phases_of_a_guest_differ_only_in_that_setting(name: str) -> None:
    ours, default = (tune.phase(name, v, tune.CASE[name]).splitlines() for v in ("ours", "default"))
    assert {"v=ours$draw"} < set(ours) - set(default)
    changed = (set(ours) ^ set(default)) - {"v=ours$draw", "v=default$draw"}
    assert 1 <= len(changed) <= 2
    assert any(settings.slug(name).removesuffix("_bytes") in line for line in changed)


@pytest.mark.parametrize("case", set(tune.CASE.values()), ids=lambda case: case.name)
def test_no_case_changes_the_variables_v_and_draw(case: tune.Case) -> None:
    """The names of a report's sections contain $v and $draw, so that repetitions do not overwrite each other's sections."""
    assert not re.search(r"\b(v|draw)=|\b(for|read( -r)?( \w+)*) (v|draw)\b", tune.GUEST + case.commands)


def test_default_becomes_a_baseline() -> None:
    def row(id_: str, value: float) -> Row:
        return Row(id_, value, "ms", "lower", None, None, "virtual", "6.12", "evenkeel")

    folded = settings.fold([
        row("tune.x.case.ms", 1), row("tune.x.case.ms-default", 4),
        row("tune.y.case.ms", 3), row("stall.z", 2),
    ])  # fmt: skip
    assert [(r.id, r.baselines) for r in folded] == [
        ("tune.x.case.ms", {"default": 4}),
        ("tune.y.case.ms", {}),
    ]
    assert "| case | time, ms | 1 | 4 | +75 % |" in tuning.render(folded, [])


def test_overlapping_ranges_count_as_no_difference() -> None:
    def rows(ours: tuple[float, ...], default: tuple[float, ...]) -> list[Row]:
        figures = [
            *tune.repeated("x.ms", ours, "ms", "lower"),
            *tune.repeated("x.ms-default", default, "ms", "lower"),
        ]
        return [
            Row(
                f"tune.dirty_bytes.{f.metric}",
                f.value,
                f.unit,
                f.better,
                None,
                None,
                "virtual",
                "6.12",
                "evenkeel",
            )
            for f in figures
        ]

    (apart,) = settings.fold(rows((70, 80, 90), (91, 160, 170)))
    assert (apart.value, apart.baselines["default"], tuning.gain(apart)) == (80, 160, 0.5)
    (over,) = settings.fold(rows((70, 80, 91), (91, 160, 170)))
    assert tuning.gain(over) == 0
    page = tuning.render([apart], settings.read())
    assert "| x | time, ms | 80 (70 to 90) | 160 (91 to 170) | +50 % |" in page
    assert "| x | time, ms | 80 (70 to 91) | 160 (91 to 170) | none |" in tuning.render(
        [over], settings.read()
    )


def test_each_draw_counts_as_one_value() -> None:
    experiment = {e.name: e for e in tune.EXPERIMENTS}["tune.noatime"]
    device = "s a b c d w\n0 0 0 0 0 {}"
    results = {"mount-ours1": "noatime", "mount-default1": "relatime"}
    for v, written, ms in (("ours", (0, 0, 0), (5, 9, 7)), ("default", (2, 1, 3), (4, 6, 8))):
        for n in tune.REPETITIONS:
            results[f"read-b-{v}{n}"] = device.format(0)
            results[f"read-e-{v}{n}"] = device.format(1000000 * written[n - 1])
            results[f"readms-{v}{n}"] = str(ms[n - 1])
    found = {f.metric: f.value for f in experiment.figures(Output(results))}
    assert found == {
        "read-1000-files.written_mb": 0, "read-1000-files.written_mb-min": 0, "read-1000-files.written_mb-max": 0,
        "read-1000-files.written_mb-default": 2, "read-1000-files.written_mb-default-min": 1,
        "read-1000-files.written_mb-default-max": 3, "read-1000-files.ms": 7, "read-1000-files.ms-min": 5,
        "read-1000-files.ms-max": 9, "read-1000-files.ms-default": 6, "read-1000-files.ms-default-min": 4,
        "read-1000-files.ms-default-max": 8,
    }  # fmt: skip


def test_the_times_of_walks_have_fractions_of_a_millisecond() -> None:
    reports = {
        "cold": "61890",
        "warm": "25515",
        "after": "30933",
        "short": "84348",
        "inodes": "4046",
        "again": "285665",
    }
    out = Output({f"{name}-ours1": text for name, text in reports.items()})
    assert [(value, unit) for _, value, unit, _ in tune.TREE.figures(out, "ours1")] == [
        (61.89, "ms"), (25.515, "ms"), (30.933, "ms"), (84.348, "ms"), (4046, ""), (285.665, "ms"),
    ]  # fmt: skip


def test_a_mount_option_that_is_not_in_effect_is_an_error() -> None:
    """Otherwise, if mount(8) ignored an unknown option, the figures would claim that the option makes no difference."""
    experiment = {e.name: e for e in tune.EXPERIMENTS}["tune.lazytime"]
    same = "/dev/flashsim0 /m ext4 rw,noatime 0 0"
    with pytest.raises(ValueError, match="lazytime is not in effect"):
        experiment.figures(Output({"mount-ours1": same, "mount-default1": same}))


def test_tried_settings_are_not_in_conf_and_have_an_experiment() -> None:
    assert not {s.name for s in settings.read()} & set(tune.TRIED)
    assert set(tune.TRIED) <= set(settings.DEFAULTS) & set(tune.CASE)


def test_the_tuning_page_has_the_settings_of_conf() -> None:
    """`make docs` writes the page from the rows of a bench. A setting that changed must be measured again."""
    page = (TOP / "docs/reference/tuning.md").read_text()
    table = re.findall(r"^\| `([^`]+)` \| ([^ |]+)", page, re.M)
    assert table == [(s.name, s.ours.split()[0]) for s in settings.read()]
    assert set(re.findall(r"^## `([^`]+)`: not set$", page, re.M)) == set(tune.TRIED)
