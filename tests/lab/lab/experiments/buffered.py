# SPDX-License-Identifier: Apache-2.0
"""Weights with buffered writes, which the first paper (S0) could not control.

They are written back by a flusher that belongs to no group. With cgroup v2's
memory and io controllers on one hierarchy, ext4's dirty pages know who wrote
them, and their write-back carries that group's blkcg. Two groups, 2:1, write a
file each through the page cache, as fast as they are let. What each was given
is the growth of `wbytes` in its io.stat, which the kernel counts as requests
are submitted, by the blkcg of each bio: the device cannot tell the files
apart. `charged` is what the two account for of all that the device wrote in
that time: the rest is the journal's, and what is queued may be counted already.
"""

from __future__ import annotations

from lab import onfs, settings
from lab.beside import served
from lab.experiments.fair import WHOLE
from lab.model import Experiment, Figure, Output

# what evenkeel holds today; with the kernel's limits the total is 98.9 % of none's
HELD = frozenset({"fair.buffered.ratio", "fair.buffered.total", "fair.buffered-default.ratio"})
BOARD = "\n".join(settings.command(s.name, s.ours) for s in settings.read() if s.name.startswith("vm.dirty_"))


def buffered(name: str, about: str, prepare: str, peers: tuple[str, ...]) -> Experiment:
    def job(g: str) -> str:
        fio = onfs.fio_on(f"/m/{g}", g, rw="write", bs="1m", size="512m", direct=False)
        return f"in_group {g} {fio} > /tmp/{g}.log 2>&1 & pid_{g}=$!"

    alive = [f'kill -0 "$pid_{g}" || fail "{g} has ended: $(tail -n 1 /tmp/{g}.log)"' for g in "ab"]
    stat = 'stat() { counters "$1"; for g in a b; do report "$1$g" < /cg/$g/io.stat; done; }'
    script = "\n".join([
        "uname -r | report kernel", onfs.mounted(), 'scheduler "$DEV"', prepare, "group a 200; group b 100", stat,
        *map(job, "ab"),
        "sleep 15", "stat begin", "sleep 40", "stat end_", *alive,
    ]) + "\n"  # fmt: skip

    def figures(out: Output) -> list[Figure]:
        def wbytes(section: str) -> int:
            pairs = [kv.split("=") for kv in out.results[section].split() if "=" in kv]
            return sum(int(v) for k, v in pairs if k == "wbytes")

        s = served(out)
        a, b = (wbytes(f"end_{g}") - wbytes(f"begin{g}") for g in "ab")
        return [
            Figure("ratio", round(a / max(b, 1), 3), "", target=(1.90, 2.10), must=f"{name}.ratio" in HELD),
            Figure(
                "total",
                round(sum(s.written) / s.seconds / 1e6, 2),
                "MB/s",
                "higher",
                share_of=WHOLE,
                must=f"{name}.total" in HELD,
            ),
            Figure("charged", round(100 * (a + b) / sum(s.written), 1), "%"),
        ]

    return Experiment(
        name, about, script, figures, device=onfs.backed("pipe"), programs=onfs.PROGRAMS, memory=2048, peers=peers,
    )  # fmt: skip


EXPERIMENTS = [
    buffered(
        "fair.buffered", "2:1 buffered write, ext4, the board's limits of dirty pages", BOARD, ("none", "bfq")
    ),
    buffered(
        "fair.buffered-default", "2:1 buffered write, ext4, the kernel's limits of dirty pages", "", ("none",)
    ),
]
