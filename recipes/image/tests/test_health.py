# SPDX-License-Identifier: Apache-2.0
"""ek-health, its checks and slot-good, on a root folder of the test with fake systemctl and grub-editenv."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

ROOTFS = Path(__file__).resolve().parents[1] / "data/rootfs"
HEALTH = "usr/lib/evenkeel/health"
EDITENV = """#!/bin/sh
file=$1 command=$2
shift 2
case $command in
list) ! grep -q damaged "$file" || exit 1; cat "$file" ;;
create) : > "$file" ;;
set) for word; do sed -i "/^${word%%=*}=/d" "$file"; echo "$word" >> "$file"; done ;;
esac
"""


class Root:
    """A board's root folder. `failed` are its failed units; `calls` has what was asked of systemctl."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.failed: list[str] = []
        for name in (
            "bin",
            "proc/net",
            "proc/sys/kernel/random",
            "run/evenkeel",
            "bootstate",
            "usr/lib",
            "var/lib",
        ):
            (folder / name).mkdir(parents=True)
        (folder / "proc/cmdline").write_text("ro rauc.slot=B quiet\n")
        (folder / "proc/sys/kernel/random/uuid").write_text("1234\n")
        (folder / "usr/lib/os-release").write_text("IMAGE_VERSION=2.0.0\n")
        self.route("eth0")
        self.link("eth0", carrier="1")
        self.program("grub-editenv", EDITENV)
        self.program(
            "systemctl",
            f"""#!/bin/sh
echo "$*" >> {folder}/calls
case $1 in
list-units) cat {folder}/failed-units ;;
show) [ "$4" = -- ] || exit 1; case $5 in app-*) echo evenkeel-apps.slice ;; *) echo system.slice ;; esac ;;
esac
""",
        )
        for name in ("network", "units", "data"):
            self.check("trial.d", name, (ROOTFS / HEALTH / "trial.d" / name).read_text())

    def program(self, name: str, text: str) -> None:
        (self.folder / "bin" / name).write_text(text)
        (self.folder / "bin" / name).chmod(0o755)

    def check(self, folder: str, name: str, text: str, below: str = HEALTH) -> None:
        file = self.folder / below / folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text if text.startswith("#!") else f"#!/bin/sh\n{text}\n")
        file.chmod(0o755)

    def route(self, interface: str = "") -> None:
        line = f"{interface}\t00000000\t0202000A\t0003\t0\t0\t1024\t00000000\t0\t0\t0\n" if interface else ""
        (self.folder / "proc/net/route").write_text(f"Iface\tDestination\tGateway\n{line}")

    def link(self, interface: str, carrier: str) -> None:
        place = self.folder / "sys/class/net" / interface
        place.mkdir(parents=True, exist_ok=True)
        (place / "carrier").write_text(f"{carrier}\n")

    def state(self, **values: str) -> None:
        (self.folder / "bootstate/grubenv").write_text("".join(f"{k}={v}\n" for k, v in values.items()))

    @property
    def grubenv(self) -> dict[str, str]:
        return dict(
            line.split("=", 1) for line in (self.folder / "bootstate/grubenv").read_text().splitlines()
        )

    @property
    def restarted(self) -> bool:
        calls = self.folder / "calls"
        return calls.exists() and "reboot" in calls.read_text().splitlines()

    def text(self, path: str) -> str:
        return (self.folder / path).read_text()

    def run(self, program: Path, *args: str) -> subprocess.CompletedProcess[str]:
        (self.folder / "failed-units").write_text(
            "".join(f"{unit} loaded failed failed x\n" for unit in self.failed)
        )
        path = f"{self.folder}/bin:{ROOTFS}/usr/bin:{os.environ['PATH']}"
        return subprocess.run(
            [program, *args], capture_output=True, text=True, check=False,
            env={"PATH": path, "EK_HEALTH_ROOT": str(self.folder), "EK_HEALTH_PAUSE_S": "0"},
        )  # fmt: skip

    def health(self, *args: str) -> subprocess.CompletedProcess[str]:
        return self.run(ROOTFS / "usr/bin/ek-health", *args)

    def slot_good(self, *args: str) -> subprocess.CompletedProcess[str]:
        return self.run(ROOTFS / "usr/lib/evenkeel/slot-good", *args)


@pytest.fixture
def root(tmp_path: Path) -> Root:
    return Root(tmp_path)


def identity(root: Root) -> str:
    done = subprocess.run(
        ["cksum", root.folder / "usr/lib/os-release"], capture_output=True, text=True, check=True
    )
    return done.stdout.split()[0]


def new_version(root: Root) -> None:
    """Slot B has a new version in its first start, slot A one that works."""
    root.state(ORDER="B A", A_OK="1", A_TRY="0", A_CONFIRMED="1", B_OK="1", B_TRY="1", B_CONFIRMED="2")


def test_each_check_is_reported_with_its_reason(root: Root) -> None:
    root.check("required.d", "good", "echo much; exit 0")
    root.check("required.d", "bad", "echo first; printf 'the\\treason\\n\\n'; exit 3")
    root.check("required.d", "silent", "exit 4")
    root.check("wanted.d", "nice", "echo dull >&2; exit 1")
    done = root.health()
    assert done.returncode == 1
    assert done.stdout.splitlines() == [
        "failed required bad the reason",
        "passed required good",
        "failed required silent exit status 4",
        "failed wanted nice dull",
    ]


def test_what_is_only_wanted_does_no_harm(root: Root) -> None:
    root.check("wanted.d", "nice", "exit 1")
    root.check("trial.d", "network", "exit 1")
    assert root.health().returncode == 0
    assert root.health("--trial").returncode == 1
    assert root.health("--nonsense").returncode == 2


def test_the_owner_may_replace_a_check_and_switch_one_off(root: Root) -> None:
    root.check("required.d", "one", "exit 1")
    root.check("required.d", "two", "exit 1")
    root.check("required.d", "one", "exit 0", "etc/evenkeel/health")
    (root.folder / "etc/evenkeel/health/required.d/two").symlink_to("/dev/null")
    root.check("required.d", "three", "echo mine; exit 1", "etc/evenkeel/health")
    assert root.health().stdout.splitlines() == ["passed required one", "failed required three mine"]


def test_a_check_that_cannot_run_or_does_not_end_has_failed(root: Root) -> None:
    root.check("required.d", "plain", "exit 0")
    (root.folder / HEALTH / "required.d/plain").chmod(0o644)
    root.program("timeout", '#!/bin/sh\nshift\ncase $1 in *slow) exit 124 ;; *) exec "$@" ;; esac\n')
    root.check("required.d", "slow", "sleep 100")
    assert root.health().stdout.splitlines() == [
        "failed required plain the check cannot be executed",
        "failed required slow no result within 30 s",
    ]


def test_a_healthy_slot_is_confirmed(root: Root) -> None:
    new_version(root)
    root.check("required.d", "panel", "exit 0")
    done = root.slot_good()
    assert done.returncode == 0, done.stderr
    assert {
        "B_OK": "1",
        "B_TRY": "0",
        "B_CONFIRMED": identity(root),
        "A_CONFIRMED": "1",
    }.items() <= root.grubenv.items()
    assert not root.restarted
    assert "passed required panel" in root.text("run/evenkeel/health")
    assert "passed trial units" in root.text("run/evenkeel/health")
    # the limit of time has nothing to do any more
    assert root.slot_good("--too-late", "within 10 min").returncode == 0
    assert not root.restarted


def test_a_check_may_pass_in_a_second_attempt(root: Root) -> None:
    new_version(root)
    root.check("required.d", "panel", f"[ -e {root.folder}/once ] || {{ : > {root.folder}/once; exit 1; }}")
    assert root.slot_good().returncode == 0
    assert root.grubenv["B_TRY"] == "0"
    assert not root.restarted


def test_what_the_next_trial_compares_with_is_kept_when_the_board_stops(root: Root) -> None:
    root.failed = ["old.service", "app-x.service"]
    assert root.slot_good("--remember").returncode == 0
    assert root.text("var/lib/evenkeel-health/network") == "eth0\n"
    assert root.text("var/lib/evenkeel-health/units") == "old.service\n"
    before = (root.folder / "var/lib/evenkeel-health/network").stat().st_mtime_ns
    root.slot_good("--remember")
    assert (root.folder / "var/lib/evenkeel-health/network").stat().st_mtime_ns == before, "no needless write"
    new_version(root)
    root.failed.append("app-y.service")  # an app cannot bring the old version back
    assert root.slot_good().returncode == 0
    assert not root.restarted


def unwritable(root: Root) -> None:
    """As on a full or read-only data partition. Root may write to any folder, so a file has the folder's name."""
    (root.folder / "var/lib/evenkeel-health").write_text("")


def test_without_a_writable_data_partition_a_trial_still_ends(root: Root) -> None:
    new_version(root)
    unwritable(root)
    done = root.slot_good()
    assert done.returncode == 1
    assert root.restarted
    assert "the panel will not know the reason" in done.stderr
    (root.folder / "calls").unlink()
    assert root.slot_good("--too-late", "within 10 min").returncode == 1
    assert root.restarted


def test_without_a_writable_data_partition_a_known_version_is_confirmed(root: Root) -> None:
    new_version(root)
    root.state(**root.grubenv | {"B_CONFIRMED": identity(root)})
    unwritable(root)
    assert root.slot_good().returncode == 0
    assert root.grubenv["B_TRY"] == "0"
    assert root.slot_good("--remember").returncode == 0


def test_the_network_gets_more_time(root: Root) -> None:
    """A switch that starts with the board needs a minute or more."""
    new_version(root)
    no_route(root)
    count = root.folder / "count"
    root.program(
        "sleep",
        f"#!/bin/sh\necho x >> {count}\n[ $(wc -l < {count}) -lt 20 ] || echo eth1 0 0 > {root.folder}/up\n",
    )
    check = root.text(f"{HEALTH}/trial.d/network").replace(
        "set -eu", f"set -eu\n[ ! -e {root.folder}/up ] || exit 0", 1
    )
    root.check("trial.d", "network", check)
    assert root.slot_good().returncode == 0
    assert len(count.read_text().split()) == 20
    # together with another failed check, it does not
    new_version(root)
    count.write_text("")
    (root.folder / "up").unlink()
    (root.folder / "run/evenkeel/confirmed").unlink()
    no_panel(root)
    assert root.slot_good().returncode == 1
    assert len(count.read_text().split()) == 3
    assert root.restarted


def no_panel(root: Root) -> None:
    root.check("required.d", "panel", "echo no answer; exit 1")


def no_interface(root: Root) -> None:
    root.link("eth1", carrier="1")
    (root.folder / "var/lib/evenkeel-health").mkdir()
    (root.folder / "var/lib/evenkeel-health/network").write_text("eth0 eth7\n")


def no_route(root: Root) -> None:
    no_interface(root)
    (root.folder / "var/lib/evenkeel-health/network").write_text("eth1\n")


def failed_unit(root: Root) -> None:
    root.failed = ["old.service", "-.mount", "new.service"]
    (root.folder / "var/lib/evenkeel-health").mkdir()
    (root.folder / "var/lib/evenkeel-health/units").write_text("old.service\n")


def no_data(root: Root) -> None:
    (root.folder / "run/evenkeel/data-degraded").write_text("no partition named data\n")


@pytest.mark.parametrize(
    ("break_it", "reason"),
    [
        (no_panel, "failed required panel no answer"),
        (no_interface, "failed trial network the network interface eth7 is missing"),
        (no_route, "failed trial network the network interface eth1 has a link, but no default route"),
        (failed_unit, "failed trial units failed units: -.mount new.service"),
        (no_data, "failed trial data the data partition is not used: no partition named data"),
    ],
)
def test_a_new_version_that_is_not_healthy_restarts_the_board(
    root: Root, break_it: Callable[[Root], None], reason: str
) -> None:
    new_version(root)
    break_it(root)
    done = root.slot_good()
    assert done.returncode == 1
    assert root.restarted
    assert root.grubenv["B_TRY"] == "1", "GRUB must count this start"
    assert root.text("var/lib/evenkeel-health/B").splitlines()[0] == "version 2.0.0"
    assert reason in root.text("var/lib/evenkeel-health/B").splitlines()
    assert reason in done.stderr


@pytest.mark.parametrize(
    ("queue", "reason"),
    [
        ("none mq-deadline [evenkeel]", ""),
        (
            "[none] mq-deadline evenkeel",
            "the scheduler of the disk is not evenkeel: [none] mq-deadline evenkeel",
        ),
        ("none", ""),  # a layer above the disk
        (None, "the kernel module evenkeel is not loaded"),
    ],
)
def test_the_scheduler_is_active_on_the_disk_of_the_root_file_system(
    root: Root, queue: str | None, reason: str
) -> None:
    (root.folder / "proc/self").mkdir()
    (root.folder / "proc/self/mountinfo").write_text(
        "22 1 0:5 / /proc rw - proc proc rw\n23 1 254:3 / / ro - ext4 /dev/root ro\n24 1 254:6 / /data rw - ext4 x rw\n"
    )
    disk = root.folder / "sys/devices/vda"
    (disk / "vda3").mkdir(parents=True)
    (disk / "queue").mkdir()
    (disk / "queue/scheduler").write_text(f"{queue}\n")
    (root.folder / "sys/dev/block").mkdir(parents=True)
    (root.folder / "sys/dev/block/254:3").symlink_to(disk / "vda3")
    if queue is not None:
        (root.folder / "sys/module/evenkeel").mkdir(parents=True)
    done = root.run(ROOTFS / HEALTH / "trial.d/scheduler")
    assert (done.returncode, done.stdout.strip(), done.stderr) == (bool(reason), reason, "")


def test_a_cable_that_is_unplugged_is_not_the_version_s_fault(root: Root) -> None:
    new_version(root)
    no_route(root)
    root.link("eth1", carrier="0")
    assert root.slot_good().returncode == 0


@pytest.mark.parametrize(
    "state",
    [
        pytest.param({"B_CONFIRMED": "same"}, id="the slot worked before"),
        pytest.param({"A_CONFIRMED": "same"}, id="the other slot has the same contents"),
        pytest.param({"A_CONFIRMED": ""}, id="the other slot never worked"),
        pytest.param({"A_OK": "0"}, id="the other slot is incomplete"),
        pytest.param({"B_TRY": "0"}, id="GRUB does not count the starts"),
    ],
)
def test_outside_a_trial_the_board_is_not_restarted(root: Root, state: dict[str, str]) -> None:
    new_version(root)
    values = root.grubenv | {
        name: identity(root) if value == "same" else value for name, value in state.items()
    }
    root.state(**{name: value for name, value in values.items() if value})
    no_panel(root)
    no_data(root)
    done = root.slot_good()
    assert done.returncode == 1
    assert "slot B is not confirmed" in done.stderr
    assert root.grubenv["B_TRY"] == values["B_TRY"]
    assert not root.restarted
    assert "trial" not in root.text("run/evenkeel/health")
    assert root.slot_good("--too-late", "within 10 min").returncode == 0
    assert not root.restarted


def test_a_known_version_is_confirmed_without_its_data_partition(root: Root) -> None:
    """The other slot has the same data partition, so it would be no better."""
    new_version(root)
    root.state(**root.grubenv | {"B_CONFIRMED": identity(root)})
    no_data(root)
    failed_unit(root)
    assert root.slot_good().returncode == 0
    assert root.grubenv["B_TRY"] == "0"


def test_a_start_that_hangs_ends_the_trial(root: Root) -> None:
    new_version(root)
    assert root.slot_good("--too-late", "within 10 min").returncode == 1
    assert root.restarted
    assert "failed required time the board was not healthy within 10 min" in root.text(
        "var/lib/evenkeel-health/B"
    )


def test_the_reason_is_kept_until_the_slot_is_confirmed(root: Root) -> None:
    new_version(root)
    no_panel(root)
    root.slot_good()
    assert (root.folder / "var/lib/evenkeel-health/B").exists()
    root.check("required.d", "panel", "exit 0")
    assert root.slot_good().returncode == 0
    assert not (root.folder / "var/lib/evenkeel-health/B").exists()


def test_a_damaged_boot_state_is_made_again(root: Root) -> None:
    (root.folder / "bootstate/grubenv").write_text("damaged")
    assert root.slot_good().returncode == 0
    assert {
        "ORDER": "B A",
        "A_OK": "1",
        "A_TRY": "0",
        "B_OK": "1",
        "B_TRY": "0",
    }.items() <= root.grubenv.items()


def test_a_board_without_slots_is_refused(root: Root) -> None:
    (root.folder / "proc/cmdline").write_text("ro\n")
    done = root.slot_good()
    assert done.returncode == 1
    assert "has neither rauc.slot=A nor rauc.slot=B" in done.stderr
