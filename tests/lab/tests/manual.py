# SPDX-License-Identifier: Apache-2.0
"""The example of docs/lab.md, as it stands there."""

from __future__ import annotations

import re
from typing import Any

from lab.kernels import TOP
from lab.model import Experiment

LINES = 10


def snippet() -> str:
    text = (TOP / "docs/lab.md").read_text()
    part = text.split("## An experiment in ten lines", 1)[1].split("\n## ", 1)[0]
    (code,) = re.findall(r"^```python\n(.*?)^```$", part, re.M | re.S)
    return str(code)


def ten_lines() -> list[Experiment]:
    """What a reader who pastes it into a file gets."""
    module: dict[str, Any] = {}
    exec(compile(snippet(), "docs/lab.md", "exec"), module)  # noqa: S102
    return list(module["EXPERIMENTS"])
