# SPDX-License-Identifier: Apache-2.0
"""The recorder on the board: idle, recording, killed, after a power cut, without space, without its partition.

All tests use the same board. They run in the order of this file, because each continues from the state
that the previous one left.
"""

import hashlib
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from boards import SLOW, Board, power_on
from sample import in_sample
from visitor import Visitor

SERVICE = "ek-recorder.service"
CHANNELS = "/etc/ek-recorder/channels.d"
# prefix of a command that runs like an app: as a user that the board's owner has added to the group ek-record
MEMBER = "setpriv --reuid=nobody --regid=nogroup --groups=ek-record"
# prefix of a command that runs as a user outside this group
NON_MEMBER = "setpriv --reuid=nobody --regid=nogroup --clear-groups"
CLIENT_PATH = "/var/lib/client.py"
# A writer in Python: writes records through the C library, and reads them back with the package ek_recorder.
CLIENT = """
import sys
from ek_recorder import Record, Writer, read
channel, first, last = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
with Writer(channel, way="ring") as writer:
    for number in range(first, last + 1):
        writer.wait(timeout=30)
        assert writer.submit(b"record %d" % number)
    writer.sync(timeout=30)
    assert writer.lost == 0
have = {event.data for event in read(channel) if isinstance(event, Record)}
assert have >= {b"record %d" % number for number in range(first, last + 1)}
print("recorded", first, last)
"""


@pytest.fixture(scope="module")
def board() -> Iterator[Board]:
    yield from power_on("boot-recorder")


def until(board: Board, condition: str, seconds: int = 60) -> None:
    """Wait for a shell condition on the board."""
    loop = f"for i in $(seq {2 * seconds}); do {{ {condition}; }} > /dev/null 2>&1 && exit 0; sleep 0.5; done"
    report = f"ek-recorder status; systemctl status --no-pager {SERVICE}"
    board.run(f"( {loop}; {report}; exit 1 )", timeout=SLOW * seconds)


def channels(board: Board) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(board.run("ek-recorder status --json"))["channels"]
    return found


def complete(name: str) -> str:
    """A shell condition that is true once the recorder has created all segments of a channel."""
    return f'ek-recorder status --json | grep \'"{name}":\' | grep -E \'"segments":([0-9]+),"segments_wanted":\\1,\''


def recording(board: Board, *names: str) -> None:
    for name in names:
        until(board, f"ek-recorder status | grep -E '^{name} +recording '")


def add_channel(board: Board, name: str, **keys: str) -> None:
    lines = "".join(f"{key} = {value}\\n" for key, value in keys.items())
    board.run(f"printf '{lines}' > {CHANNELS}/{name}.conf && sync {CHANNELS}/{name}.conf")


def verified(board: Board, name: str) -> dict[str, Any]:
    """The report of `ek-recorder verify` on a channel.

    The channel may have gaps, which are marked. But no record may be damaged, or missing without a gap.
    """
    found: dict[str, Any] = json.loads(board.try_run(f"ek-recorder verify --json {name}", 120)[1])[
        "channels"
    ][0]
    assert (found["missing"], found["damage"]) == (0, 0), found
    return found


def lines(board: Board, name: str) -> list[str]:
    return board.try_run(f"ek-recorder cat --lines {name} 2> /dev/null", 120)[1].splitlines()


def numbers(board: Board, name: str) -> list[int]:
    return [int(line.split()[1]) for line in lines(board, name) if line.startswith("record ")]


def problems(board: Board) -> str:
    found: list[dict[str, str]] = json.loads(board.run("ekctl status --json"))["problems"]
    return "\n".join(problem["text"] for problem in found)


def client(board: Board, channel: str, first: int, last: int) -> None:
    """Write the records `first` to `last`. The program CLIENT itself checks that it can read them back at once."""
    output = board.run(f"{MEMBER} python3 {CLIENT_PATH} {channel} {first} {last}", 120)
    assert output == f"recorded {first} {last}"


def remove_channel(board: Board, name: str) -> None:
    """Remove a channel and sync. Without the sync, a later power cut could bring the channel back."""
    board.run(f"rm {CHANNELS}/{name}.conf; rm -r /recorder/{name}; sync -f {CHANNELS}; sync -f /recorder")


def assert_healthy(board: Board) -> None:
    assert board.settled() == "running", board.run("systemctl --failed --no-legend --plain")
    assert problems(board) == ""
    assert board.health()[1]["health"] == "ok"


def test_it_is_idle_and_healthy_without_a_channel(board: Board) -> None:
    assert_healthy(board)
    assert board.run(f"systemctl is-active {SERVICE} ek-recorder.socket").split() == ["active", "active"]
    assert channels(board) == {}
    assert board.run(f"systemctl show -P StatusText {SERVICE}") == "0 of 0 channels are recording"
    assert board.run("ls -A /recorder") == "lost+found"


def test_its_partition_belongs_to_the_recorder(board: Board) -> None:
    assert board.run("stat -c '%U:%G %a' /recorder") == "ek-recorder:ek-record 755"
    assert board.run("id -u ek-recorder; id -g ek-recorder").split() == ["900", "900"]
    partition = board.run("readlink -f /dev/disk/evenkeel/recorder")
    assert board.run("findmnt -no SOURCE /recorder") == partition
    # mke2fs initialised all block groups, so the kernel has nothing left to initialise.
    assert board.try_run("pgrep ext4lazyinit")[0] == 1


def test_it_runs_with_few_privileges(board: Board) -> None:
    board.settled()
    pid = board.run(f"systemctl show -P MainPID {SERVICE}")
    status = dict(
        line.split(":", 1) for line in board.run(f"cat /proc/{pid}/status").splitlines() if ":" in line
    )
    assert [int(value, 16) for key, value in status.items() if key.startswith("Cap")] == [0] * 5
    assert (status["NoNewPrivs"].strip(), status["Seccomp"].strip()) == ("1", "2")
    assert board.run(f"ps -o user:32= -p {pid}") == "ek-recorder"
    # Every mapping is locked into memory, so none is ever read from the medium again. The excluded
    # mappings are the kernel's own, which are always in memory.
    maps = board.run(f"grep -E '^[0-9a-f]+-|^VmFlags' /proc/{pid}/smaps").splitlines()
    unlocked = [
        place
        for place, flags in zip(maps[::2], maps[1::2], strict=True)
        if "lo" not in flags.split()
        and not place.endswith((" [vdso]", " [vvar]", " [vvar_vclock]", " [vsyscall]"))
    ]
    assert unlocked == []
    assert int(status["VmLck"].split()[0]) > 1000
    # it can write to its partition, its private /tmp and its folder in /run, and to nothing else
    mounts = board.run(f"cat /proc/{pid}/mounts")
    writable = {line.split()[1] for line in mounts.splitlines() if "rw" in line.split()[3].split(",")}
    others = {
        path
        for path in writable
        if not path.startswith(("/dev", "/proc", "/sys")) and Path(path).name != "tmp"
    }
    # systemd leaves /run mounted read-write, but only root may write to the folder /run itself
    # /bootstate is mounted on access, which systemd's list of read-only mounts does not cover. Only root may write there.
    assert others - {"/run", "/bootstate"} == {"/recorder", "/run/ek-recorder"}
    assert board.try_run("setpriv --reuid=ek-recorder --clear-groups touch /bootstate/x")[0] != 0
    # --threshold is ten times the largest allowed exposure level. A service without protection has almost 100.
    board.run(f"systemd-analyze security --no-pager --threshold=10 {SERVICE} > /run/exposure", timeout=120)


def test_a_channel_added_as_a_drop_in_is_recorded(board: Board) -> None:
    add_channel(board, "arm", record_size="64", retain="8MiB", window="200ms")
    board.run(f"systemctl reload-or-restart {SERVICE}")
    recording(board, "arm")
    board.run(f"seq -f 'record %.0f' 1000 | {MEMBER} ek-recorder write arm")
    assert numbers(board, "arm") == list(range(1, 1001))
    assert board.run("ek-recorder verify arm").endswith("clean")
    assert_healthy(board)


def test_a_user_outside_the_group_can_neither_record_nor_read(board: Board) -> None:
    status, output = board.try_run(f"echo x | {NON_MEMBER} ek-recorder write arm")
    assert (status, "this user may write to no channel" in output) == (1, True), output
    assert board.try_run(f"{NON_MEMBER} ek-recorder cat arm")[0] == 2
    assert len(lines(board, "arm")) == 1000


def test_records_by_the_python_client(board: Board) -> None:
    # Sync the file, because tests after the power cut use it, too.
    board.run(f"cat > {CLIENT_PATH} <<'END'\n{CLIENT}\nEND\nsync {CLIENT_PATH} {Path(CLIENT_PATH).parent}")
    client(board, "arm", 1001, 2000)
    assert numbers(board, "arm") == list(range(1, 2001))
    # a member of the group can also read the channel
    assert board.run(f"{MEMBER} ek-recorder verify arm").endswith("clean")


def test_a_channel_comes_back_from_a_backup_with_its_recording(board: Board) -> None:
    """With the real helper, its sandbox and polkit."""
    file = f"{CHANNELS}/arm.conf"
    board.run("rm -f /run/backup.json; ekctl backup /run/backup.json")
    before = board.run(f"cat {file}")
    board.run(f"rm {file} && systemctl reload {SERVICE}")
    until(board, "! ek-recorder status | grep '^arm '")
    assert "the channel arm of the recorder is added" in board.run("ekctl restore /run/backup.json")
    recording(board, "arm")
    assert board.run(f"cat {file}") == before
    assert board.run(f"stat -c '%U %a' {file}") == "evenkeel-system 644"
    assert (
        board.run(f"stat -c '%U:%G %a' /etc/ek-recorder {CHANNELS}").split("\n")
        == ["root:evenkeel-system 775"] * 2
    )
    assert len(lines(board, "arm")) == 2000
    assert "nothing" in board.run("ekctl restore /run/backup.json --check; rm /run/backup.json")
    assert_healthy(board)


def test_an_export_has_every_record(board: Board) -> None:
    board.run("ek-recorder export arm -o /run/arm.csv && ek-recorder export arm -o /run/arm.mcap", 120)
    assert board.run("grep -c ^record, /run/arm.csv") == "2000"
    assert board.run("head -c 5 /run/arm.mcap | tail -c 4") == "MCAP"


def test_the_panel_shows_the_recorder_and_downloads_what_export_writes(board: Board) -> None:
    visitor = Visitor(board.port)
    visitor.first_log_in(board.first_password())
    found = json.loads(visitor.get("/recorder.json"))
    (arm,) = found["channels"]
    assert (found["state"], arm["name"], arm["state"], arm["lost"]) == ("running", "arm", "recording", 0)
    assert found["losses"].startswith("Nothing lost since ")
    deadline = time.monotonic() + 60 * SLOW
    while not json.loads(visitor.get("/recorder.json"))["listed_at"] and time.monotonic() < deadline:
        time.sleep(1)
    (arm,) = json.loads(visitor.get("/recorder.json"))["channels"]
    assert 0 < arm["oldest_at"] <= arm["newest_at"]
    for name, format_ in (("arm.csv", "csv-hex"), ("arm.mcap", "mcap")):
        fields = {"channel": "arm", "span": "all", "format": format_}
        content = visitor.download("/recorder/download", "/recorder", **fields)
        assert hashlib.sha256(content).hexdigest() == board.run(f"sha256sum /run/{name}").split()[0]
    rows = visitor.get("/audit.json")
    assert rows.count("OpenRecording") == 2
    refused = visitor.post("/recorder/download", "/recorder", channel="arm", span="times", start="yesterday")
    assert "is not a time" in refused


def test_the_agent_and_the_panel_cannot_read_recordings(board: Board) -> None:
    for unit in ("evenkeeld.service", "evenkeel-panel.service"):
        pid = board.run(f"systemctl show -P MainPID {unit}")
        assert "900" not in board.run(f"grep ^Groups: /proc/{pid}/status").split()


# what code in the place of ek-recordings can do; the message has the priority notice, so that it is logged
PROBE = """
read=$(ek-recorder cat --lines arm | grep -c '^record ')
made=no; touch /recorder/arm/probe && made=yes
sent=no; echo probe | timeout 10 ek-recorder write arm && sent=yes
tried=no; ls /run/ek-recorder/socket && tried=yes
capabilities=$(sed -n 's/^CapEff:[[:space:]]*//p' /proc/self/status)
echo "<5>probe: read $read, made $made, sent $sent, tried $tried, capabilities $capabilities" >&2
"""


def test_the_helper_reads_and_changes_nothing(board: Board) -> None:
    folder = "/run/systemd/system/evenkeel-recordings@.service.d"
    unit = "[Service]\\nExecStart=\\nExecStart=/bin/sh /run/probe.sh\\n"
    board.run(f"cat > /run/probe.sh <<'END'\n{PROBE}\nEND")
    board.run(f"mkdir -p {folder} && printf '{unit}' > {folder}/probe.conf && systemctl daemon-reload")
    connect = "import socket; socket.socket(1, 5).connect('/run/evenkeel/recordings')"
    board.run(f'python3 -c "{connect}"')
    expected = "probe: read 2000, made no, sent no, tried no, capabilities 0*$"
    until(board, f"journalctl -b -o cat --no-pager | grep '{expected}'")
    board.run(f"rm -r {folder} /run/probe.sh && systemctl daemon-reload")
    assert len(lines(board, "arm")) == 2000


def test_a_fifo_for_programs_that_write_files(board: Board) -> None:
    """The units of docs/howto/record.md."""
    add_channel(board, "log", record_size="64", retain="2MiB", window="200ms")
    board.run(f"systemctl reload-or-restart {SERVICE}")
    recording(board, "log")
    board.run("systemctl start ek-recorder-fifo@log.socket")
    board.run(f"{MEMBER} sh -c 'seq -f \"record %.0f\" 100 > /run/ek-recorder-fifo/log'")
    until(board, "ek-recorder verify log | grep -F ' 100 records'")
    assert numbers(board, "log") == list(range(1, 101))
    assert board.try_run(f"{NON_MEMBER} sh -c 'echo x > /run/ek-recorder-fifo/log'")[0] != 0
    board.run("systemctl stop ek-recorder-fifo@log.socket ek-recorder-fifo@log.service")
    remove_channel(board, "log")
    board.run(f"systemctl restart {SERVICE}")


def transactions(board: Board) -> int:
    """Commits of the journal on the recorder's partition since it was mounted."""
    device = board.run("findmnt -no SOURCE /recorder").rpartition("/")[2]
    return int(board.run(f"cat /proc/fs/jbd2/{device}-8/info").split()[0])


def test_recording_commits_no_metadata(board: Board) -> None:
    add_channel(board, "bulk", record_size="4KiB", retain="8MiB", window="200ms")
    board.run(f"systemctl reload-or-restart {SERVICE}")
    until(board, complete("bulk"))
    board.run("sync -f /recorder")
    before = transactions(board)
    # 20 MB are more than twice the size of the channel, so the recorder reuses each segment.
    board.run(f"head -c 20M /dev/zero | {MEMBER} ek-recorder write --size 4096 bulk", 300)
    # the recorder writes its statistics once a second
    until(board, "ek-recorder status --json | grep '\"bulk\":' | grep '\"durable\":5120,'")
    bulk = channels(board)["bulk"]
    assert bulk["generation"] > bulk["segments"]
    assert bulk["medium_bytes"] > 20 << 20
    # One commit is allowed: every 300 s ext4 commits the time stamps of the segments (conf/fstab).
    assert transactions(board) - before <= 1
    board.run(f"systemctl stop ek-recorder.socket {SERVICE}")
    remove_channel(board, "bulk")
    board.run(f"systemctl start {SERVICE}")
    recording(board, "arm")


def test_after_a_kill_it_restarts_and_has_all_synced_records(board: Board) -> None:
    client(board, "arm", 1, 500)
    pid = board.run(f"systemctl show -P MainPID {SERVICE}")
    board.run(f"kill -9 {pid}")
    until(board, f"p=$(systemctl show -P MainPID {SERVICE}); [ $p != 0 ] && [ $p != {pid} ]")
    recording(board, "arm")
    assert numbers(board, "arm")[-500:] == list(range(1, 501))
    client(board, "arm", 501, 1000)
    assert numbers(board, "arm")[-1000:] == list(range(1, 1001))
    assert verified(board, "arm")["gaps"] == 1
    assert_healthy(board)


def test_a_writer_starts_the_stopped_recorder_and_waits(board: Board) -> None:
    board.run(f"systemctl stop {SERVICE}")
    assert board.run("echo 'record 1001' | ek-recorder write arm", 120) == ""
    assert board.run(f"systemctl is-active {SERVICE}") == "active"
    assert numbers(board, "arm")[-1] == 1001


# Each of these tests takes two minutes.
FAULTS = in_sample("faults of the recorder", "power cut", "it cannot start", "no partition")


@FAULTS["power cut"]
def test_synced_records_survive_a_power_cut(board: Board) -> None:
    client(board, "arm", 2001, 2500)
    # A second writer is still writing when the power is cut.
    board.run(f"(seq -f 'record %.0f' 1000000 9999999 | {MEMBER} ek-recorder write arm) > /dev/null 2>&1 &")
    time.sleep(3)
    board.power_cut()
    board.power_on()
    recording(board, "arm")
    found = numbers(board, "arm")
    # No number of the second writer is missing. The synced records may be absent for one reason only: the second
    # writer wrote so much that the recorder reused their segments.
    tail = [number for number in found if number >= 1000000]
    assert tail == list(range(tail[0], tail[0] + len(tail)))
    assert tail[0] > 1000000 or found[-len(tail) - 500 : -len(tail)] == list(range(2001, 2501))
    assert verified(board, "arm")["gaps"] >= 1
    assert_healthy(board)


def test_a_channel_without_space_is_reported_and_others_record(board: Board) -> None:
    board.run("fallocate -l $(($(stat -f -c '%a * %S' /recorder) - 1048576)) /recorder/filler")
    add_channel(board, "lidar", record_size="1KiB", retain="64MiB")
    board.run(f"systemctl reload-or-restart {SERVICE}")
    until(board, "ek-recorder status | grep 'No space left on device'")
    assert channels(board)["lidar"]["state"] == "failed"
    status, output = board.try_run("echo x | ek-recorder write lidar")
    assert (status, "No space left on device" in output) == (1, True), output
    client(board, "arm", 1, 10)
    assert "channel lidar is not recorded: " in problems(board)
    assert board.health()[1]["health"] == "degraded"
    assert board.settled() == "running"
    # the recorder notices by itself that there is space again
    board.run("rm /recorder/filler")
    recording(board, "lidar")
    until(board, complete("lidar"), 120)
    assert_healthy(board)


def test_an_invalid_configuration_is_reported(board: Board) -> None:
    add_channel(board, "bad", record_size="none", retain="1GB")
    board.run(f"systemctl reload-or-restart {SERVICE}")
    recording(board, "arm", "lidar")
    assert "channel bad is not recorded: " in problems(board)
    board.run(f"rm {CHANNELS}/bad.conf")
    remove_channel(board, "lidar")
    board.run("echo 'nonsense = 1' >> /etc/ek-recorder/recorder.conf")
    # a reload does not end what records: the configuration in force stays
    board.run(f"systemctl reload {SERVICE}")
    recording(board, "arm")
    status = "configuration: /etc/ek-recorder/recorder.conf: nonsense = 1: unknown key; the earlier configuration stays"
    until(board, f"ek-recorder status | grep -F '{status}'")
    assert "the earlier configuration stays in force" in board.run(f"journalctl -b -u {SERVICE} --no-pager")
    board.try_run(f"systemctl restart {SERVICE}")
    assert "the recorder has failed" in problems(board)
    board.run("sed -i /nonsense/d /etc/ek-recorder/recorder.conf")
    board.run(f"systemctl restart {SERVICE}")
    recording(board, "arm")
    assert_healthy(board)


SLOT_GOOD = "evenkeel-slot-good.service"
DROP_IN = "/etc/systemd/system/ek-recorder.service.d/broken.conf"


def tries(board: Board) -> str:
    """Boots of slot A since it was last confirmed, from the boot loader's state."""
    state = board.run("grub-editenv /bootstate/grubenv list")
    return dict(line.split("=") for line in state.splitlines())["A_TRY"]


@FAULTS["it cannot start"]
def test_the_slot_is_not_confirmed_if_the_recorder_cannot_start(board: Board) -> None:
    set_tries = "grub-editenv /bootstate/grubenv set A_TRY=2"
    board.run(f"{set_tries}; mkdir -p {Path(DROP_IN).parent}")
    board.run(
        f"printf '[Service]\nExecStart=\nExecStart=/usr/bin/false\n' > {DROP_IN}; systemctl daemon-reload"
    )
    board.try_run(f"systemctl restart {SERVICE}")
    boot = board.run("cat /proc/sys/kernel/random/boot_id")
    assert board.try_run(f"systemctl restart {SLOT_GOOD}", 240)[0] != 0
    said = board.run(f"journalctl -b -o cat -u {SLOT_GOOD}")
    assert f"failed required recorder {SERVICE} does not run" in said
    assert "the board is not healthy; slot A is not confirmed" in said
    assert tries(board) == "2"
    # This version has worked before, so a restart would not help.
    assert board.run("cat /proc/sys/kernel/random/boot_id") == boot
    # If the owner has disabled the recorder, the slot is confirmed.
    board.run(
        f"systemctl disable {SERVICE} && systemctl restart {SLOT_GOOD} && systemctl enable {SERVICE}", 120
    )
    assert tries(board) == "0"
    board.run(f"rm {DROP_IN}; systemctl daemon-reload; {set_tries}")
    # If the recorder fails because of an invalid configuration, the slot is confirmed: the other slot has the same one.
    board.run("echo 'nonsense = 1' >> /etc/ek-recorder/recorder.conf")
    board.try_run(f"systemctl restart {SERVICE}")
    board.run(f"systemctl restart {SLOT_GOOD}", 120)
    assert tries(board) == "0"
    board.run(f"sed -i /nonsense/d /etc/ek-recorder/recorder.conf; {set_tries}")
    board.run(
        f"systemctl reset-failed {SERVICE}; systemctl restart {SERVICE} && systemctl restart {SLOT_GOOD}", 120
    )
    assert tries(board) == "0"
    recording(board, "arm")
    assert_healthy(board)


def test_recording_starts_once_the_partition_is_mounted(board: Board) -> None:
    board.run(
        f"systemctl stop ek-recorder.socket {SERVICE} && systemctl mask --runtime recorder.mount && umount /recorder"
    )
    board.run(f"systemctl start {SERVICE}")
    until(board, "ek-recorder status | grep 'nothing is mounted there'")
    assert "channel arm is not recorded: /recorder: nothing is mounted there" in problems(board)
    board.run("systemctl unmask --runtime recorder.mount && systemctl start recorder.mount")
    recording(board, "arm")
    client(board, "arm", 11, 20)
    assert_healthy(board)


@FAULTS["no partition"]
def test_without_its_partition_the_board_boots_and_reports_it(board: Board) -> None:
    board.run("sync")
    board.power_cut()
    board.destroy_partition("recorder")
    board.power_on()
    assert board.settled() == "degraded"
    assert board.run("systemctl --failed --no-legend --plain | cut -d' ' -f1") == "recorder.mount"
    assert board.run(f"systemctl is-active {SERVICE} evenkeel-slot-good.service").split() == [
        "active",
        "active",
    ]
    assert board.run("findmnt -no FSTYPE /data") == "ext4"
    assert "the recorder's partition is not mounted" in problems(board)
    assert "channel arm is not recorded: /recorder: nothing is mounted there" in problems(board)
    status, output = board.try_run("echo x | ek-recorder write arm")
    assert (status, "nothing is mounted there" in output) == (1, True), output
    status, health = board.health()
    assert (status, health["health"]) == (200, "degraded")


@FAULTS["no partition"]
def test_recording_works_on_a_recreated_partition(board: Board) -> None:
    board.run(
        "grep -v '^#' /usr/lib/evenkeel/mkfs/recorder | xargs mke2fs -q -t ext4 /dev/disk/evenkeel/recorder",
        120,
    )
    board.run("systemctl start recorder.mount")
    recording(board, "arm")
    client(board, "arm", 1, 10)
    assert numbers(board, "arm") == list(range(1, 11))
    assert problems(board) == ""
