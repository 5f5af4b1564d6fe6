# SPDX-License-Identifier: Apache-2.0
"""Checks that the pictures of the panel in docs/images show the current panel, and tests the program that makes them."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import random
import struct
import sys
import zlib
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from evenkeel_panel.testing import COMPONENT

if TYPE_CHECKING:
    from pathlib import Path

TOP = COMPONENT.parent


@pytest.fixture(scope="module")
def program() -> Any:
    """The program tests/browser/picture, loaded as a module."""
    path = str(TOP / "tests/browser/picture")
    loader = importlib.machinery.SourceFileLoader("picture", path)
    spec = importlib.util.spec_from_loader("picture", loader)
    assert spec
    module = importlib.util.module_from_spec(spec)
    sys.modules["picture"] = module  # Dataclasses look up their module in sys.modules.
    writes, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    try:
        loader.exec_module(module)
    finally:
        sys.dont_write_bytecode = writes
    return module


def test_pictures_are_up_to_date(program: Any) -> None:
    """If this fails, run `make pictures`."""
    assert len(program.PICTURES) == 4
    for picture in program.PICTURES:
        program.check(picture, picture.file)
        assert picture.file.stat().st_size <= picture.most_bytes


def test_documents_show_each_picture(program: Any) -> None:
    documents = "".join(path.read_text() for path in (TOP / "README.md", *(TOP / "docs").rglob("*.md")))
    for picture in program.PICTURES:
        assert f"images/{picture.file.name})" in documents, picture.name


WIDTH = 40
# RGBA rows: 20 rows of noise, then 40 rows of one colour
NOISE = random.Random(1)  # noqa: S311
PIXELS = [NOISE.randbytes(4 * WIDTH) for _ in range(20)]
PIXELS += [b"\xf0\xf1\xf2\xff" * WIDTH] * 40


def filtered(kind: int, row: bytes, above: bytes) -> bytes:
    """The row after filter `kind` of the PNG specification, with 4 bytes per pixel. `above` is the row above, unfiltered."""
    left = bytes(4) + row[:-4]
    corner = bytes(4) + above[:-4]

    def nearest(a: int, b: int, c: int) -> int:
        return min((a, b, c), key=lambda value: abs(a + b - c - value))

    predictions = {
        0: bytes(len(row)),
        1: left,
        2: above,
        3: bytes((a + b) // 2 for a, b in zip(left, above, strict=True)),
        4: bytes(nearest(a, b, c) for a, b, c in zip(left, above, corner, strict=True)),
    }
    return bytes([kind]) + bytes((v - p) & 255 for v, p in zip(row, predictions[kind], strict=True))


@pytest.fixture
def screenshot(tmp_path: Path) -> Path:
    """A PNG with all five filters, as Chromium writes it."""
    lines = [filtered(y % 5, row, PIXELS[y - 1] if y else bytes(4 * WIDTH)) for y, row in enumerate(PIXELS)]
    content = b"\x89PNG\r\n\x1a\n"
    for kind, data in (
        (b"IHDR", struct.pack(">IIBBBBB", WIDTH, len(PIXELS), 8, 6, 0, 0, 0)),
        (b"IDAT", zlib.compress(b"".join(lines))),
        (b"IEND", b""),
    ):
        content += struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    path = tmp_path / "screenshot.png"
    path.write_bytes(content)
    return path


def test_picture_has_the_pixels_of_the_screenshot_without_its_empty_end(
    program: Any, screenshot: Path, tmp_path: Path
) -> None:
    panel, picture = program.PICTURES[0], tmp_path / "images/panel.png"
    program.make(panel, screenshot, picture)
    rows = [bytes(value for i, value in enumerate(row) if i % 4 != 3) for row in PIXELS]
    assert program.read(picture).rows == rows[: 20 + program.MARGIN]
    program.check(panel, picture)
    program.make(replace(panel, most_rows=10), screenshot, picture)
    assert program.read(picture).rows == rows[:10]


def test_large_picture_gets_coarse_colors(program: Any, screenshot: Path, tmp_path: Path) -> None:
    panel, picture = program.PICTURES[0], tmp_path / "panel.png"
    program.make(panel, screenshot, picture)
    exact = picture.stat().st_size
    program.make(replace(panel, most_bytes=exact - 1), screenshot, picture)
    assert picture.stat().st_size < exact
    with pytest.raises(program.BadPicture, match="cannot be made smaller"):
        program.make(replace(panel, most_bytes=100), screenshot, picture)


def test_missing_and_outdated_pictures_are_reported(program: Any, screenshot: Path, tmp_path: Path) -> None:
    panel, picture = program.PICTURES[0], tmp_path / "panel.png"
    with pytest.raises(program.BadPicture, match="is missing: run 'make pictures'"):
        program.check(panel, picture)
    program.make(panel, screenshot, picture)
    with pytest.raises(program.BadPicture, match=r"is outdated.*Run 'make pictures'"):
        program.check(replace(panel, sources=panel.sources[1:]), picture)


def test_digest_ignores_comments_and_indentation(program: Any, tmp_path: Path) -> None:
    for sources in {picture.sources for picture in program.PICTURES}:
        for name in sources:
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes((TOP / name).read_bytes())
        before = program.digest(sources)
        assert program.digest(sources, tmp_path) == before
        style = tmp_path / "webui/src/static/panel.css"
        style.write_text("/* a new\ncomment */\n\n   " + style.read_text())
        assert program.digest(sources, tmp_path) == before
        style.write_text(style.read_text() + "p { color: red; }\n")
        assert program.digest(sources, tmp_path) != before
