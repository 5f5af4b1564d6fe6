# SPDX-License-Identifier: Apache-2.0
"""The search for the parameters of the flash model that fit measurements best. No I/O here."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence

from .errors import ValidateError

Params = Mapping[str, int | str]
# The flash model accepts no higher rate, and no device has a longer time in µs.
MOST = 20_000
# what a figure of a good fit misses, as a logarithm
USUAL = 0.1
# what the model misses of a figure that chance does not change, as a logarithm
MODEL = 0.05
# evaluations of the model in one search, and the first change of the logarithm of each value
STEPS, FIRST_STEP = 60, 0.15


def median(values: Iterable[float]) -> float:
    """The median of the absolute values."""
    ordered = sorted(map(abs, values))
    return (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2


def deviation(values: Sequence[float]) -> float:
    """The standard deviation of VALUES, estimated from a sample."""
    mean = sum(values) / len(values)
    return math.sqrt(sum((value - mean) ** 2 for value in values) / (len(values) - 1))


def misses(ratios: Sequence[float], chance: Sequence[float] = ()) -> list[float]:
    """Logarithms of RATIOS, divided such that the sum of their squares is the mean of the squares.

    Far beyond USUAL, the square of a figure grows in proportion to the logarithm. Otherwise a percentile that lies where pauses
    begin would outweigh all others. CHANCE: the standard deviation of each logarithm. What chance changes much counts less.
    """
    logs = [math.log(ratio) for ratio in ratios]
    if chance:
        logs = [x * USUAL / math.hypot(MODEL, sd) for x, sd in zip(logs, chance, strict=True)]
    return [math.sqrt(2 * (math.sqrt(1 + (x / USUAL) ** 2) - 1) / len(logs)) * USUAL for x in logs]


def loss(missed: Iterable[float]) -> float:
    return sum(x * x for x in missed)


def whole(values: Mapping[str, float]) -> dict[str, int | str]:
    """The values as parameters, which are whole numbers from 1 to MOST."""
    return {name: max(round(min(value, MOST)), 1) for name, value in values.items()}


def best(
    guess: Mapping[str, float], made: Callable[[Mapping[str, float]], Params], missed: Callable[[Params], list[float]],
    steps: int = STEPS,
) -> tuple[Params, float]:  # fmt: skip
    """(parameters, loss): MADE from values that have the least loss, in a search that begins at GUESS.

    MISSED: what parameters miss. A search by gradients would not do: all times are whole numbers, and vary by chance.
    """
    try:
        from scipy.optimize import minimize
    except ImportError as error:
        raise ValidateError(
            "the fit needs scipy (package python3-scipy); the build root of the project has it"
        ) from error

    def params(logs: Sequence[float]) -> Params:
        return made(
            {name: value * math.exp(log) for (name, value), log in zip(guess.items(), logs, strict=True)}
        )

    zeros = [0.0] * len(guess)
    simplex = [zeros, *([FIRST_STEP * (i == j) for j in range(len(guess))] for i in range(len(guess)))]
    found = minimize(
        lambda logs: loss(missed(params(logs))), zeros, method="Nelder-Mead",
        options={"maxfev": steps, "xatol": 0.005, "fatol": 1e-5, "initial_simplex": simplex},
    )  # fmt: skip
    return params([float(x) for x in found.x]), float(found.fun)
