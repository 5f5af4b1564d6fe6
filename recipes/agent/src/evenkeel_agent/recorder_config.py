# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: PTH118, PTH208
"""The configuration of the recorder, as a backup has it: what it may have; reads the files, and changes them.

A backup has the file of each channel as it is. Of recorder.conf it has `group` and `priority`: all other keys are about paths
and partitions of the board. docs/reference/recorder.md lists the keys, and the recorder itself checks the values that depend
on each other.

Guarantee: with a file that parse() accepts, the recorder writes nothing outside of its folder, and reads no file that others
may not read. `schema` is the only key of a channel that has a path. The recorder copies this file into exports, which the
panel passes on. So with another path, an administrator of the panel could read what only the recorder can read, such as the
recording of a channel with a group of its own.
"""

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Annotated

import msgspec
from evenkeel_common.files import read_small, remove, replace, why
from msgspec import Meta

FOLDER = "/etc/ek-recorder"
MAIN, CHANNELS = "recorder.conf", "channels.d"
SCHEMAS = ("/etc/ek-recorder/", "/usr/")  # what is there is no secret: every user may read it
LIMIT = 64 * 1024  # bytes of a file that is read
MAX_CHANNELS = 64
MAX_BYTES = 96 * 1024  # of the files of all channels, as JSON: they must fit into one packet
MAX_LINE = 198  # characters that the recorder reads of a line
MODE = 0o644  # the recorder has another user
NAME = r"^[a-z0-9][a-z0-9-]{0,31}$(?!\n)"
GROUP = r"^([A-Za-z_][A-Za-z0-9_.-]{0,30})?$(?!\n)"
Name = Annotated[str, Meta(pattern=NAME)]
Text = Annotated[str, Meta(max_length=MAX_BYTES)]
Group = Annotated[str, Meta(pattern=GROUP)]
Priority = Annotated[int, Meta(ge=0, le=98)]


class Recorder(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """GROUP and PRIORITY: those keys of recorder.conf. CHANNELS: the files of the channels, by name."""

    group: Group
    priority: Priority
    channels: Annotated[dict[Name, Text], Meta(max_length=MAX_CHANNELS)]


DEFAULTS = Recorder("ek-record", 0, {})


class BadFile(ValueError):
    """A file of the recorder cannot be part of a backup, for this reason."""


# ---- the values: each check returns what is wrong, or "" ----

_S = 10**9
_SIZES = {"": 1, "B": 1, "k": 1 << 10, "kB": 10**3} | {
    f"{letter}{end}": base ** (at + 1)
    for at, letter in enumerate("KMGT")
    for end, base in (("", 1024), ("iB", 1024), ("B", 1000))
}
_TIMES = {"ns": 1, "us": 10**3, "ms": 10**6, "s": _S, "min": 60 * _S, "h": 3600 * _S, "d": 86400 * _S}
_Check = Callable[[str], str]


def quantity(text: str, units: Mapping[str, int]) -> int | None:
    """The number with a unit TEXT, rounded down; None if it is not valid. As recipes/common/src/units.c reads it."""
    match = re.fullmatch(r"([0-9]+)(?:\.([0-9]+))? *([A-Za-z]*)", text)
    if not match or match[3] not in units or text.endswith(" "):
        return None
    decimals, unit = match[2] or "", units[match[3]]
    if len(match[1] + decimals) > 19 or (decimals and unit == 1):
        return None
    found: int = int(match[1] + decimals) * unit // 10 ** len(decimals)
    return found if found < 1 << 63 else None


def _amount(units: Mapping[str, int], least: int, most: int) -> _Check:
    def check(text: str) -> str:
        found = quantity(text, units)
        return "" if found is not None and least <= found <= most else "it is not a valid number or unit"

    return check


def _buffer(text: str) -> str:
    return "" if quantity(text, _SIZES) or quantity(text, _TIMES) else "it is neither a size nor a time"


def _choice(*words: str) -> _Check:
    return lambda text: "" if text in words else f"it must be {' or '.join(words)}"


def _group(text: str) -> str:
    return "" if re.search(GROUP, text) else "it is not the name of a group"


def _label(text: str) -> str:
    return "" if len(text) < 64 else "it is too long"


def _schema(path: str) -> str:
    if path and not (path.startswith(SCHEMAS) and len(path) < 108 and ".." not in path.split("/")):
        return f"a schema in a backup must be below {' or '.join(SCHEMAS)}"
    return ""


_COUNT = {"": 1}
KEYS: dict[str, _Check] = {
    "record_size": _amount(_SIZES, 1, 1 << 20),
    "retain": _amount(_SIZES, 4096, 1 << 46),
    "keep": _amount(_SIZES, 0, 1 << 46),
    "retain_time": _amount(_TIMES, _S, (1 << 63) - 1),
    "period": _amount(_TIMES, 1000, 86400 * _S),
    "writers": _amount(_COUNT, 1, 16),
    "window": _amount(_TIMES, 10**7, 3600 * _S),
    "buffer": _buffer,
    "writeout": _amount(_SIZES, 4096, 4 << 20),
    "segment": _amount(_SIZES, 8192, 1 << 30),
    "write_group": _group,
    "write_mode": _choice("group", "all"),
    "read_group": _group,
    "read_mode": _choice("group", "all"),
    "encoding": _label,
    "schema": _schema,
    "schema_name": _label,
    "schema_encoding": _label,
    "ring": _choice("yes", "no"),
}
OWN_KEYS: dict[str, _Check] = {"group": _group, "priority": _amount(_COUNT, 0, 98)}  # of recorder.conf
_LINE = re.compile(r"([a-z_]+)[ \t]*[=:][ \t]*((?:[!-:<-~](?:[ \t]*[!-:<-~])*)?)")


# ---- the texts ----


def _lines(text: str) -> Iterator[tuple[str, str]]:
    """Key and value of each line that has some. Raises BadFile. The recorder reads the same, or reports an error."""
    for number, line in enumerate(text.split("\n"), 1):
        stripped = line.strip(" \t\r")
        if not stripped or stripped[0] in "#;":
            continue
        match = _LINE.fullmatch(re.sub(r"[ \t];.*", "", stripped, flags=re.DOTALL).rstrip(" \t"))
        if not match or len(stripped) > MAX_LINE:
            raise BadFile(f"line {number} is not valid")
        yield match[1], match[2]


def parse(text: str) -> dict[str, str]:
    """The values of the channel's file TEXT, by key. Raises BadFile with the reason."""
    if not re.fullmatch(r"[\t\n\r\x20-\x7e\x80-\ud7ff\ue000-\U0010ffff]*", text):
        raise BadFile("it has control characters")
    found: dict[str, str] = {}
    for key, value in _lines(text):
        if key not in KEYS:
            raise BadFile(f"there is no key {key:.40}")
        if key in found:
            raise BadFile(f"{key} is there twice")
        if bad := KEYS[key](value):
            raise BadFile(f"{key}: {bad}")
        found[key] = value
    for key in ("record_size", "retain"):
        if key not in found:
            raise BadFile(f"{key} is missing")
    if len({bool(found.get(key)) for key in ("schema", "schema_name", "schema_encoding")}) > 1:
        raise BadFile("schema, schema_name and schema_encoding belong together")
    return found


def _main(text: str) -> tuple[str, int]:
    """Group and priority in the text of recorder.conf. Raises BadFile."""
    found: dict[str, str] = {}
    for key, value in _lines(text):
        if key in OWN_KEYS:
            if key in found or OWN_KEYS[key](value):
                raise BadFile(f"{key} is not valid")
            found[key] = value
    return found.get("group", DEFAULTS.group), int(found.get("priority", DEFAULTS.priority))


def with_main(text: str, group: str, priority: int) -> str:
    """The text of recorder.conf with other values of GROUP and PRIORITY. All other lines stay. Raises BadFile."""
    kept = [line for line in text.split("\n") if not re.match(r"[ \t\r]*(group|priority)[ \t]*[=:]", line)]
    body = "\n".join(kept).rstrip("\n")
    parts = [body] if body else []
    parts += [f"group = {group}"] if group != DEFAULTS.group else []
    parts += [f"priority = {priority}"] if priority != DEFAULTS.priority else []
    changed = "".join(f"{part}\n" for part in parts)
    if _main(changed) != (group, priority):
        raise BadFile("a line cannot be read")
    return changed


def checked(found: Recorder) -> Recorder:
    """FOUND, if it can be part of a backup. Raises BadFile with the name of the file and the reason."""
    for name, text in found.channels.items():
        try:
            parse(text)
        except BadFile as error:
            raise BadFile(f"{CHANNELS}/{name}.conf: {error}") from None
    if len(found.channels) > MAX_CHANNELS or len(json.dumps(found.channels)) > MAX_BYTES:
        raise BadFile(f"{CHANNELS}: there are too many channels, or their files are too long")
    return found


def changes(old: Recorder, new: Recorder) -> dict[str, str | None]:
    """The files of channels that make NEW of OLD, by name. None: the channel is removed."""
    names = sorted(old.channels.keys() | new.channels.keys())
    return {
        name: new.channels.get(name) for name in names if old.channels.get(name) != new.channels.get(name)
    }


# ---- the files ----


def _main_text(folder: str) -> str:
    try:
        return read_small(os.path.join(folder, MAIN), LIMIT).decode()
    except FileNotFoundError:
        return ""  # then all keys have their defaults


def read(folder: str) -> Recorder | None:
    """The configuration in FOLDER; None without this folder: there is no recorder. Blocks. Raises BadFile."""
    if not os.path.isdir(folder):  # noqa: PTH112
        return None
    file, channels = MAIN, {}
    try:
        group, priority = _main(_main_text(folder))
        file = CHANNELS
        for entry in sorted(os.listdir(os.path.join(folder, CHANNELS))):
            name = entry.removesuffix(".conf")
            if name == entry or not re.search(NAME, name):
                continue  # the recorder does not record it either
            file = f"{CHANNELS}/{entry}"
            channels[name] = read_small(os.path.join(folder, file), LIMIT).decode()
    except OSError as error:
        raise BadFile(f"{file}: {why(error)}") from error
    except UnicodeDecodeError:
        raise BadFile(f"{file}: it is not UTF-8 text") from None
    except BadFile as error:
        raise BadFile(f"{file}: {error}") from None
    return checked(Recorder(group, priority, channels))


def write(folder: str, group: str, priority: int, changed: Mapping[str, str | None]) -> None:
    """Make GROUP and PRIORITY those of FOLDER, and change the files of channels. Raises BadFile; then nothing has changed.

    It may raise OSError at any file. Each file has its old or its new content then. Blocks for two flushes a file.
    """
    for text in changed.values():
        if text is not None:
            parse(text)
    main = _main_text(folder)
    new_main = main if _main(main) == (group, priority) else with_main(main, group, priority)
    for name, text in changed.items():
        path = os.path.join(folder, CHANNELS, f"{name}.conf")
        if text is not None:
            replace(path, text.encode(), MODE)
        else:
            with suppress(FileNotFoundError):
                remove(path)
    if new_main != main:
        replace(os.path.join(folder, MAIN), new_main.encode(), MODE)
