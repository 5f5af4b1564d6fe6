# SPDX-License-Identifier: Apache-2.0
"""Whether `ek-validate channels` finds the channel map of a device, on models with a known map.

The guest has no Python. ek-pairs measures in the guest what recipes/validate plans, and
the analysis of ek-validate runs here on its report. The targets are the true map. If the
map of a device cannot be measured, or has no use, the target is one channel.

- SATA SSD with chunks of 16 KiB: reads collide on dies, 16 or (dies=1) 8 of them. The
  dies also share eight channels, but two reads on one channel take only a ninth longer,
  which is too little to be detected.
- The same SSD with equal ranges: each range has two dies with 32 KiB in turn, so half
  of the pairs in a range collide.
- eMMC: a command takes 90 us and a die 70 us, so no pair collides. The command path is
  the limit, and there are no channels to choose from.
- Under another load (`busy`) the probe may find no map, but it must not find a wrong
  one, and it must report the load.
- The probe recognises a disk, and a card without a command queue, which takes one
  command at a time.
"""

from __future__ import annotations

import importlib
import json
import sys
from typing import Any

from lab.kernels import TOP
from lab.model import Device, Experiment, Figure, Output, flashsim

# samples per distance and pass, and seed, of the plan; size of the SSD in MiB
SAMPLES, SEED, SSD_MB = 12, 1, 244198
# random reads and writes of 16 KiB, 2,000 a second: a quarter of what the SSD reaches at QD1
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
$LOAD
ek-pairs --seconds 400 /dev/$DEV < /plan > /tmp/pairs || fail "ek-pairs failed"
{ echo "$begin"; cut -d' ' -f1 /proc/uptime; } | report time
report pairs < /tmp/pairs
"""


def _analysis() -> Any:
    """The module of ek-validate that plans the probe and analyses its times, without access to a device."""
    source = str(TOP / "recipes/validate/src")
    if source not in sys.path:
        sys.path.append(source)
    return importlib.import_module("evenkeel_validate.channels")


def experiment(
    name: str, about: str, device: Device, kind: str, channels: int, chunk_kb: int, *, samples: int = SAMPLES,
    busy: bool = False, deep: bool = True,
) -> Experiment:  # fmt: skip
    probe = _analysis()
    blocks = device.capacity_mb * (1 << 20) // probe.BLOCK
    probes = probe.plan(blocks, samples, SEED)
    lines = (
        f"{p.a * probe.BLOCK}\n" if p.b < 0 else f"{p.a * probe.BLOCK} {p.b * probe.BLOCK}\n" for p in probes
    )

    def figures(out: Output) -> list[Figure]:
        ns = json.loads(out.results["pairs"])["ns"]
        begin, end = (float(line) for line in out.results["time"].split())
        found = probe.verdict(
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
            reported = "other load" in found.sentence()
            return [
                Figure("wrong", float(wrong), "", "lower"),
                Figure("reported", float(reported), "", "higher"),
                Figure("sure", found.sure, "", "higher"),
                *times,
            ]
        return [
            Figure("right", float(truth), "", "higher"),
            Figure("channels", found.channels),
            Figure("chunk_kb", found.chunk_kb, "KiB"),
            # only a result with a map has a confidence
            *([Figure("sure", found.sure, "", "higher")] if found.usable else []),
            *times,
        ]

    load = f"{BUSY} &\nsleep 1" if busy else ":"
    return Experiment(
        f"channel.probe.{name}", f"the channel map found by timing pairs of reads: {about}",
        RUN.replace("$LOAD", load), figures, device=device, subject="none", baselines=(),
        programs=("ek-pairs", *(("fio",) if busy else ())), files={"/plan": "".join(lines)}, limit=500,
        deep=deep,
    )  # fmt: skip


def _ssd(**override: int | str) -> Device:
    return flashsim("sata-mlc-8ch", capacity_mb=SSD_MB, slices=1, **override)


EXPERIMENTS = [
    experiment(
        "sata", "SATA SSD, 16 dies with chunks of 16 KiB in turn", _ssd(map="stripe"), "stripes", 16, 16, deep=False
    ),
    experiment(
        "sata-dies1", "SATA SSD, 8 dies with chunks of 16 KiB in turn", _ssd(map="stripe", dies=1), "stripes", 8, 16
    ),
    experiment("sata-ranges", "SATA SSD, 8 ranges of addresses", _ssd(map="ranges"), "ranges", 8, 0),
    experiment(
        "busy", "SATA SSD, 16 dies with chunks of 16 KiB in turn, under another load", _ssd(map="stripe"), "stripes",
        16, 16, samples=8, busy=True,
    ),
    experiment(
        "emmc51", "eMMC 5.1, where the command path is the limit",
        flashsim("emmc51", capacity_mb=59640, slices=1), "none", 1, 0,
    ),
    experiment(
        "emmc50", "eMMC 5.0, one command at a time", flashsim("emmc50-slow", capacity_mb=7456, slices=1),
        "one", 1, 0,
    ),
    experiment("hdd", "disk", flashsim("hdd-5400", capacity_mb=476940, slices=1), "disk", 1, 0, samples=1),
]  # fmt: skip
