# SPDX-License-Identifier: Apache-2.0
"""Weights with buffered writes.

Hasegawa et al., "Improving responsiveness by guaranteeing storage I/O bandwidth",
could not control buffered writes: a flusher that belongs to no group writes them back. With
cgroup v2's memory and io controllers on one hierarchy, ext4's dirty pages know
which group wrote them, and their writeback carries that group's blkcg.

Two groups with weights 2:1 write one file each through the page cache, as fast as
they can. The device cannot tell the files apart. So a group's share is the growth
of `wbytes` in its io.stat: the kernel counts requests at submission, by the blkcg
of each bio. `charged` is the growth of both groups together, in percent of what the
device wrote in the same time. It is not exactly 100 %: the journal's writes belong to
neither group, and io.stat already counts requests that still wait in the queue.

In `fair.buffered.read`, a third group reads from the device meanwhile, on an eMMC. The flusher
then waits for scheduler tags. It must wait in the group whose pages it writes; and grants of tags
that nobody uses must not keep it waiting, although the reader gets new grants all the time.
"""

from __future__ import annotations

from lab import onfs, settings
from lab.competing import served
from lab.experiments.fair import WHOLE
from lab.model import Experiment, Figure, Output

BOARD = "\n".join(settings.command(s.name, s.ours) for s in settings.read() if s.name.startswith("vm.dirty_"))


READER = onfs.fio_on("/dev/$DEV", "r", rw="randread", bs="64k", size="2g", qd=8, extra="--readonly")


def buffered(
    name: str, about: str, prepare: str, baselines: tuple[str, ...], *, reader: bool = False
) -> Experiment:
    """Two groups write through the page cache. With `reader`, a third one of weight 100 reads, and the device is an eMMC."""

    def job(g: str) -> str:
        fio = onfs.fio_on(f"/m/{g}", g, rw="write", bs="1m", size="512m", direct=False)
        return f"in_group {g} {READER if g == 'r' else fio} > /tmp/{g}.log 2>&1 & pid_{g}=$!"

    jobs = "abr" if reader else "ab"
    settle, seconds = (8, 20) if reader else (15, 40)
    alive = [f'kill -0 "$pid_{g}" || fail "{g} has ended: $(tail -n 1 /tmp/{g}.log)"' for g in jobs]
    stat = 'stat() { counters "$1"; for g in a b; do report "$1$g" < /cg/$g/io.stat; done; }'
    script = "\n".join([
        "uname -r | report kernel", onfs.mounted(), 'scheduler "$DEV"', prepare, "group a 200; group b 100", stat,
        "group r 100" if reader else "",
        *map(job, jobs),
        f"sleep {settle}", "stat begin", f"sleep {seconds}", "stat end_", *alive,
    ]) + "\n"  # fmt: skip

    def figures(out: Output) -> list[Figure]:
        def wbytes(section: str) -> int:
            pairs = [kv.split("=") for kv in out.results[section].split() if "=" in kv]
            return sum(int(v) for k, v in pairs if k == "wbytes")

        s = served(out)
        a, b = (wbytes(f"end_{g}") - wbytes(f"begin{g}") for g in "ab")
        if reader:
            return [
                Figure("ratio", round(a / max(b, 1), 3)),
                Figure("written", round(sum(s.written) / s.seconds / 1e6, 2), "MB/s", "higher"),
                Figure("read", round(sum(s.read) / s.seconds / 1e6, 2), "MB/s", "higher"),
                Figure("charged", round(100 * (a + b) / sum(s.written), 1), "%"),
            ]
        return [
            Figure("ratio", round(a / max(b, 1), 3)),
            Figure(
                "total",
                round(sum(s.written) / s.seconds / 1e6, 2),
                "MB/s",
                "higher",
                share_of=WHOLE,
            ),
            Figure("charged", round(100 * (a + b) / sum(s.written), 1), "%"),
        ]

    return Experiment(
        name, about, script, figures, device=onfs.backed("emmc51" if reader else "pipe"), programs=onfs.PROGRAMS,
        memory=2048, baselines=baselines, quick=reader,
    )  # fmt: skip


# why rows miss their targets, by the pattern of their ids
NOTES = {
    "fair.buffered.read.ratio": "Over 60 s, four seeds give 1.84 to 1.99, so the row is near its bound. If writeback"
    " becomes urgent after 1 s and not after 0.4 s, two seeds give 1.89 and 1.97: some of the group's writes are served out of"
    " turn. With seed 1 of the bench the ratio is 2.72, and with seeds 2 and 3 it is 2.00 and 1.99: in one run of three, one of"
    " the writers gets far too little. The rest of the cause is not known.",
    "fair.buffered-default.total-of-none": "These are the kernel's limits of dirty pages, which the board does not use."
    " `fair.buffered` has the board's limits.",
}


EXPERIMENTS = [
    buffered(
        "fair.buffered.read",
        "weights 2:1, buffered writes on ext4, while a third group reads 64 KiB at random, QD8, eMMC 5.1",
        BOARD,
        ("none", "bfq"),
        reader=True,
    ),
    buffered(
        "fair.buffered",
        "weights 2:1, buffered writes on ext4, the board's limits of dirty pages",
        BOARD,
        ("none", "bfq"),
    ),
    buffered(
        "fair.buffered-default",
        "weights 2:1, buffered writes on ext4, the kernel's limits of dirty pages",
        "",
        ("none",),
    ),
]
