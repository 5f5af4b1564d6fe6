# SPDX-License-Identifier: Apache-2.0
"""Does `ekctl probe` find the map of a device? On models whose map is known.

The guest has no Python: ek-pairs measures there what recipes/agent plans, and
the analysis, the agent's own, runs here on what it reports. The targets are the
true map; a device whose map cannot be seen or is of no use counts as one
channel.

- SATA SSD, chunks of 16 KiB: reads collide on dies, 16 or (dies=1) 8 of them.
  That they also share eight channels makes pairs longer by a ninth: too little to count.
- The same, in equal ranges: each has two dies with 32 KiB in turn, so half of
  the pairs in a range collide.
- eMMC: a command takes 90 us, a die 70, so no pair collides: with the command
  path as the limit there are no channels to choose from.
- Beside another load (`busy`) the map may be found or not, but never a wrong one,
  and the load is said.
- A disk says that it is one, a card without a queue that it takes one command
  at a time.
"""

from __future__ import annotations

import importlib
import json
import sys
from typing import Any

from lab.kernels import TOP
from lab.model import Device, Experiment, Figure, Output, flashsim

SAMPLES, SEED, SSD_MB = 12, 1, 244198
# random reads and writes of 16 KiB, 2,000 a second: a quarter of what it does at depth 1
BUSY = (
    "fio --name=busy --filename=/dev/$DEV --direct=1 --ioengine=libaio --iodepth=2 --rw=randrw --rwmixread=70"
    " --bs=16k --rate_iops=1400,600 --rate_process=poisson --randseed=1 --time_based --runtime=36000"
    " --eta=never --output=/tmp/busy"
)

RUN = """
uname -r | report kernel
device
scheduler "$DEV"
cat /sys/block/$DEV/queue/rotational | report rotational
cat /sys/block/$DEV/mq/0/nr_tags | report tags
begin=$(cut -d' ' -f1 /proc/uptime)
$BESIDE
ek-pairs --seconds 400 /dev/$DEV < /plan > /tmp/pairs || fail "ek-pairs failed"
{ echo "$begin"; cut -d' ' -f1 /proc/uptime; } | report time
report pairs < /tmp/pairs
"""


def _analysis() -> Any:
    """recipes/agent's part that needs no device."""
    room = str(TOP / "recipes/agent")
    if room not in sys.path:
        sys.path.append(room)
    return importlib.import_module("evenkeel_agent.channels")


def experiment(
    name: str, about: str, device: Device, kind: str, channels: int, chunk_kb: int, *, samples: int = SAMPLES,
    busy: bool = False, deep: bool = True,
) -> Experiment:  # fmt: skip
    agent = _analysis()
    blocks = device.capacity_mb * (1 << 20) // agent.BLOCK
    probes = agent.plan(blocks, samples, SEED)
    lines = (
        f"{p.a * agent.BLOCK}\n" if p.b < 0 else f"{p.a * agent.BLOCK} {p.b * agent.BLOCK}\n" for p in probes
    )

    def figures(out: Output) -> list[Figure]:
        ns = json.loads(out.results["pairs"])["ns"]
        begin, end = (float(line) for line in out.results["time"].split())
        found = agent.verdict(
            probes, ns, blocks, rotational=out.results["rotational"].strip() == "1", tags=int(out.results["tags"])
        )  # fmt: skip
        times = [
            Figure("single_us", round(found.single_us, 1), "us"),
            Figure("apart_us", round(found.apart_us, 1), "us"),
            Figure("together_us", round(found.together_us, 1), "us"),
            Figure("slow_pct", round(100 * found.slow, 1), "%"),
            Figure("seconds", round(end - begin, 1), "s", "lower"),
        ]
        truth = (found.kind, found.channels, found.chunk_kb) == (kind, channels, chunk_kb)
        if busy:
            wrong = found.usable and not truth
            said = "other load" in found.sentence()
            return [
                Figure("wrong", float(wrong), "", "lower", target=0.0, must=True),
                Figure("said", float(said), "", "higher", target=1.0, must=True),
                Figure("sure", found.sure, "", "higher"),
                *times,
            ]
        return [
            Figure("right", float(truth), "", "higher", target=1.0, must=True),
            Figure("channels", found.channels, "", target=(channels, channels), must=True),
            Figure("chunk_kb", found.chunk_kb, "KiB", target=(chunk_kb, chunk_kb), must=True),
            # of a finding that is no map there is no such figure
            *([Figure("sure", found.sure, "", "higher", target=agent.ENOUGH)] if found.usable else []),
            *times,
        ]

    beside = f"{BUSY} &\nsleep 1" if busy else ":"
    return Experiment(
        f"channel.probe.{name}", f"the map found by timing pairs of reads: {about}",
        RUN.replace("$BESIDE", beside), figures, device=device, subject="none", peers=(),
        programs=("ek-pairs", *(("fio",) if busy else ())), files={"/plan": "".join(lines)}, limit=500,
        deep=deep,
    )  # fmt: skip


def _ssd(**override: int | str) -> Device:
    return flashsim("sata-mlc-8ch", capacity_mb=SSD_MB, slices=1, **override)


EXPERIMENTS = [
    experiment("sata", "SATA SSD, 16 dies, 16 KiB in turn", _ssd(map="stripe"), "stripes", 16, 16, deep=False),
    experiment("sata-dies1", "SATA SSD, 8 dies, 16 KiB in turn", _ssd(map="stripe", dies=1), "stripes", 8, 16),
    experiment("sata-ranges", "SATA SSD, 8 ranges of addresses", _ssd(map="ranges"), "ranges", 8, 0),
    experiment(
        "busy", "the same with 16 dies, beside another load", _ssd(map="stripe"), "stripes", 16, 16, samples=8,
        busy=True,
    ),
    experiment(
        "emmc51", "eMMC 5.1, whose command path is the limit",
        flashsim("emmc51", capacity_mb=59640, slices=1), "none", 1, 0,
    ),
    experiment(
        "emmc50", "eMMC 5.0, one command at a time", flashsim("emmc50-slow", capacity_mb=7456, slices=1),
        "one", 1, 0,
    ),
    experiment("hdd", "disk", flashsim("hdd-5400", capacity_mb=476940, slices=1), "disk", 1, 0, samples=1),
]  # fmt: skip
