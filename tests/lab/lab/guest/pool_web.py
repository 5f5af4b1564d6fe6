# SPDX-License-Identifier: Apache-2.0
"""pool_web.py make SEED SCALE, pool_web.py client SEED SCALE REQUESTS MS: the site of pool.web, and its client.

The site has the shape of the paper's (Tsuchiya et al., section 4.4, table 2): the files of six top pages and other files in
priority directories, SCALE times as many, and all other files. A seed gives the same files and the same requests with any
method. The paper does not report how often each file is requested. Here all files of the top pages are equally popular. The
popularity of the others follows Zipf's law with the exponent 0.8 (Breslau et al., *Web Caching and Zipf-like Distributions*,
1999: 0.64 to 0.83). A request begins MS milliseconds after the one before, or when that one is complete.
"""

from __future__ import annotations

import json
import random
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

ROOT = Path("/m/site")
SOCKET = "/tmp/nginx/socket"  # noqa: S108
POOL = Path("/cg/evenkeelpool.slice")
LOADED = Path("/tmp/loaded")  # noqa: S108  # the guest has no other users
PRIORITY_DIRECTORIES = 14
OTHER_DIRECTORIES = 1351
ZIPF = 0.8
LARGEST = 1 << 20
# rsync reads all files, and writes what it would send to another machine to /dev/null. It lists what it has read.
EMPTY = "/tmp/empty/"  # noqa: S108
BACKUP = (
    "rsync",
    "-a",
    "--outbuf=L",
    "--out-format=%i %l",
    "--only-write-batch=/tmp/batch",
    f"{ROOT}/",
    EMPTY,
)
IN_BACKUP = ("sh", "-c", 'echo $$ > /cg/backup/cgroup.procs && exec "$@"', "sh")
LISTED = Path("/tmp/listed")  # noqa: S108
SAMPLE_S = 5.0
LONGEST_S = 150.0


@dataclass(frozen=True)
class Kind:
    """A kind of file, as the paper's table 2 has it."""

    name: str
    files: int
    megabytes: float
    requests: int
    priority: bool
    zipf: float
    part: float  # the number of files here is that of the paper, times this, times the scale


KINDS = (
    Kind("top", 118, 0.7, 21391, True, 0.0, 1),
    Kind("priority", 877 - 118, 11.1 - 0.7, 59467 - 21391, True, ZIPF, 1),
    Kind("other", 8849 - 877, 600.0 - 11.1, 100000 - 59467, False, ZIPF, 0.15),
)


@dataclass(frozen=True)
class File:
    path: str  # below the root
    size: int


def site(seed: int, scale: float) -> dict[str, list[File]]:
    """The files of each kind, the most popular first."""
    random_ = random.Random(seed)  # noqa: S311  # not a secret
    found: dict[str, list[File]] = {}
    for kind in KINDS:
        mean = kind.megabytes * 1e6 / kind.files
        count = round(kind.files * kind.part * scale)
        files = []
        for n in range(count):
            size = min(LARGEST, max(64, round(random_.expovariate(1 / mean))))
            folder = n % (PRIORITY_DIRECTORIES if kind.priority else OTHER_DIRECTORIES)
            name = "priority" if kind.priority else "other"
            files.append(File(f"{name}{folder:04}/{kind.name}{n}", size))
        found[kind.name] = files
    return found


class Requests:
    """The endless sequence of requests."""

    def __init__(self, seed: int, files: dict[str, list[File]]) -> None:
        self._random = random.Random(seed + 1000)  # noqa: S311
        self._files = files
        self._weights = {
            kind.name: list(accumulate((rank + 1) ** -kind.zipf for rank in range(len(files[kind.name]))))
            for kind in KINDS
        }
        self._kinds = list(accumulate(kind.requests for kind in KINDS))

    def next(self) -> tuple[str, File]:
        kind = self._random.choices(KINDS, cum_weights=self._kinds)[0].name
        return kind, self._random.choices(self._files[kind], cum_weights=self._weights[kind])[0]


def make(files: dict[str, list[File]]) -> None:
    zeros = bytes(LARGEST)
    for folder in {file.path.partition("/")[0] for listed in files.values() for file in listed}:
        (ROOT / folder).mkdir()
    for listed in files.values():
        for file in listed:
            with open(ROOT / file.path, "wb", buffering=0) as opened:  # noqa: PTH123  # faster
                opened.write(zeros[: file.size])


class Connection:
    """A connection to the server that stays open."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(SOCKET)
        self._buffer = memoryview(bytearray(256 * 1024))

    def get(self, file: File) -> float:
        """Request the file; returns the time until its last byte arrived, in seconds."""
        begin = time.perf_counter()
        self._socket.sendall(f"GET /{file.path} HTTP/1.1\r\nHost: board\r\n\r\n".encode())
        head = b""
        while (at := head.find(b"\r\n\r\n")) < 0:
            got = self._socket.recv_into(self._buffer)
            if not got:
                raise ConnectionError("the server has closed the connection")
            head += self._buffer[:got]
        if not head.startswith(b"HTTP/1.1 200 "):
            raise ConnectionError(f"{file.path}: {head[:40]!r}")
        missing = file.size - (len(head) - at - 4)
        while missing > 0:
            missing -= self._socket.recv_into(self._buffer)
        return time.perf_counter() - begin


def sample() -> dict[str, int]:
    """Sizes in KiB: pages of files in the cache, protected pool, and S_target."""
    rows = (line.replace(":", " ").split() for line in Path("/proc/meminfo").read_text().splitlines())
    cache = sum(int(row[1]) for row in rows if row[0] in ("Active(file)", "Inactive(file)"))
    size, target = ((POOL / f"memory.{name}").read_text() for name in ("current", "low"))
    # memory.low may be `max`
    return {
        "cache_kib": cache,
        "pool_kib": int(size) >> 10,
        "target_kib": int(target) >> 10 if target.strip().isdigit() else 0,
    }


def listed_size(text: str) -> int:
    """The size of the files that rsync lists in TEXT, in bytes. The last line may be incomplete."""
    rows = (line.split() for line in text.split("\n")[:-1])
    return sum(int(size) for what, size in rows if what[1] == "f")


class Client:
    def __init__(self, requests: Requests, every_s: float) -> None:
        self._requests, self._every_s = requests, every_s
        self._connection = Connection()
        self._due = time.monotonic()

    def request(self) -> tuple[str, float]:
        """Wait for the moment of the next request, and make it. Returns the kind and the response time in seconds."""
        self._due = max(self._due + self._every_s, time.monotonic())
        time.sleep(max(0.0, self._due - time.monotonic()))
        kind, file = self._requests.next()
        return kind, self._connection.get(file)


def client(one: Client, warm: int, size: int) -> dict[str, object]:
    """Make `warm` requests, then further ones until the backup is complete. The times are those during the backup.

    If the backup is not complete after LONGEST_S, its time is estimated. `size`: size of the site in bytes.
    """
    LOADED.touch()
    while LOADED.exists():
        time.sleep(0.05)
    for _ in range(warm):
        one.request()
    times: dict[str, list[float]] = {kind.name: [] for kind in KINDS}
    samples = []
    begin = sampled = time.monotonic()
    with LISTED.open("w") as listed:
        backup = subprocess.Popen([*IN_BACKUP, *BACKUP], stdout=listed)
    while backup.poll() is None and time.monotonic() - begin < LONGEST_S:
        kind, took = one.request()
        times[kind].append(took)
        if time.monotonic() - sampled >= SAMPLE_S:
            sampled += SAMPLE_S
            samples.append(sample())
    seconds = time.monotonic() - begin
    if backup.poll() is None:
        seconds *= size / listed_size(LISTED.read_text())
        backup.terminate()
    elif backup.returncode:
        raise RuntimeError(f"rsync failed with status {backup.returncode}")
    return {
        "backup_s": seconds,
        **{name: sum(one[name] for one in samples) / max(1, len(samples)) for name in sample()},
        **{
            name: {"n": len(found), "mean_ms": 1000 * sum(found) / max(1, len(found))}
            for name, found in times.items()
        },
    }  # fmt: skip


def main(argv: list[str]) -> int:
    seed = int(argv[1])
    files = site(seed, float(argv[2]))
    if argv[0] == "make":
        make(files)
    else:
        one = Client(Requests(seed, files), int(argv[4]) / 1000)
        size = sum(file.size for listed in files.values() for file in listed)
        print(json.dumps(client(one, int(argv[3]), size)))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
