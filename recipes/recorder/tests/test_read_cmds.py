# SPDX-License-Identifier: Apache-2.0
"""The commands ls, cat, follow, verify and export, on recordings written without the recorder."""

from __future__ import annotations

import csv
import io
import json
import os
import select
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from board import BLOCK, BUILD, FAILED, OVERRUN, RECORDER, RESTART
from read_harness import ACQUIRED, START, STEP, Recording, run, run_json


@pytest.fixture
def disk() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=BUILD, prefix="read-") as path:
        yield Path(path).absolute()


def payload(i: int) -> bytes:
    return f"record {i}".encode()


@pytest.fixture
def channel(disk: Path) -> Recording:
    """Six uses of four segments. Sequences 60 to 179 are retained, in batches of 10."""
    rec = Recording(disk / "front-camera")
    for _ in range(6):
        rec.use()
        for _ in range(3):
            rec.batch_of(*(payload(rec.sequence + i) for i in range(10)))
    return rec


def damage(rec: Recording) -> None:
    """Damage the second batch of generation 5, sequences 130 to 139."""
    rec.poke(2 * BLOCK + 60, b"\xff", rec.path / "00000000.seg")


# --- cat ----------------------------------------------------------------------


def test_cat_prints_all_records_in_order(channel: Recording) -> None:
    out = run("cat", channel.path)
    assert (out.returncode, out.stderr) == (0, b"")
    assert out.stdout == b"".join(payload(i) for i in range(60, 180))


def test_cat_of_a_channel_by_name(channel: Recording) -> None:
    out = run("cat", "--directory", channel.path.parent, "--lines", "front-camera")
    assert (out.returncode, out.stderr) == (0, b"")
    assert out.stdout.splitlines() == [payload(i) for i in range(60, 180)]


def test_cat_hex_prints_sequence_time_and_payload(channel: Recording) -> None:
    line = run("cat", "--hex", "--sequences", "61", channel.path).stdout
    assert line == b"61 2026-09-21T14:13:20.305000000Z " + payload(61).hex().encode() + b"\n"


@pytest.mark.parametrize(
    "options",
    [
        ["--sequences", "100..110"],
        ["--from", "2026-09-21T14:13:20.5Z", "--to", "2026-09-21T16:13:20.55+02:00"],
        ["--from", "boot+1.5s", "--to", "boot+1.55s"],
        ["--sequences", "..110", "--from", "boot+1.5s"],
        ["--sequences", "100..110", "--from", "2026-09-21T00:00:00Z", "--to", "now", "--rate", "1MiB"],
    ],
)
def test_ranges(channel: Recording, options: list[str]) -> None:
    # "now" is after the recording only if this machine's clock is
    if "now" in options and time.time_ns() < channel.realtime:
        options[options.index("now")] = "2030-01-01T00:00:00Z"
    out = run("cat", "--lines", *options, channel.path)
    assert (out.returncode, out.stderr) == (0, b"")
    assert out.stdout.splitlines() == [payload(i) for i in range(100, 111)]


def test_relative_time(disk: Path) -> None:
    rec = Recording(disk / "recent", realtime=time.time_ns() - 600 * 10**9)
    rec.use()
    rec.batch_of(b"old")
    rec.realtime = time.time_ns() - 10**9
    rec.batch_of(b"new")
    assert run("cat", "--from", "-5min", rec.path).stdout == b"new"
    assert run("cat", "--to", "-5min", rec.path).stdout == b"old"


def test_damage_is_reported_and_the_rest_is_read(channel: Recording) -> None:
    damage(channel)
    out = run("cat", "--lines", channel.path)
    assert out.returncode == 1
    assert out.stdout.splitlines() == [payload(i) for i in range(60, 180) if not 130 <= i <= 139]
    assert out.stderr.decode().splitlines() == [
        "front-camera: damage: 00000000.seg at 8192, 4096 bytes: bad CRC",
        "front-camera: missing: records 130..139: damage",
    ]


def test_a_gap_is_reported_with_status_0(channel: Recording) -> None:
    channel.gap(OVERRUN, 7)
    channel.flush()
    out = run("cat", channel.path)
    assert out.returncode == 0
    assert b"front-camera: gap: 7 records lost, 180..186 (overrun), recorded at 2026-" in out.stderr


def test_rate_limits_the_bytes_read_per_second(channel: Recording) -> None:
    begin = time.monotonic()
    assert run("cat", "--rate", "512KiB", channel.path).returncode == 0
    # four segments of 64 KiB and their heads
    assert time.monotonic() - begin >= 0.4


def test_a_closed_output_ends_cat(channel: Recording) -> None:
    read, write = os.pipe()
    os.close(read)
    out = subprocess.run(
        [RECORDER, "cat", channel.path], stdout=write, stderr=subprocess.PIPE, timeout=20, check=False
    )
    os.close(write)
    assert out.returncode == -signal.SIGPIPE


def test_a_full_output_is_reported(channel: Recording) -> None:
    with Path("/dev/full").open("wb") as full:
        out = subprocess.run(
            [RECORDER, "cat", channel.path], stdout=full, stderr=subprocess.PIPE, timeout=20, check=False
        )
    assert out.returncode == 2
    assert b"No space left on device" in out.stderr


# --- follow -------------------------------------------------------------------


def frames(data: bytes) -> list[tuple[int, int, bytes]]:
    """Parse a framed stream into (kind, sequence, payload)."""
    found = []
    while data:
        length, kind, sequence, first, _monotonic, realtime = struct.unpack_from("<IIQQQq", data)
        assert len(data) >= 40 + length
        if kind == 1:
            assert first == sequence
            assert realtime == START + sequence * STEP
        found.append((kind, sequence, data[40 : 40 + length]))
        data = data[40 + length :]
    return found


def test_framed_has_records_and_everything_else(channel: Recording) -> None:
    damage(channel)
    out = run("cat", "--framed", channel.path)
    found = frames(out.stdout)
    assert [f[1:] for f in found if f[0] == 1] == [
        (i, payload(i)) for i in range(60, 180) if not 130 <= i <= 139
    ]
    assert [(kind, sequence) for kind, sequence, _ in found if kind != 1] == [(4, 0), (3, 139)]


def lines(proc: subprocess.Popen[bytes], count: int, limit: float = 20) -> list[bytes]:
    assert proc.stdout
    data, end = b"", time.monotonic() + limit
    while data.count(b"\n") < count:
        ready, _, _ = select.select([proc.stdout], [], [], end - time.monotonic())
        assert ready, f"only {data!r}"
        more = os.read(proc.stdout.fileno(), 65536)
        assert more, "the command exited"
        data += more
    return data.splitlines()


def follow(*args: str | Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [RECORDER, "follow", "--lines", "--every", "10ms", *map(str, args)], stdout=subprocess.PIPE
    )


def test_follow_continues_through_reused_segments(channel: Recording) -> None:
    with follow("--sequences", "170..", channel.path) as proc:
        try:
            assert lines(proc, 10) == [payload(i) for i in range(170, 180)]
            for _ in range(6):
                channel.use()
                for _ in range(2):
                    channel.batch_of(payload(channel.sequence), payload(channel.sequence + 1))
                    assert lines(proc, 2) == [payload(channel.sequence - 2), payload(channel.sequence - 1)]
        finally:
            proc.send_signal(signal.SIGTERM)
        assert proc.wait(20) == 0


def test_follow_starts_at_the_end(channel: Recording) -> None:
    with follow(channel.path) as proc:
        try:
            # wait until it has reached the old end
            time.sleep(1)
            channel.batch_of(b"new")
            assert lines(proc, 1) == [b"new"]
        finally:
            proc.send_signal(signal.SIGINT)
        assert proc.wait(20) == 0


@pytest.mark.parametrize(
    ("options", "first", "last"),
    [
        # no longer retained; in the middle; the last records
        (["--sequences", "1..3"], 0, -1),
        (["--sequences", "170..175"], 170, 175),
        (["--sequences", "170..179"], 170, 179),
        (["--from", "boot+1.5s", "--to", "boot+1.55s"], 100, 110),
        (["--from", "2026-09-21T14:13:20.5Z", "--to", "2026-09-21T14:13:20.55Z"], 100, 110),
        (["--to", "boot+1.55s"], 0, -1),
        # no later record exists, but the time has passed
        (["--to", "-1min"], 0, -1),
        (["--from", "2026-09-21T00:00:00Z", "--to", "-1min"], 60, 179),
    ],
)
def test_follow_exits_once_the_end_of_its_range_has_passed(
    channel: Recording, options: list[str], first: int, last: int
) -> None:
    out = run("follow", "--lines", *options, channel.path, limit=20)
    assert (out.returncode, out.stderr) == (0, b"")
    assert out.stdout.splitlines() == [payload(i) for i in range(first, last + 1)]


def test_follow_exits_after_the_last_of_its_sequences(channel: Recording) -> None:
    with follow("--sequences", "178..181", channel.path) as proc:
        try:
            assert lines(proc, 2) == [payload(178), payload(179)]
            channel.batch_of(payload(180))
            assert lines(proc, 1) == [payload(180)]
            channel.batch_of(payload(181), payload(182))
            assert lines(proc, 1) == [payload(181)]
            assert proc.wait(20) == 0
        finally:
            proc.kill()


def test_follow_exits_by_the_monotonic_clock_of_this_boot_only(disk: Path) -> None:
    boot = bytes.fromhex(Path("/proc/sys/kernel/random/boot_id").read_text().replace("-", ""))
    rec = Recording(disk / "can0", boot=boot, monotonic=1_000_000)
    rec.use()
    rec.batch_of(b"a")
    # boot+1s has passed by more than the time for which follow waits for late records
    assert time.monotonic() > 15
    with follow("--from", "boot+0s", "--to", "boot+1s", rec.path) as proc:
        assert proc.communicate(timeout=20)[0] == b"a\n"
        assert proc.returncode == 0
    other = Recording(disk / "can1", monotonic=1_000_000)
    other.use()
    other.batch_of(b"a")
    with follow("--from", "boot+0s", "--to", "boot+1s", other.path) as proc:
        try:
            assert lines(proc, 1) == [b"a"]
            with pytest.raises(subprocess.TimeoutExpired):
                proc.wait(1)
        finally:
            proc.kill()


def test_follow_exits_when_its_output_is_closed(channel: Recording) -> None:
    with follow(channel.path) as proc:
        assert proc.stdout
        proc.stdout.close()
        assert proc.wait(20) == 0


def test_follow_reads_little_when_nothing_is_recorded(channel: Recording) -> None:
    def io(pid: int) -> int:
        text = Path(f"/proc/{pid}/io").read_text()
        return int(text.split("rchar:")[1].split()[0])

    with follow(channel.path) as proc:
        try:
            time.sleep(1)
            before = io(proc.pid)
            time.sleep(1)
            # at most 100 polls of two blocks: the end, and the head of the next segment in turn
            assert io(proc.pid) - before < 120 * 2 * BLOCK
        finally:
            proc.kill()


# --- ls and verify ------------------------------------------------------------


def test_verify_of_a_complete_recording(channel: Recording) -> None:
    (row,) = run_json("verify", channel.path, status=0)["channels"]
    assert row["clean"] is True
    assert row["events"] == []
    assert (row["records"], row["first_sequence"], row["last_sequence"]) == (120, 60, 179)
    size = sum(len(payload(i)) for i in range(60, 180))
    want = f"front-camera: 120 records, {size} bytes, 60..179: clean\n"
    assert run("verify", channel.path).stdout.decode() == want


def test_verify_distinguishes_gaps_from_damage(channel: Recording) -> None:
    channel.gap(FAILED, 3)
    channel.flush()
    (row,) = run_json("verify", channel.path, status=1)["channels"]
    assert (row["gaps"], row["lost"], row["damage"], row["missing"], row["clean"]) == (1, 3, 0, 0, False)
    damage(channel)
    result = run_json("verify", channel.path, status=1)
    (row,) = result["channels"]
    assert (row["gaps"], row["lost"], row["damage"], row["missing"], row["torn"]) == (1, 3, 1, 10, 0)
    assert result["clean"] is False
    kinds = [e["kind"] for e in row["events"]]
    assert kinds == ["damage", "missing", "gap"]
    assert row["events"][0] == {
        "kind": "damage",
        "reason": "bad CRC",
        "file": "00000000.seg",
        "generation": 5,
        "offset": 2 * BLOCK,
        "extent": BLOCK,
    }


def test_verify_all_channels(channel: Recording) -> None:
    other = Recording(channel.path.parent / "can0")
    other.use()
    other.batch_of(b"x")
    # these are no channels: because of the name, of the type, and without segments
    (channel.path.parent / "lost+found").mkdir()
    (channel.path.parent / "file").write_text("")
    (channel.path.parent / "making").mkdir()
    (channel.path.parent / "making/00000000.seg.new").write_text("")
    result = run_json("verify", "--directory", channel.path.parent, status=0)
    assert [c["name"] for c in result["channels"]] == ["can0", "front-camera"]
    damage(channel)
    result = run_json("verify", "--directory", channel.path.parent, status=1)
    assert [c["clean"] for c in result["channels"]] == [True, False]


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_verify_of_nothing_is_not_clean(disk: Path, options: list[str]) -> None:
    """For example a mount point without its medium."""
    (disk / "lost+found").mkdir()
    out = run("verify", *options, "--directory", disk)
    assert (out.returncode, out.stdout) == (2, b"")
    assert (
        out.stderr.decode() == f"ek-recorder verify: there is no channel in {disk}; is the medium mounted?\n"
    )


def test_a_torn_last_batch_is_not_reported_as_damage(channel: Recording) -> None:
    channel.add(b"whole")
    channel.add(b"x" * 900)
    channel.open[-100:] = bytes(100)
    channel.flush()
    (row,) = run_json("verify", channel.path, status=1)["channels"]
    assert (row["torn"], row["damage"], row["missing"], row["records"]) == (1, 0, 0, 121)


def test_ls_lists_channels(channel: Recording) -> None:
    empty = Recording(channel.path.parent / "can0")
    rows = run_json("ls", "--directory", channel.path.parent, status=0)["channels"]
    assert [r["name"] for r in rows] == ["can0", "front-camera"]
    assert rows[0] == {
        "name": "can0",
        "state": "empty",
        "segments": 4,
        "used": 0,
        "bytes": 4 * empty.size,
        "retention_reached": False,
    }
    assert rows[1] == {
        "name": "front-camera",
        "state": "ok",
        "segments": 4,
        "used": 4,
        "bytes": 4 * channel.size,
        "retention_reached": True,
        "first": "2026-09-21T14:13:20.300000000Z",
        "last": "2026-09-21T14:13:20.895000000Z",
        "first_sequence": 60,
        "last_sequence": 179,
    }
    channel.gap(OVERRUN, 5)
    channel.flush()
    (row,) = run_json("ls", "--count", channel.path, status=0)["channels"]
    assert (row["records"], row["gaps"], row["lost"]) == (120, 1, 5)
    text = run("ls", "--directory", channel.path.parent).stdout.decode().splitlines()
    assert [line.split()[0] for line in text] == ["CHANNEL", "can0", "front-camera"]
    assert "2026-09-21T14:13:20Z" in text[2]


def test_ls_after_a_crash(channel: Recording) -> None:
    """The newest segments hold only gaps of restarts."""
    for _ in range(2):
        channel.use()
        channel.gap(RESTART, 0)
        channel.flush()
    (row,) = run_json("ls", channel.path, status=0)["channels"]
    assert (row["first_sequence"], row["last_sequence"]) == (120, 179)
    assert row["last"] == "2026-09-21T14:13:20.895000000Z"
    channel.use()
    channel.use()
    (row,) = run_json("ls", channel.path, status=0)["channels"]
    assert "last" not in row


def test_ls_starts_at_the_time_of_the_first_record(disk: Path) -> None:
    """After a stall of the medium, records are older than the head of their segment."""
    rec = Recording(disk / "can0")
    rec.realtime += 3600 * 10**9
    rec.use()
    rec.realtime = START
    rec.gap(RESTART, 0)
    rec.realtime = START
    rec.batch_of(b"first", b"last")
    (row,) = run_json("ls", rec.path, status=0)["channels"]
    assert row["first"] == "2026-09-21T14:13:20.000000000Z"
    assert row["last"] == "2026-09-21T14:13:20.005000000Z"


# --- export -------------------------------------------------------------------


def read_mcap(path: Path) -> tuple[Any, list[tuple[str, int, int, int, bytes]]]:
    """Summary and messages (topic, sequence, log time, publish time, data), by the reference implementation."""
    from mcap import reader

    with path.open("rb") as f:
        r = reader.make_reader(f, validate_crcs=True)
        messages = [
            (c.topic, m.sequence, m.log_time, m.publish_time, m.data)
            for _, c, m in r.iter_messages(log_time_order=False)
        ]
        return r.get_summary(), messages


@pytest.mark.parametrize("compress", ["none", "zstd"])
def test_export_mcap(channel: Recording, disk: Path, compress: str) -> None:
    out = run("export", channel.path, "--compress", compress, "--encoding", "text", "-o", disk / "out.mcap")
    assert (out.returncode, out.stdout, out.stderr) == (0, b"", b"")
    summary, messages = read_mcap(disk / "out.mcap")
    assert messages == [
        ("front-camera", i, START + i * STEP, START + i * STEP - ACQUIRED, payload(i)) for i in range(60, 180)
    ]
    assert summary.statistics.message_count == 120
    assert summary.statistics.message_start_time == START + 60 * STEP
    topics = {c.topic: c for c in summary.channels.values()}
    assert set(topics) == {"front-camera", "front-camera/gaps"}
    assert topics["front-camera"].message_encoding == "text"
    assert topics["front-camera"].metadata["window_ns"] == "200000000"


@pytest.mark.parametrize("realtime", [-(2**63), 2**63 - 1])
def test_export_mcap_of_a_writer_with_impossible_times(disk: Path, realtime: int) -> None:
    """A writer may date a record as it likes. MCAP counts from 1970."""
    rec = Recording(disk / "front", realtime=realtime)
    rec.use()
    rec.batch_of(b"x")
    out = run("export", rec.path, "-o", disk / "out.mcap")
    assert (out.returncode, out.stderr) == (0, b"")
    expected = max(realtime, 0)
    assert read_mcap(disk / "out.mcap")[1] == [("front", 0, expected, max(expected - ACQUIRED, 0), b"x")]


def test_export_mcap_with_several_chunks_has_a_valid_index(disk: Path) -> None:
    from mcap.reader import SeekingReader
    from mcap.stream_reader import StreamReader

    rec = Recording(disk / "large", segments=2, size=257 * BLOCK, record_size=100_000)
    for use in range(2):
        rec.use()
        for _ in range(10):
            rec.batch_of(bytes([use]) * 100_000)
    assert run("export", rec.path, "-o", disk / "out.mcap").returncode == 0
    with (disk / "out.mcap").open("rb") as f:
        r = SeekingReader(f, validate_crcs=True)
        summary = r.get_summary()
        assert summary
        assert len(summary.chunk_indexes) == 2
        got = [
            m.sequence
            for _, _, m in r.iter_messages(starting_at=START + 12 * STEP, ending_before=START + 15 * STEP)
        ]
        assert got == [12, 13, 14]
    # also readable as a stream
    with (disk / "out.mcap").open("rb") as f:
        assert sum(type(r).__name__ == "Message" for r in StreamReader(f, validate_crcs=True).records) == 20


def test_export_mcap_of_several_channels_in_order_of_time(disk: Path) -> None:
    """Each with the schema and the encoding that the recorder left next to its segments."""
    recordings = [Recording(disk / name) for name in ("pose", "image", "log")]
    for number, rec in enumerate(recordings):
        rec.realtime += number * 1_000_000
        rec.use()
        rec.batch_of(*(b"%d" % i for i in range(20)))
    (disk / "pose/channel").write_text(
        "id 00000000000000000000000000000000\nencoding json\nschema_name my.Pose\nschema_encoding jsonschema\n"
    )
    (disk / "pose/schema").write_text('{"type": "object"}')
    (disk / "image/channel").write_text("encoding cdr\n")
    out = run("export", "--directory", disk, "pose", "image", "log", "-o", disk / "all.mcap")
    assert (out.returncode, out.stderr) == (0, b"")
    summary, messages = read_mcap(disk / "all.mcap")
    assert [m[2] for m in messages] == sorted(m[2] for m in messages)
    assert [m[0] for m in messages[:6]] == ["pose", "image", "log"] * 2
    assert len(messages) == 60
    topics = {c.topic: c for c in summary.channels.values()}
    assert {name: topics[name].message_encoding for name in ("pose", "image", "log")} == {
        "pose": "json",
        "image": "cdr",
        "log": "",
    }
    schema = summary.schemas[topics["pose"].schema_id]
    assert (schema.name, schema.encoding, schema.data) == ("my.Pose", "jsonschema", b'{"type": "object"}')
    assert topics["image"].schema_id == topics["log"].schema_id == 0
    assert len({topics[f"{name}/gaps"].schema_id for name in ("pose", "image", "log")}) == 1
    assert summary.statistics.schema_count == 2
    out = run("export", "--directory", disk, "pose", "log", "-o", disk / "all.csv")
    assert (out.returncode, out.stderr) == (
        2,
        b"ek-recorder export: a CSV file has one channel; export several channels as MCAP\n",
    )


def test_export_mcap_has_a_schema_for_each_json_topic(channel: Recording, disk: Path) -> None:
    """Readers such as PlotJuggler accept no JSON topic without one."""
    assert run("export", channel.path, "--encoding", "json", "-o", disk / "out.mcap").returncode == 0
    summary, _ = read_mcap(disk / "out.mcap")
    for channel_record in summary.channels.values():
        assert channel_record.message_encoding == "json"
        schema = summary.schemas[channel_record.schema_id]
        assert schema.encoding == "jsonschema"
        assert json.loads(schema.data)["type"] == "object"


def test_export_mcap_has_gaps_in_a_separate_topic(channel: Recording, disk: Path) -> None:
    damage(channel)
    channel.gap(OVERRUN, 5)
    channel.flush()
    assert run("export", channel.path, "-o", disk / "out.mcap").returncode == 1
    summary, messages = read_mcap(disk / "out.mcap")
    # also what precedes the first record has a time of the recording
    assert summary.statistics.message_start_time >= START
    (schema,) = summary.schemas.values()
    known = set(json.loads(schema.data)["properties"])
    gaps = [json.loads(m[4]) for m in messages if m[0] == "front-camera/gaps"]
    assert all(set(gap) <= known for gap in gaps)
    assert [g["kind"] for g in gaps] == ["damage", "missing", "gap"]
    assert (gaps[2]["reason"], gaps[2]["lost"], gaps[2]["first"], gaps[2]["last"]) == ("overrun", 5, 180, 184)


def test_export_csv(channel: Recording, disk: Path) -> None:
    awkward = b'comma, "quote", back\\slash,\nline \xff\x00 \xc3\xa9'
    channel.batch_of(awkward)
    channel.gap(OVERRUN, 5)
    channel.flush()
    out = run("export", channel.path, "--payload", "text", "-o", disk / "out.csv")
    assert out.returncode == 0
    with (disk / "out.csv").open(newline="", encoding="utf-8") as f:
        rows = list(csv.DictReader(f))
    assert [int(r["sequence"]) for r in rows] == [*range(60, 181), 185]
    assert rows[0] == {
        "kind": "record",
        "sequence": "60",
        "realtime": "2026-09-21T14:13:20.300000000Z",
        "monotonic_ns": str(1_000_000_000 + 60 * STEP),
        "acquired_ns": str(1_000_000_000 + 60 * STEP - ACQUIRED),
        "length": "9",
        "payload": "record 60",
    }
    assert rows[120]["payload"] == 'comma, "quote", back\\\\slash,\nline \\xff\\x00 é'
    assert (rows[121]["kind"], rows[121]["length"], rows[121]["payload"]) == ("gap", "5", "overrun")
    out = run("export", channel.path, "--format", "csv", "-o", "-")
    rows = list(csv.DictReader(io.StringIO(out.stdout.decode())))
    assert bytes.fromhex(rows[120]["payload"]) == awkward


def test_export_replaces_a_file_only_with_force(channel: Recording, disk: Path) -> None:
    target = disk / "out.csv"
    target.write_text("mine")
    out = run("export", channel.path, "-o", target)
    assert out.returncode == 2
    assert out.stderr.decode() == f"ek-recorder export: {target} exists already; --force replaces it\n"
    assert target.read_text() == "mine"
    assert run("export", channel.path, "--force", "-o", target).returncode == 0
    assert target.read_text().startswith("kind,")
    link = disk / "link.csv"
    link.symlink_to(target)
    assert run("export", channel.path, "--force", "-o", link).returncode == 2
    assert sorted(p.name for p in disk.iterdir()) == ["front-camera", "link.csv", "out.csv"]


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_an_interrupted_export_leaves_no_file(channel: Recording, disk: Path, how: signal.Signals) -> None:
    # these tests may run under nohup, which ignores SIGHUP
    command = ["env", "--default-signal=HUP", RECORDER, "export", channel.path, "--rate", "64KiB"]
    with subprocess.Popen([*command, "-o", disk / "out.csv"], stderr=subprocess.PIPE) as proc:
        time.sleep(1)
        proc.send_signal(how)
        _, err = proc.communicate(timeout=20)
    assert proc.returncode == 2
    assert b"interrupted" in err
    assert [p.name for p in disk.iterdir()] == ["front-camera"]


def test_export_under_nohup_ignores_sighup(channel: Recording, disk: Path) -> None:
    command = ["nohup", RECORDER, "export", channel.path, "--rate", "256KiB", "-o", disk / "out.csv"]
    with subprocess.Popen(command, stderr=subprocess.PIPE) as proc:
        time.sleep(0.5)
        proc.send_signal(signal.SIGHUP)
        assert proc.wait(20) == 0
    assert sorted(p.name for p in disk.iterdir()) == ["front-camera", "out.csv"]


def test_export_completes_if_its_standard_error_is_closed(channel: Recording, disk: Path) -> None:
    damage(channel)
    read, write = os.pipe()
    os.close(read)
    out = subprocess.run(
        [RECORDER, "export", channel.path, "-o", disk / "out.csv"], stderr=write, timeout=20, check=False
    )
    os.close(write)
    assert out.returncode == 1
    assert sorted(p.name for p in disk.iterdir()) == ["front-camera", "out.csv"]
    assert len((disk / "out.csv").read_text().splitlines()) == 1 + 110 + 2


# --- wrong usage --------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["cat"], "expected CHANNEL"),
        (["cat", "a", "b"], "expected CHANNEL"),
        (["cat", "../x y", "--nonsense"], "unknown option --nonsense"),
        (["cat", "UPPER"], "'UPPER' is neither a path nor the name of a channel"),
        (["cat", "--from", "yesterday", "x"], "--from: 'yesterday' is not a time"),
        (["cat", "--sequences", "9..3", "x"], "--sequences: '9..3' ends before it begins"),
        (["cat", "--rate", "0", "x"], "--rate: '0' must be at least 1"),
        (["cat", "-o", "f", "x"], "unknown option -o"),
        (["cat", "./no-such"], "opening the recording ./no-such: No such file or directory"),
        (["cat", "."], "'.' is neither a path nor the name"),
        (["cat", "./"], "there are no segments of a recording"),
        (["verify", "--directory", "/no/such"], "looking for channels in /no/such: No such file"),
        (["export", "x"], "expected -o FILE"),
        (["export", "x", "-o", "f.txt"], "expected --format mcap or csv"),
        (["export", "x", "--format", "xml", "-o", "f"], "--format: 'xml' must be mcap or csv"),
        (["follow", "--every", "0", "x"], "--every: '0' must be from 1ms to 1s"),
    ],
)
def test_wrong_usage_is_one_line_and_status_2(args: list[str], message: str, disk: Path) -> None:
    out = subprocess.run([RECORDER, *args], capture_output=True, text=True, timeout=20, check=False, cwd=disk)
    assert (out.returncode, out.stdout) == (2, "")
    assert message in out.stderr
    assert out.stderr.startswith(f"ek-recorder {args[0]}: ")
    assert out.stderr.count("\n") == 1


@pytest.mark.parametrize("command", ["ls", "cat", "follow", "verify", "export"])
def test_help(command: str) -> None:
    out = run(command, "--help")
    assert (out.returncode, out.stderr) == (0, b"")
    assert out.stdout.startswith(f"Usage: ek-recorder {command} ".encode())
