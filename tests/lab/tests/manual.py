# SPDX-License-Identifier: Apache-2.0
"""The code and the target of the example in docs/howto/add-an-experiment.md, read from that page."""

from __future__ import annotations

import re
from typing import Any

from lab.kernels import TOP
from lab.model import Experiment
from lab.targets import Targets, read

LINES = 10
PAGE = TOP / "docs/howto/add-an-experiment.md"


def snippet() -> str:
    text = PAGE.read_text()
    part = text.split("## An experiment in ten lines", 1)[1].split("\n## ", 1)[0]
    (code,) = re.findall(r"^```python\n(.*?)^```$", part, re.M | re.S)
    return str(code)


def target() -> Targets:
    """The target that the page gives to the example."""
    (text,) = re.findall(r"^```toml\n(.*?)^```$", PAGE.read_text(), re.M | re.S)
    return read(text, [e.name for e in ten_lines()])


def ten_lines() -> list[Experiment]:
    """The experiments that the example defines."""
    module: dict[str, Any] = {}
    exec(compile(snippet(), str(PAGE), "exec"), module)  # noqa: S102
    return list(module["EXPERIMENTS"])
