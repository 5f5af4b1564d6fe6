# SPDX-License-Identifier: Apache-2.0
"""A fake board: a sysfs tree with an eMMC, and loads that move no data but count it.

Run as a program, this file is fio or ek-light-reader, whichever the first argument says. fio reads the job file, counts bytes
in io.stat of its group and in the stat of the disk, and prints a report when it has moved its bytes or gets SIGTERM.
ek-light-reader counts its reads, and writes its log at SIGTERM. BOARD_FAULT lets both fail.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

DISK, NUMBER = "mmcblk0", "179:0"
SCHEDULERS = "none mq-deadline kyber bfq [evenkeel]"
CAPACITY = 64 << 30
RATES = {"read": 200e6, "write": 10e6}


def make_tree(root: Path) -> Path:
    """A sysfs with one eMMC. Returns its path."""
    sys_ = root / "sys"
    disk = sys_ / "block" / DISK
    card = sys_ / "devices/mmc0:0001"
    part = disk / f"{DISK}p4"
    for folder in (
        disk / "queue/iosched",
        part,
        card,
        sys_ / "dev/block",
        sys_ / "kernel/debug/mmc0/mmc0:0001",
    ):
        folder.mkdir(parents=True)
    (disk / "device").symlink_to(card)
    for path, text in {
        disk / "dev": NUMBER,
        disk / "size": str(CAPACITY // 512),
        disk / "ro": "0",
        disk / "stat": "0 0 0 0 0 0 0 0 0 0 0",
        disk / "queue/scheduler": SCHEDULERS,
        disk / "queue/nr_requests": "128",
        disk / "queue/discard_max_bytes": "0",
        disk / "queue/max_sectors_kb": "512",
        disk / "queue/write_cache": "write back",
        disk / "queue/iosched/channels": "2",
        disk / "queue/iosched/chunk_kb": "32",
        part / "dev": "179:4",
        part / "partition": "4",
        part / "size": str(CAPACITY // 1024),
        card / "name": "BJTD4R",
        card / "cid": "150100424a54443452",
    }.items():
        path.write_text(text + "\n")
    (sys_ / "dev/block" / NUMBER).symlink_to(disk)
    (sys_ / "dev/block/179:4").symlink_to(part)
    return sys_


def values(sys_: Path) -> dict[str, str]:
    """What a validation may change, as text by path."""
    queue = sys_ / "block" / DISK / "queue"
    return {str(p.relative_to(queue)): p.read_text() for p in sorted(queue.rglob("*")) if p.is_file()}


@dataclass
class Groups:
    """A launcher whose groups are folders below ROOT.

    `pids`: a file with the ids of all processes. `frozen`: a file with the slice that is frozen at present.
    """

    root: Path
    fault: str = ""
    watched: str = ""
    started: list[tuple[str, int, int]] = field(default_factory=list)
    rates: Mapping[str, float] = field(default_factory=dict)

    def start(self, load: Any, log: Path) -> subprocess.Popen[bytes]:
        group = self.group(load)
        group.mkdir(parents=True, exist_ok=True)
        (group / "io.stat").write_text("")
        self.started.append((load.name, load.weight, load.fixed))
        if load.fixed:
            (group / "io.evenkeel.fixed").write_text("")
        environment = {
            **os.environ,
            "BOARD_GROUP": str(group),
            "BOARD_DISK": str(self.root / "sys/block" / DISK),
            "BOARD_FAULT": self.fault,
            "BOARD_RATE": str(self.rates.get(load.name, 0)),
            "BOARD_WEIGHT": str(load.weight),
        }
        command: Sequence[str] = load.arguments
        if command[0] in PROGRAMS:
            command = [sys.executable, "-S", __file__, *command]
        with log.open("wb") as output:
            process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, env=environment)
        with (self.root / "pids").open("a") as file:
            file.write(f"{process.pid}\n")
        # On a busy host, Python takes long to start. The fake load counts from here on.
        while process.poll() is None and not (group / "io.stat").read_text():
            time.sleep(0.005)
        return process

    def group(self, load: Any) -> Path:
        return self.root / "cgroup" / load.name

    def obstacle(self, slice_name: str) -> str:
        return self.watched

    def freeze(self, slice_name: str) -> None:
        (self.root / "frozen").write_text(slice_name)

    def thaw(self, slice_name: str) -> None:
        if (self.root / "frozen").exists():
            (self.root / "frozen").unlink()

    def stop(self, slice_name: str) -> None:
        """Kill all processes that a run has left behind."""
        for pid in (
            map(int, (self.root / "pids").read_text().split()) if (self.root / "pids").exists() else ()
        ):
            try:
                command = Path(f"/proc/{pid}/cmdline").read_bytes()
            except OSError:
                continue
            if __file__.encode() in command:
                os.kill(pid, signal.SIGKILL)


def alive(root: Path) -> list[int]:
    """The ids of the processes that still run."""
    found = []
    for pid in map(int, (root / "pids").read_text().split()) if (root / "pids").exists() else ():
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        if state not in "ZX":
            found.append(pid)
    return found


def _fake_fio(arguments: Sequence[str]) -> int:
    output = Path(next(a for a in arguments if a.startswith("--output=")).partition("=")[2])
    options: dict[str, str] = {}
    names: list[str] = []
    for line in Path(arguments[-1]).read_text().splitlines():
        if line.startswith("["):
            names.append(line.strip("[]"))
        elif "=" in line:
            options[line.partition("=")[0]] = line.partition("=")[2]
    side = "write" if "write" in options["rw"] else "read"
    if os.environ["BOARD_FAULT"] == side:
        sys.stdout.write(
            f"fio: {options['filename']}: error={os.environ.get('BOARD_ERROR', 'Input/output error')}\n"
        )
        return 1
    if names == ["lay"]:
        Path(options["filename"]).touch()
    rate = float(os.environ["BOARD_RATE"]) or RATES[side] * float(os.environ["BOARD_WEIGHT"]) / 100
    most = int(options.get("io_size", options["size"] if names == ["lay"] else 0)) or 1 << 62
    size = int(options["bs"][:-1]) * {"k": 1 << 10, "m": 1 << 20}[options["bs"][-1]]
    ended: list[int] = []
    signal.signal(signal.SIGTERM, lambda *_: ended.append(1))
    begin, moved = time.monotonic(), 0
    if names == ["lay"]:
        rate = 1e12  # the test file costs no time
    while not ended and moved < most:
        time.sleep(0.002)
        moved = min(int((time.monotonic() - begin) * rate), most)
        # a whole line at a time, as the kernel
        group = Path(os.environ["BOARD_GROUP"])
        read, written = (moved, 0) if side == "read" else (0, moved)
        for name in ("io.evenkeel.stat", "io.stat"):
            (group / "new").write_text(f"{NUMBER} rbytes={read} wbytes={written} rios=1 wios=1\n")
            os.replace(group / "new", group / name)
    took = max(time.monotonic() - begin, 0.001)
    ios = max(moved // size, 1)
    none = {"io_bytes": 0, "total_ios": 0, "runtime": 0, "lat_ns": {}}
    done = {
        "io_bytes": moved,
        "total_ios": ios,
        "runtime": round(took * 1000),
        "lat_ns": {"bins": {"150000": ios - ios // 100, "2000000": ios // 100}},
    }
    job = {"jobname": names[0], "error": 0, "read": none, "write": none, "trim": none, side: done}
    output.write_text("fio: a warning\n" + json.dumps({"jobs": [job]}))
    return 0


def _fake_reader(arguments: Sequence[str]) -> int:
    options = {name[2:]: value for name, _, value in (a.partition("=") for a in arguments) if name != "--"}
    if os.environ["BOARD_FAULT"] == "read":
        sys.stderr.write(
            f"ek-light-reader: cannot read {arguments[-1]}: {os.environ.get('BOARD_ERROR', 'Input/output error')}\n"
        )
        return 1
    ended: list[int] = []
    signal.signal(signal.SIGTERM, lambda *_: ended.append(1))
    begin, rate, size = time.monotonic(), int(options["rate"]), int(options["size"])
    while not ended:
        time.sleep(0.002)
        reads = int((time.monotonic() - begin) * rate) + 1
        group = Path(os.environ["BOARD_GROUP"])
        for name in ("io.evenkeel.stat", "io.stat"):
            (group / "new").write_text(f"{NUMBER} rbytes={reads * size} wbytes=0 rios={reads} wios=0\n")
            os.replace(group / "new", group / name)
    # each read that was planned until now
    planned = (begin + n / rate for n in range(int((time.monotonic() - begin) * rate) + 1))
    Path(options["log"]).write_text("".join(f"{at * 1e9:.0f} 200000\n" for at in planned))
    return 0


PROGRAMS = {"fio": _fake_fio, "ek-light-reader": _fake_reader}


if __name__ == "__main__":
    sys.exit(PROGRAMS[sys.argv[1]](sys.argv[2:]))
