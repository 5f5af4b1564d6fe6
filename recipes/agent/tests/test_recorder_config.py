# SPDX-License-Identifier: Apache-2.0
"""The configuration of the recorder in a backup. The recorder's own parser, in C, must understand each file in the same way."""

import re
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from evenkeel_agent import recorder_config
from evenkeel_agent.recorder_config import BadFile, Recorder, parse, quantity, read, with_main, write
from hypothesis import given, settings
from hypothesis import strategies as st

RECIPES = Path(__file__).resolve().parents[2]
ARM = "# the arm\nrecord_size = 64\nretain = 1GiB\n"
C_PARSER = r"""
#include <stdio.h>
#include <string.h>
#include "../../common/src/units.h"
#include "config.h"
int main(void)
{
	char line[4096];
	while (fgets(line, sizeof(line), stdin)) {
		struct channel_config c;
		struct error e = { 0 };
		uint64_t bytes = 0, ns = 0;
		line[strcspn(line, "\n")] = 0;
		if (*line == '/') {
			config_channel(line, &c, &e);
			printf("%s\x1f%s\n", c.schema, e.code ? e.text : "");
		} else {
			if (!parse_bytes(line, &bytes))
				bytes = -1;
			if (!parse_duration(line, &ns))
				ns = -1;
			printf("%lld\x1f%lld\n", (long long)bytes, (long long)ns);
		}
		fflush(stdout);
	}
}
"""


class Parser:
    """The recorder's parser: config_channel() of a file, parse_bytes() and parse_duration() of a text."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "arm.conf"
        source, program = folder / "parser.c", folder / "parser"
        source.write_text(C_PARSER)
        names = ("config", "value", "error", "about", "batch", "../../common/src/units")
        recorder = RECIPES / "recorder/src"
        files = [str(recorder / f"{name}.c") for name in names]
        flags = [
            "-std=gnu17",
            "-D_GNU_SOURCE",
            '-DEKR_VERSION="0"',
            "-ffunction-sections",
            "-Wl,--gc-sections",
        ]
        command = ["gcc", *flags, f"-I{recorder}", "-o", str(program), str(source), *files, "-linih"]
        subprocess.run(command, check=True)
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, line: str) -> tuple[str, str]:
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(f"{line}\n".encode())
        self.process.stdin.flush()
        first, _, second = (
            self.process.stdout.readline().decode("utf-8", "replace").strip("\n").partition("\x1f")
        )
        return first, second

    def channel(self, text: str) -> tuple[str, str]:
        """The schema of the file TEXT, and what is wrong with the file."""
        self.file.write_bytes(text.encode())
        return self.ask(str(self.file))


@pytest.fixture(scope="module")
def parser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Parser]:
    parser = Parser(tmp_path_factory.mktemp("parser"))
    yield parser
    parser.process.kill()


def reason(text: str) -> str:
    """Why TEXT is refused; "": it is not."""
    try:
        parse(text)
    except BadFile as error:
        return str(error)
    return ""


def test_a_file_has_its_values() -> None:
    text = (
        "\n# one\n;two\n\trecord_size=64 KiB \r\n retain : 1.5GiB ; a comment\nwrite_group =\nread_mode = all"
    )
    assert parse(text) == {"record_size": "64 KiB", "retain": "1.5GiB", "write_group": "", "read_mode": "all"}


@pytest.mark.parametrize(
    "line",
    [
        "directory = /srv", "socket = /run/x", "statistics = /recorder/arm/lock", "other = 1", "x", "= 5", "[arm]",
        "retain = 5", "record_size = 64", "retain = 1GiB", "writers = 0", "writers = 17", "writers = 1.5", "ring = maybe",
        "read_mode = none", "window = 5", "window = 9ms", "buffer = 0", "buffer = much",
        "segment = 2GiB", "writeout = 5MiB", "keep = -1", "read_group = a b",
        "write_group = -x", "read_group = " + "g" * 32, "encoding = " + "e" * 64, "encoding = \x1b[2J",
        "encoding = café", "encoding = a\x00b", "encoding = a\rb", "encoding = a\x0bb", "encoding = a;b", "# \x00", "# \ud800",
        "encoding = " + "e " * 99, "schema = x", "schema_name = x", "retain_time = 5 y", "period = 2d",
        "ring = no ; " + "x" * 188, "\x0bring = no", "\ufeff",
    ],
)  # fmt: skip
def test_a_file_with_a_bad_line_is_refused(line: str) -> None:
    assert reason(ARM) == ""
    assert reason(ARM + line) != ""


@pytest.mark.parametrize("text", ["", "retain = 1GiB", "record_size = 64"])
def test_a_file_without_a_required_key_is_refused(text: str) -> None:
    assert "is missing" in reason(text)


@pytest.mark.parametrize(
    "path",
    [
        "/recorder/private/000001.seg", "/etc/shadow", "/etc/ek-recorder", "/etc/ek-recorder/../shadow", "/usr/../recorder/x",
        "/proc/self/environ", "/usr", "usr/x", "/etc/ek-recorder-x/y", "/usrx", "/usr/share/..", "//usr/x", "/var/lib/x",
        "/usr/" + "x" * 103,
    ],
)  # fmt: skip
def test_a_schema_is_a_file_that_every_user_may_read(path: str) -> None:
    more = "schema_name = a\nschema_encoding = b\n"
    for good in ("/etc/ek-recorder/arm.proto", "/usr/share/press/..arm.json", "/usr/" + "x" * 102):
        assert reason(f"{ARM}schema = {good}\n{more}") == ""
    assert "must be below /etc/ek-recorder/ or /usr/" in reason(f"{ARM}schema = {path}\n{more}")


def test_the_keys_are_those_of_the_reference() -> None:
    text = (RECIPES.parent / "docs/reference/recorder.md").read_text()
    channel = text[text.index("### channels.d/NAME.conf") : text.index("### Access")]
    keys = re.findall(r"^\| (`.*?`) \|", channel, re.MULTILINE)
    assert sorted(re.findall(r"`(\w+)`", " ".join(keys))) == sorted(recorder_config.KEYS)
    for place in recorder_config.SCHEMAS:
        assert f"`{place.rstrip('/')}`" in channel


SPACE = st.text(" \t", max_size=2)
UNITS = st.sampled_from(["", *recorder_config._SIZES, *recorder_config._TIMES, "x", "KIB"])
NUMBERS = st.one_of(
    st.integers(0, 5000).map(str),
    st.integers(0, 1 << 66).map(str),
    st.decimals(0, 5000, places=2).map(str),
    st.sampled_from(["", ".5", "1.", "9223372036854775807", "0"]),
)
QUANTITIES = st.tuples(NUMBERS, SPACE, UNITS).map("".join)
WORDS = st.sampled_from(
    [
        "",
        "yes",
        "no",
        "all",
        "group",
        "press",
        "-",
        "x" * 31,
        "x" * 63,
        "/usr/a",
        "/usr/a b",
        "/etc/x",
        "a;b",
        "a ;b",
        "é",
        "a#b",
    ]
)
LINES = st.tuples(
    SPACE, st.sampled_from([*recorder_config.KEYS, "other", ""]), SPACE, st.sampled_from("=:;"), SPACE,
    st.one_of(QUANTITIES, WORDS, st.text(max_size=9)), SPACE, st.sampled_from(["", "; x", " ;= y", "\r", "x" * 150]),
).map("".join)  # fmt: skip
FILES = st.lists(LINES | st.sampled_from(["", "# x", ";", ARM]), max_size=6).map(
    lambda lines: ARM + "\n".join(lines)
)
# What the recorder checks of several values at once
TOGETHER = re.compile(r": (segment|buffer): |belong together")
STRICTER = re.compile(r"must be below|name of a group|control characters|line \d+ is not valid")


@settings(deadline=None)
@given(st.data())
def test_the_recorder_reads_a_file_in_the_same_way(parser: Parser, data: st.DataObject) -> None:
    text = data.draw(FILES)
    found = reason(text)
    if re.search("[\ud800-\udfff]", text):
        assert found
        return
    schema, error = parser.channel(text)
    if not found:
        assert not error or TOGETHER.search(error), error
        assert not schema or schema == parse(text)["schema"]
    elif not error:
        assert STRICTER.search(found)


@settings(deadline=None)
@given(QUANTITIES)
def test_the_recorder_reads_a_number_in_the_same_way(parser: Parser, text: str) -> None:
    size, duration = map(int, parser.ask(text or " "))
    found = quantity(text, recorder_config._SIZES)
    assert (-1 if found is None else found) == size
    found = quantity(text, recorder_config._TIMES)
    if not re.fullmatch("0+(.0+)?", text):  # 0 needs no unit
        assert (-1 if found is None else found) == duration


# ---- files ----


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "channels.d").mkdir()
    (tmp_path / "recorder.conf").write_text("# priority = 5\ndirectory = /srv/rec\n")
    (tmp_path / "channels.d/arm.conf").write_text(ARM)
    return tmp_path


def test_the_files_are_read_and_changed(folder: Path) -> None:
    for name in ("arm.conf.new", "README", ".conf", "Arm.conf"):
        (folder / "channels.d" / name).write_text("x")
    assert read(str(folder)) == Recorder("ek-record", 0, {"arm": ARM})
    leg = ARM + "read_group = press\n"
    write(str(folder), "press", 7, {"arm": None, "leg": leg, "gone": None})
    assert read(str(folder)) == Recorder("press", 7, {"leg": leg})
    text = "# priority = 5\ndirectory = /srv/rec\ngroup = press\npriority = 7\n"
    assert (folder / "recorder.conf").read_text() == text, "all other keys stay"
    for file in (folder / "recorder.conf", folder / "channels.d/leg.conf"):
        assert stat.S_IMODE(file.stat().st_mode) == 0o644, "the recorder has another user"
    write(str(folder), "ek-record", 0, {})
    assert (folder / "recorder.conf").read_text() == "# priority = 5\ndirectory = /srv/rec\n"


def test_a_board_without_a_recorder_has_no_channels(tmp_path: Path) -> None:
    assert read(str(tmp_path / "none")) is None


def test_a_bad_file_is_refused_and_nothing_changes(folder: Path) -> None:
    before = {path: path.read_bytes() for path in folder.rglob("*.conf")}
    for bad in (ARM + "directory = /srv\n", "", "x" * 9):
        with pytest.raises(BadFile):
            write(str(folder), "press", 7, {"arm": None, "eye": ARM, "leg": bad})
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == before


def test_a_link_is_neither_read_nor_followed(folder: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text(ARM)
    file = folder / "channels.d/arm.conf"
    file.unlink()
    file.symlink_to(other)
    with pytest.raises(BadFile, match=r"channels.d/arm.conf: Too many levels of symbolic links"):
        read(str(folder))
    write(str(folder), "ek-record", 0, {"arm": ARM + "ring = no\n"})
    assert not file.is_symlink()
    assert other.read_text() == ARM
    (folder / "channels.d/leg.conf.new").symlink_to(other)
    with pytest.raises(OSError, match="symbolic links"):
        write(str(folder), "ek-record", 0, {"leg": ARM})
    assert other.read_text() == ARM


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("channels.d/arm.conf", b"retain = x\n"), ("channels.d/arm.conf", b"# \xff\n"), ("recorder.conf", b"priority = 99\n"),
        ("recorder.conf", b"priority = 1\npriority = 2\n"), ("recorder.conf", b"group = a b\n"), ("recorder.conf", b"\xff"),
        ("channels.d/arm.conf", b"x" * 70_000), ("channels.d/arm.conf", ARM.encode() + b"# " + b"x" * 50_000),
    ],
)  # fmt: skip
def test_a_file_that_cannot_be_in_a_backup_is_named(folder: Path, file: str, content: bytes) -> None:
    (folder / "channels.d/leg.conf").write_text(ARM + "# " + 50_000 * "y")
    (folder / file).write_bytes(content)
    with pytest.raises(BadFile) as error:
        read(str(folder))
    assert str(error.value).startswith((f"{file}: ", "channels.d: there are too many"))


@given(
    st.text(st.sampled_from("#=: \nga"), max_size=20),
    st.from_regex(recorder_config.GROUP),
    st.integers(0, 98),
)
def test_recorder_conf_keeps_its_other_lines(text: str, group: str, priority: int) -> None:
    before = f"group = x\n{text}\n priority : 5 ; y"
    try:
        changed = with_main(before, group, priority)
    except BadFile:
        return  # it has a line that the recorder does not accept either
    assert recorder_config._main(changed) == (group, priority)
    kept = [line for line in text.split("\n") if line]
    assert [line for line in changed.split("\n") if line in kept] == kept
