# SPDX-License-Identifier: Apache-2.0
"""evenkeel-history: starts the service, and stops it after SIGTERM or SIGINT with exit status 0."""

import gc
import logging
import signal
import sys
from collections.abc import Sequence

from evenkeel_agent.settings import Settings

from . import __version__
from .service import SAVE_S, History

STOP = {signal.SIGTERM, signal.SIGINT}


def _options(arguments: Sequence[str]) -> tuple[str, float]:
    """The options --root and --save."""
    import argparse  # it takes 1.4 MB, and the unit of a board has no options

    parser = argparse.ArgumentParser(
        prog="evenkeel-history", description="Keeps the history of a board's I/O for two years."
    )
    parser.add_argument("--root", default="/", help="directory that replaces / in all paths (default: /)")
    parser.add_argument("--save", type=float, default=SAVE_S, metavar="S", help="seconds between two saves")
    parser.add_argument("--version", action="version", version=__version__)
    options = parser.parse_args(arguments)
    return options.root, options.save


def main(arguments: Sequence[str] | None = None) -> int:
    arguments = sys.argv[1:] if arguments is None else arguments
    root, save_s = _options(arguments) if arguments else ("/", SAVE_S)
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)
    # Block the signals before any thread starts, so that only sigtimedwait() below receives them.
    signal.pthread_sigmask(signal.SIG_BLOCK, STOP)
    history = History(Settings(root=root), save_s)
    gc.freeze()  # the collector of cycles need not look at the modules again and again
    history.run(lambda seconds: signal.sigtimedwait(STOP, seconds) is not None)
    return 0


if __name__ == "__main__":
    sys.exit(main())
