# SPDX-License-Identifier: Apache-2.0
"""What each I/O setting of conf/ gains, and what it costs other loads.

The device is `emmc51` with ext4. The guest has 2 GiB of memory, and 320 MiB in the
case TREE.

One guest measures a case with the kernel's default and then, on a new device, with
the value of conf/. All other settings are those of a board. The guest repeats this
pair (`REPETITIONS`), each time with other random numbers and with another phase of
the flusher, which wakes up every five seconds.

METRIC is the median with our value, METRIC-default with the kernel's default. The ranges
are METRIC-min, METRIC-max, METRIC-default-min and METRIC-default-max. If the ranges
overlap, the medians show no difference.

A setting that is measured here but not set in conf/ is a candidate, or its gain was
too small. docs/reference/tuning.md lists such settings, too.

`written_mb` is what the device had to write, with metadata and journal: its wear.
`risk` is how long a change stays in memory only, on an otherwise idle board: a power
cut loses the changes of that time, unless a program has synced them. The reads of a
light reader are planned as in latency.py. A repetition has few syncs, so the figures are
their mean and median: the maximum of a few samples would be chance.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

from lab import onfs, settings
from lab.competing import fio_job
from lab.experiments import latency
from lab.model import Better, Experiment, Figure, Output

VALUES = ("default", "ours")
# The numbers of the repetitions ($draw in the guest). Each repetition measures `default`, then `ours`.
REPETITIONS = (1, 2, 3)
TWO = ("p50", "p99")
Found = tuple[str, float, str, Better]


@dataclass(frozen=True)
class Case:
    """A load that shows the effect of settings.

    `commands` are guest commands that report sections NAME-$v; `figures` reads these
    sections. `files` are created by onfs.mounted(). `programs` are needed in addition
    to onfs.PROGRAMS.
    """

    name: str
    files: str
    commands: str
    figures: Callable[[Output, str], list[Found]]
    programs: tuple[str, ...] = ()


def _written(out: Output, case: str, v: str) -> float:
    """MB that the device wrote between the sections CASE-b and CASE-e."""
    b, e = (
        sum(
            int(line.split()[5]) for line in out.results[f"{case}-{x}-{v}"].splitlines() if line[:1].isdigit()
        )
        for x in "be"
    )
    return round((e - b) / 1e6, 2)


def _sync_ms(out: Output, section: str) -> tuple[float, float]:
    """Median and mean of a fio job's sync latencies."""
    lat = fio_job(out.results[section])["sync"]["lat_ns"]
    return round(lat["percentile"]["50.000000"] / 1e6, 1), round(lat["mean"] / 1e6, 1)


def _light_ms(out: Output, section: str, p: str) -> float:
    """A percentile of planned reads (latency.py)."""
    return round(latency.percentile(latency.reads(out.results[section]), p) / 1000, 2)


def _rate(out: Output, section: str, direction: str, key: str, per: float) -> float:
    return round(float(fio_job(out.results[section])[direction][key]) / per, 1)


def _mean_us(out: Output, section: str) -> float:
    return round(float(fio_job(out.results[section])["write"]["clat_ns"]["mean"]) / 1000, 2)


def _number(out: Output, section: str, per: float = 1.0) -> float:
    return float(out.results[section]) / per


def _our(out: Output, section: str, key: str, per: float = 1.0) -> float:
    """A field of the JSON that a program of this project printed."""
    return round(float(onfs.last_json(out, section)[key]) / per, 1)


GUEST = """
regions() { cat /sys/kernel/debug/flashsim/*/regions | report "$1"; }
bytes() {
	n=0
	while read -r s a b c d w e; do case $s in [0-9]*) n=$((n + w)) ;; esac; done \\
		< /sys/kernel/debug/flashsim/flashsim0/regions
	echo "$n"
}
now_ms() { read -r t _ < /proc/uptime; echo "${t%.*}${t#*.}0"; }
# took COMMAND...: run a command and print its time in ms
took() { t0=$(now_ms); "$@" > /dev/null 2>&1 || fail "$* failed"; echo $(($(now_ms) - t0)); }
# risk BYTES COMMAND...: print the ms from a change until the device has written so many bytes
risk() {
	upto=$(($(bytes) + $1)) t0=$(now_ms)
	shift
	"$@" 2> /dev/null
	while [ "$(bytes)" -lt "$upto" ] && [ $(($(now_ms) - t0)) -lt 60000 ]; do usleep 400000; done
	echo $(($(now_ms) - t0))
}
# job NAME COMMAND...: run fio; its report becomes the section NAME-$v
job() {
	name=$1
	shift
	"$@" > "/tmp/$name.log" 2>&1 || fail "$name failed: $(tail -n 1 "/tmp/$name.log")"
	report "$name-$v" < "/tmp/$name.json"
}
# ours NAME COMMAND...: run a program of this project; its output becomes the section NAME-$v
ours() {
	name=$1
	shift
	in_group light "$@" > "/tmp/$name" 2>&1 || fail "$name failed: $(tail -n 1 "/tmp/$name")"
	report "$name-$v" < "/tmp/$name"
}
zeros() { dd if=/dev/zero of="$1" bs="$2" count="$3" conv=notrunc 2> /dev/null || fail "cannot write $1"; }
"""

_COPY = onfs.fio_on("/m/copy", "copy", rw="write", bs="1m", size="768m", direct=False)
_REC = onfs.fio_on(
    "/m/rec", "rec", rw="write", bs="16k", size="8m", direct=False,
    extra="--runtime=6 --fsync=1 --thinktime=50000 --thinktime_blocks=1",
)  # fmt: skip
# An endless copy competes with a recorder that syncs each 16 KB, and with the player. Then one burst of writes, alone.
COPYING = Case(
    "copying", "movie:24m",
    f"""
in_group load {_COPY} > /tmp/copy.log 2>&1 & copy=$!
sleep 3
regions copying-b-$v
in_group light {_REC} > /tmp/rec.log 2>&1 & rec=$!
ours player {onfs.player(6)} /m/movie
wait $rec || fail "rec failed: $(tail -n 1 /tmp/rec.log)"
regions copying-e-$v; report rec-$v < /tmp/rec.json
killall fio; wait $copy; rm /m/copy; sync
took zeros /m/burst 1M 150 | report burst-$v
""",
    lambda out, v: [
        *((f"sync.{what}", ms, "ms", "lower") for what, ms in zip(("p50", "mean"), _sync_ms(out, f"rec-{v}"), strict=True)),
        ("player.stalls", _our(out, f"player-{v}", "stalls"), "", "lower"),
        ("player.read_max", _our(out, f"player-{v}", "read_max_us", 1000), "ms", "lower"),
        ("copy.mbps", round(_written(out, "copying", v) / 6, 1), "MB/s", "higher"),
        ("burst-of-150-mb.ms", _number(out, f"burst-{v}"), "ms", "lower"),
    ],
    ("ek-player",),
)  # fmt: skip

# --invalidate=0: otherwise fio would drop the file's cache at the end of each turn, which would write its dirty pages.
# `risk` waits until a whole MiB is written, because the journal's commit arrives earlier and does not contain the data.
_HOT = onfs.fio_on(
    "/m/hot",
    "hot",
    rw="randwrite",
    bs="4k",
    size="256k",
    direct=False,
    extra="--runtime=60 --rate_iops=20 --invalidate=0",
)
HOT = Case(
    "hot", "hot:4m page:4m",
    f"""
sync; sleep 20; risk 1048576 zeros /m/page 64k 16 | report risk-$v
sync; sleep 6; regions hot-b-$v
job hot {_HOT}
regions hot-e-$v
""",
    lambda out, v: [
        ("hot-pages.written_mb", _written(out, "hot", v), "MB", "lower"),
        ("data.risk", _number(out, f"risk-{v}", 1000), "s", "lower"),
    ],
)  # fmt: skip

READ = Case(
    "read", "",
    """
for d in 0 1 2 3 4 5 6 7 8 9; do
	mkdir -p /m/t/$d
	for n in 0 1 2 3 4 5 6 7 8 9; do for k in 0 1 2 3 4 5 6 7 8 9; do echo "$d$n$k" > /m/t/$d/$n$k; done; done
done
sync; echo 3 > /proc/sys/vm/drop_caches; sleep 1; regions read-b-$v
all() { for d in /m/t/*; do cat "$d"/*; done; }
took all | report readms-$v
sync; sleep 6; regions read-e-$v
""",
    lambda out, v: [
        ("read-1000-files.written_mb", _written(out, "read", v), "MB", "lower"),
        ("read-1000-files.ms", _number(out, f"readms-{v}"), "ms", "lower"),
    ],
)  # fmt: skip

OVERWRITE = Case(
    "overwrite", "",
    """
mkdir /m/o; f=
for n in 0 1 2 3 4 5 6 7 8 9; do for k in 0 1 2 3 4 5 6 7 8 9; do
	zeros /m/o/$n$k 4k 1
	f="$f${f:+:}/m/o/$n$k"
done; done
sync; sleep 6; regions overwrite-b-$v
job over fio --name=over --filename=$f --size=400k --filesize=4k --rw=write --bs=4k --file_service_type=roundrobin \\
	--ioengine=psync --rate_iops=100 --time_based --runtime=30 --fallocate=none --zero_buffers --invalidate=0 \\
	--output-format=json --output=/tmp/over.json --eta=never
regions overwrite-e-$v
""",
    lambda out, v: [
        ("overwrite-100-files.written_mb", _written(out, "overwrite", v), "MB", "lower"),
        ("overwrite-100-files.write_mean", _mean_us(out, f"over-{v}"), "us", "lower"),
    ],
)  # fmt: skip

RENAME = Case(
    "rename", "",
    """
new() { : > /m/new; }
sync; sleep 20; risk 1 new | report risk-$v
sync; sleep 6; regions rename-b-$v
i=0
while [ $i -lt 45 ]; do
	i=$((i + 1))
	for a in a b c d; do zeros /m/$a.tmp 1k 3; mv /m/$a.tmp /m/$a; done
	sleep 1
done
sync; regions rename-e-$v
""",
    lambda out, v: [
        ("rename-4-files-a-second.written_mb", _written(out, "rename", v), "MB", "lower"),
        ("metadata.risk", _number(out, f"risk-{v}", 1000), "s", "lower"),
    ],
)  # fmt: skip

# A stream alone evicts neither inodes (`slabs_scanned` in /proc/vmstat does not grow) nor a file that was read twice: the
# kernel finds enough memory to reclaim in pages that were read once. So during the second stream an application holds
# 140 of the guest's 320 MiB. This case has a clock of its own, now_us: a walk takes only a few times 10 ms, the
# resolution of GUEST's now_ms.
TREE = Case(
    "tree", "stream:400m again:64m",
    """
now_us() { while read -r a b c _; do [ "$a $b" != "now at" ] || break; done < /proc/timer_list; echo $((c / 1000)); }
took_us() { t0=$(now_us); "$@" > /dev/null 2>&1 || fail "$* failed"; echo $(($(now_us) - t0)); }
d=0
while [ $d -lt 40 ]; do
	mkdir -p /m/t/$d
	n=0
	while [ $n -lt 100 ]; do : > /m/t/$d/$n; n=$((n + 1)); done
	d=$((d + 1))
done
sync; echo 3 > /proc/sys/vm/drop_caches
walk() { took_us find /m/t -size +1k | report "$1-$v"; }
walk cold; walk warm
cat /m/again /m/again /m/stream > /dev/null || fail "cannot read"
walk after
mkdir -p /app && mount -t tmpfs -o size=200m app /app || fail "cannot mount a tmpfs"
zeros /app/memory 1M 140
cat /m/stream > /dev/null || fail "cannot read"
while read -r cache n _; do [ "$cache" != ext4_inode_cache ] || echo "$n"; done < /proc/slabinfo | report inodes-$v
walk short
took_us cat /m/again | report again-$v
umount /app || fail "cannot unmount the tmpfs"
""",
    lambda out, v: [
        *((f"walk-4000-files.{w}", _number(out, f"{w}-{v}", 1000), "ms", "lower") for w in ("cold", "warm", "after", "short")),
        ("walk-4000-files.kept", _number(out, f"inodes-{v}"), "", "higher"),
        ("read-again-64m.ms", _number(out, f"again-{v}", 1000), "ms", "lower"),
    ],
)  # fmt: skip

_SEQ = onfs.fio_on("/m/seq", "seq", rw="read", bs="128k", size="512m", direct=False, extra="--runtime=1")
_ENDLESS = onfs.fio_on("/m/seq", "endless", rw="read", bs="128k", size="512m", direct=False)
_MANY = onfs.fio_on(
    "/m/seq", "many", rw="randwrite", bs="4k", size="512m", qd=128, extra="--runtime=400ms --norandommap"
)
_BIG = onfs.fio_on("/m/seq", "big", rw="read", bs="100m", size="400m", qd=2)


def _light(name: str) -> str:
    """Guest commands for planned reads, long enough for a 99th percentile. Their section is NAME-$v."""
    return f"in_group light {latency.planned('/m/light', name=name, seconds=4)} | report {name}-$v"


QUEUE = Case(
    "queue", "seq:512m light:128m movie:24m",
    f"""
ek-appstart prepare --files 400 --seed 7 --total 40MB /m/app > /tmp/prepare 2>&1 || fail "$(tail -n 1 /tmp/prepare)"
sync; echo 3 > /proc/sys/vm/drop_caches
ours app ek-appstart run --json /m/app
job seq in_group load {_SEQ}
job many in_group load {_MANY}
in_group load {_ENDLESS} > /tmp/load.log 2>&1 & load=$!
sleep 1; {_light("lightseq")}
killall fio; wait $load
in_group load {_BIG} > /tmp/load.log 2>&1 & load=$!
sleep 1; {_light("lightbig")}
ours player {onfs.player(3)} /m/movie
killall fio; wait $load
""",
    lambda out, v: [
        ("appstart.ms", _our(out, f"app-{v}", "total_ms"), "ms", "lower"),
        ("buffered-read.mbps", _rate(out, f"seq-{v}", "read", "bw_bytes", 1e6), "MB/s", "higher"),
        ("randwrite-qd128.iops", _rate(out, f"many-{v}", "write", "iops", 1), "IOPS", "higher"),
        *((f"light-beside-buffered-read.{p}", _light_ms(out, f"lightseq-{v}", p), "ms", "lower") for p in TWO),
        *((f"light-beside-100m-reads.{p}", _light_ms(out, f"lightbig-{v}", p), "ms", "lower") for p in TWO),
        ("player-beside-100m-reads.read_max", _our(out, f"player-{v}", "read_max_us", 1000), "ms", "lower"),
    ],
    ("ek-player", "ek-light-reader", "ek-appstart"),
)  # fmt: skip

# how a guest restores kernel defaults that are ratios; setting a ratio clears the limit in bytes
_DEFAULT = {
    "vm.dirty_background_bytes": "echo 10 > /proc/sys/vm/dirty_background_ratio",
    "vm.dirty_bytes": "echo 20 > /proc/sys/vm/dirty_ratio",
}
# settings that conf/ does not have: the value that is measured, and why it is not set
TRIED = {
    "vm.dirty_background_bytes": (
        "16777216",
        "The kernel's 10 % of memory is more than our `vm.dirty_bytes`, so the kernel uses half of that, 32 MiB."
        " A lower value gains nothing.",
    ),
    "lazytime": (
        "lazytime",
        "It saves no write here. Since Linux 6.1, ext4 updates i_version with each write() that changes a time stamp, so"
        " the inode must be written in any case. With noatime, reads change no time stamp.",
    ),
    "vm.dirty_writeback_centisecs": (
        "1500",
        "It neither wakes the flash less often nor leaves less in memory.",
    ),
    "vm.vfs_cache_pressure": (
        "50",
        "With either value, a large file alone evicts no inode. With either value, inodes are evicted once memory is"
        " short, and then a walk takes longer than the first one.",
    ),
    "queue/read_ahead_kb": ("512", "A stream is not faster, and a light reader alongside it waits longer."),
    "queue/nr_requests": ("256", "The limit is the device, not the number of requests that wait for it."),
    "queue/max_sectors_kb": (
        "128",
        "Most readers wait less alongside a load, but a card that takes one command at a time reads a stream a fifth"
        " slower. The scheduler limits the work in the device by itself while others wait.",
    ),
}
CASE = {
    "vm.dirty_background_bytes": COPYING,
    "vm.dirty_bytes": COPYING,
    "vm.dirty_expire_centisecs": HOT,
    "vm.dirty_writeback_centisecs": HOT,
    "vm.vfs_cache_pressure": TREE,
    "noatime": READ,
    "lazytime": OVERWRITE,
    "commit": RENAME,
    "queue/read_ahead_kb": QUEUE,
    "queue/nr_requests": QUEUE,
    "queue/max_sectors_kb": QUEUE,
}


# The setting that the quick bench measures: its guest takes the least time.
IN_QUICK = "noatime"
# Cards that take one command at a time, with a constant cost for each command. ON_CARDS is the setting that could slow
# down a stream on them.
CARDS = ("emmc50-slow", "sd-uhs3")
ON_CARDS = "queue/max_sectors_kb"


def stream(card: str, v: str) -> str:
    """Guest commands for a sequential read on a card. Their section is CARD-`v`."""
    ours = settings.command(ON_CARDS, TRIED[ON_CARDS][0]) if v == "ours" else ""
    return "\n".join([
        f"load flashsim preset={card}", 'scheduler "$DEV"', ours,
        "fio --name=stream --filename=/dev/$DEV --direct=1 --ioengine=psync --rw=read --bs=4m --size=1g --time_based"
        " --runtime=2 --eta=never --output-format=json --output=/tmp/stream.json > /tmp/log 2>&1"
        ' || fail "fio failed: $(tail -n 1 /tmp/log)"',
        f"report {card}-{v} < /tmp/stream.json",
        'echo none > "/sys/block/$DEV/queue/scheduler"', "rmmod flashsim || fail 'flashsim does not unload'",
    ])  # fmt: skip


# prefix of the sections with the mount options that are in effect, as the kernel lists them
IN_EFFECT = "mount-"


def is_mount_option(name: str) -> bool:
    return not name.startswith(("vm.", "queue/"))


def phase(name: str, v: str, case: Case) -> str:
    """Guest commands that run a case on a new device: setting `name` as `v` says, all others as in conf/.

    The shell variable $draw has the number of the repetition.
    """
    values = {s.name: s.ours for s in settings.read() if s.name.startswith(("vm.", "queue/"))}
    ours = values.pop(name, TRIED.get(name, ("", ""))[0])
    mount = settings.data_options()
    if v == "default":
        mount.pop(name, None)
    elif is_mount_option(name):
        mount.setdefault(name, ours)
    own = ""
    if v == "ours" and ours and not is_mount_option(name):
        own = settings.command(name, ours)
    elif name.startswith("vm."):
        own = _DEFAULT.get(name) or settings.command(name, settings.DEFAULTS[name])
    others = {n: settings.command(n, x) for n, x in values.items()}
    return "\n".join([
        f"v={v}$draw", *(line for n, line in others.items() if n.startswith("vm.")), own if name.startswith("vm.") else "",
        onfs.mounted(",".join(mount.values()) or "defaults", files=case.files), 'scheduler "$DEV"',
        f"grep '^/dev/[^ ]* /m ' /proc/mounts | report {IN_EFFECT}$v" if is_mount_option(name) else "",
        *(line for n, line in others.items() if n.startswith("queue/")), own if name.startswith("queue/") else "",
        "usleep $((draw * 1700000))", case.commands.strip().replace("--randseed=", "--randseed=${draw}"),
        "umount /m || fail 'cannot unmount'", "rmmod flashsim || fail 'flashsim does not unload'",
    ])  # fmt: skip


def repeated(metric: str, values: Sequence[float], unit: str, better: Better) -> list[Figure]:
    """The figures of a metric: median, minimum and maximum of the repetitions."""
    return [
        Figure(metric, median(values), unit, better),
        Figure(f"{metric}-min", min(values), unit),
        Figure(f"{metric}-max", max(values), unit),
    ]


def tune(name: str, case: Case) -> Experiment:
    def figures(out: Output) -> list[Figure]:
        if is_mount_option(name) and len({out.results[f"{IN_EFFECT}{v}1"] for v in VALUES}) == 1:
            raise ValueError(f"{name} is not in effect: /proc/mounts is the same with and without it")
        found: list[Figure] = []
        for v in ("ours", "default"):
            repetitions = [case.figures(out, f"{v}{n}") for n in REPETITIONS]
            for same in zip(*repetitions, strict=True):
                metric, _, unit, better = same[0]
                found += repeated(
                    metric + ("" if v == "ours" else "-default"),
                    [value for _, value, _, _ in same],
                    unit,
                    better,
                )
        for card in CARDS if name == ON_CARDS else ():
            for v, suffix in (("ours", ""), ("default", "-default")):
                mbps = _rate(out, f"{card}-{v}", "read", "bw_bytes", 1e6)
                found.append(Figure(f"stream-on-{card}.mbps{suffix}", mbps, "MB/s", "higher"))
        return found

    halves = "\n".join(phase(name, v, case) for v in VALUES)
    cards = [stream(card, v) for card in CARDS for v in VALUES] if name == ON_CARDS else []
    return Experiment(
        f"tune.{settings.slug(name)}", f"{name}: effect of the value in conf/, compared with the kernel's default",
        "\n".join([
            "uname -r | report kernel", "group light 100; group load 100", GUEST,
            f"for draw in {' '.join(map(str, REPETITIONS))}; do", halves, "done", *cards,
        ]) + "\n", figures,
        device=onfs.backed("emmc51"), baselines=(), programs=(*onfs.PROGRAMS, *case.programs),
        memory=320 if case is TREE else 2048, quick=name == IN_QUICK, limit=1500, timeout=900,
        pool=("tune", 4) if name != IN_QUICK else None,
    )  # fmt: skip


EXPERIMENTS = [tune(name, case) for name, case in CASE.items()]
