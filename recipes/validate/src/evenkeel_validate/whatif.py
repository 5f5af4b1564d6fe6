# SPDX-License-Identifier: Apache-2.0
"""What apps would get on a device, before anybody runs them on it: ek-sim on the model that `ek-validate model` fitted.

It runs in a clone of the project, because it compiles ek-sim (recipes/scheduler/README.md). A job has the words of ek-sim, and
is one group.
"""

import json
import subprocess
import tempfile
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evenkeel_common.files import why
from evenkeel_report.names import number

from .errors import ValidateError

BUILD_S, RUN_S = 300, 600


@dataclass(frozen=True)
class Preset:
    """A fitted device: its name, where it comes from, and the parameters of the flash model that differ from the default."""

    name: str
    about: str
    params: dict[str, str]


def read(path: Path) -> Preset:
    """The preset in the file PATH, as `ek-validate model --preset` writes it. Raises ValidateError."""
    try:
        content = tomllib.loads(path.read_text())
        ((name, found),) = content.items()
        params = dict(word.split("=") for word in found["set"].split(","))
        return Preset(name, str(found["about"]), params)
    except OSError as error:
        raise ValidateError(f"cannot read {path}: {why(error)}") from error
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise ValidateError(f"{path} is no preset of `ek-validate model`: {error}") from error


def _run(arguments: Sequence[str], seconds: float) -> str:
    """What a program prints. Raises ValidateError."""
    try:
        done = subprocess.run(arguments, capture_output=True, text=True, timeout=seconds, check=False)
    except OSError as error:
        raise ValidateError(
            f"cannot run {arguments[0]}: {why(error)}; run this command in the build root"
        ) from error
    except subprocess.TimeoutExpired as error:
        raise ValidateError(
            f"{arguments[0]} did not end within {seconds:.0f} s; ask about fewer apps"
        ) from error
    if done.returncode:
        raise ValidateError(
            done.stderr.strip()[-300:] or f"{arguments[0]} ended with status {done.returncode}"
        )
    return done.stdout


def ask(preset: Preset, jobs: Sequence[str], folder: Path, seed: int = 1) -> dict[str, Any]:
    """What each of JOBS gets on the device alone, and together with the others. FOLDER: the source of ek-sim.

    Rates in bytes per second, latencies in ms. Raises ValidateError.
    """
    weights = [_weight(job) for job in jobs]
    device = ":" + ",".join(f"{name}={value}" for name, value in preset.params.items())
    with tempfile.TemporaryDirectory() as out:
        program = f"{out}/ek-sim"
        _run([str(folder / "build"), program], BUILD_S)
        text = _run(
            [program, "--json", "--light", f"--seed={seed}", "--sched=none,core", device, *jobs], RUN_S
        )
    found = json.loads(text)
    if "error" in found:
        raise ValidateError(str(found["error"]))
    share = [weight / sum(weights) for weight in weights]
    alone = found["alone"]
    together = {
        name: [r * s * a for r, s, a in zip(found[name]["ratio"], share, alone, strict=True)]
        for name in ("core", "none")
    }
    return {
        "device": preset.about,
        "jobs": [
            {
                "job": job, "weight": weight, "alone": a, "together": t, "without_evenkeel": n, "of_share": r,
                "p99_ms": ns / 1e6,
            }
            for job, weight, a, t, n, r, ns in zip(
                jobs, weights, alone, together["core"], together["none"], found["core"]["ratio"], found["core"]["p99"],
                strict=True,
            )
        ],
        "light": {name: found["light"][name] / 1e6 for name in ("p99", "none")},
    }  # fmt: skip


def _weight(job: str) -> int:
    """The weight of a job. Raises ValidateError for what this command does not show: several groups in one word."""
    if "*" in job or ",in=" in f",{job}":
        raise ValidateError(
            f"{job!r:.80}: write each group as a job of its own; N* and in= are not possible here"
        )
    words = dict(word.partition("=")[::2] for word in job.split(","))
    weight = words.get("weight", "100")
    if not weight.isascii() or not weight.isdigit():
        raise ValidateError(f"{job!r:.80}: the weight {weight!r:.20} is no number")
    return int(weight)


def lines(found: dict[str, Any]) -> list[str]:
    """The answer as a table, for a terminal."""
    head = ("alone", "together", "of its share", "99 % of I/Os within", "without evenkeel", "job")
    table = [
        (
            f"{number(job['alone'] / 1e6)} MB/s", f"{number(job['together'] / 1e6)} MB/s", f"{100 * job['of_share']:.0f} %",
            f"{number(job['p99_ms'])} ms", f"{number(job['without_evenkeel'] / 1e6)} MB/s", job["job"],
        )
        for job in found["jobs"]
    ]  # fmt: skip
    widths = [max(map(len, column)) for column in zip(head, *table, strict=True)]
    light = found["light"]
    return [
        f"On a device {found['device']}:",
        *("  ".join(map(str.ljust, line, widths)).rstrip() for line in (head, *table)),
        f"99 of 100 small reads of another app take at most {number(light['p99'])} ms; without evenkeel,"
        f" {number(light['none'])} ms.",
    ]  # fmt: skip
