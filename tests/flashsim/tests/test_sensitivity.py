# SPDX-License-Identifier: Apache-2.0
"""sensitivity.py: its classes of parameters, and whether README.md has the tables that it prints."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import sensitivity
from timing import FIGURES, Model, compiled

PRESETS = [name for name in FIGURES if name != "source"]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    return compiled(tmp_path_factory.mktemp("sensitivity"), "-O2")


def readme(table: str) -> str:
    return (
        sensitivity.README.read_text()
        .partition(f"<!-- generated: {table} -->\n")[2]
        .partition("\n<!-- end -->")[0]
    )


def test_each_class_has_parameters_that_exist_and_none_is_in_two(model: Model) -> None:
    assert list(sensitivity.SOURCES) == PRESETS
    for preset in PRESETS:
        cited, fitted = (sensitivity.SOURCES[preset][of] for of in ("cited", "fitted"))
        assert not set(cited) & set(fitted)
        assert set(cited) | set(fitted) <= set(model.names("param"))


def test_the_readme_has_the_cells_that_the_model_gives_today(model: Model) -> None:
    """Checks all cells of the preset that is measured fastest, and one cell of each of three other presets."""
    head, _, *rows = readme("sensitivity").splitlines()
    assert [name.strip(" `") for name in head.split("|")[2:-1]] == PRESETS
    table = {}
    for row in rows:
        if row.startswith("| `"):
            name, *columns = (text.strip() for text in row.split("|")[1:-1])
            table[name.strip("`")] = dict(zip(PRESETS, columns, strict=True))
    pipe = {name: text for name, (text, _) in sensitivity.cells(model, "pipe").items()}
    assert {name: row["pipe"] for name, row in table.items() if row["pipe"]} == {
        n: pipe[n] for n in pipe if n in table
    }
    for preset, name in (("emmc51", "t_prog_us"), ("sd-uhs3", "discard_us"), ("sata-mlc-8ch", "bg_stop_us")):
        device = sensitivity.Device(model, preset, "")
        known = sensitivity.figures(device, None)
        assert table[name][preset] == sensitivity.cell(model, preset, name, device.base, known)[0]
    assert "seed" in table


def test_a_parameter_that_decides_a_figure_is_found(model: Model) -> None:
    device = sensitivity.Device(model, "emmc51", "")
    known = sensitivity.figures(device, None)
    for name, text in (("cmd_us", "f +100 -50 r"), ("cmd_write_us", "f +100 -50 w")):
        assert sensitivity.cell(model, "emmc51", name, device.base, known)[0] == text
    # halving a parameter that is 1, or doubling one beyond its limits, is not possible
    assert sensitivity.variants(model, "emmc50-slow", "active") == ("", ["", "active=2"])
    assert sensitivity.variants(model, "emmc51", "buffer_kb") == ("", ["buffer_kb=512", "buffer_kb=2048"])
    assert sensitivity.variants(model, "emmc51", "discard_exclusive") == ("off", ["discard_exclusive=0"])


def test_the_list_of_figures_is_complete() -> None:
    lines = readme("figures").splitlines()
    assert [line[2] for line in lines] == list(sensitivity.HEADLINES)


def test_writing_the_tables_changes_nothing_else() -> None:
    text = "a\n<!-- generated: x -->\n<!-- end -->\nb\n<!-- generated: y -->\nold\n<!-- end -->\nc\n"
    assert sensitivity.with_tables(text, {"x": "X", "y": "Y"}) == text.replace(
        "x -->\n", "x -->\nX\n"
    ).replace("old", "Y")
    with pytest.raises(ValueError, match="no place for z"):
        sensitivity.with_tables(text, {"z": ""})
