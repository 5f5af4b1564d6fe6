# SPDX-License-Identifier: Apache-2.0
"""evenkeeld: starts, serves and stops the agent. Exit status 0 after SIGTERM or SIGINT, else 1 with a reason."""

import asyncio
import logging
import os
import signal
import socket
import sys
from collections.abc import Sequence

from evenkeel_api import interface
from evenkeel_common.notify import notify, reloading

from . import __version__
from .accounts import Accounts
from .agent import Agent
from .alerts import Alerts
from .bus import Bus
from .cache import PagePool
from .certificate import Certificates
from .journal import JournalReader
from .network import Network
from .preseed import Preseeder
from .recordings import Recordings
from .restorer import Restorer
from .service import Service
from .settings import Settings
from .support import Support
from .system import SystemSettings
from .update import Updates
from .validation import Validations
from .wear import FlashWear

_log = logging.getLogger("evenkeeld")


class _Priority(logging.Formatter):
    """Begins each line with its priority, which journald parses (sd-daemon(3))."""

    def format(self, record: logging.LogRecord) -> str:
        level = 3 if record.levelno >= logging.ERROR else 4 if record.levelno >= logging.WARNING else 6
        return "\n".join(f"<{level}>{line}" for line in super().format(record).splitlines())


# The options that set a duration: name -> end of the help text, after the word "seconds". An option --x-y sets the
# field x_y_s of Settings.
DURATIONS = {
    "interval": "between two samples",
    "window": "over which rates and percentiles are computed",
    "recheck": "between two checks of units and weights without a signal of a change",
    "call-timeout": "to wait for systemd, polkit and ek-fixed-share",
    "patience": "that ListApps waits for unit states",
    "job-timeout": "that StartApp and StopApp wait for the unit",
    "settle": "that systemd may take to write a weight",
    "first-update-check": "until the agent asks RAUC about the slots",
}


def _settings(arguments: Sequence[str]) -> Settings:
    credentials = os.environ.get("CREDENTIALS_DIRECTORY")
    if not arguments:
        return Settings(credentials=credentials)
    import argparse  # it takes 1.5 MB, and the unit of a board has no options

    parser = argparse.ArgumentParser(prog="evenkeeld", description="The agent of an Evenkeel board.")
    parser.add_argument("--root", default="/", help="directory that replaces / in all paths (default: /)")
    parser.add_argument("--bus", help="D-Bus address (default: the system bus)")
    parser.add_argument("--version", action="version", version=__version__)
    for option, what in DURATIONS.items():
        parser.add_argument(f"--{option}", type=float, metavar="S", help=f"seconds {what}")
    options = vars(parser.parse_args(arguments))
    durations = {
        f"{name}_s": options[name]
        for name in (option.replace("-", "_") for option in DURATIONS)
        if options[name] is not None
    }
    return Settings(root=options["root"], bus=options["bus"], credentials=credentials, **durations)


async def _reload(agent: Agent) -> None:
    reloading()
    try:
        await agent.reload()
    except Exception:
        _log.exception(
            "the reload of apps.d failed; the agent keeps running, and some apps may be out of date"
        )
    notify("READY=1")


async def serve(settings: Settings) -> int:
    """Run until SIGTERM or SIGINT. Returns the exit status."""
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    try:
        bus = await Bus.connect(settings.bus)
    except OSError as error:
        _log.error("%s", error)
        return 1
    accounts = Accounts(settings.state_dir, socket.gethostname())
    updates = Updates(settings, bus, accounts)
    alerts = await asyncio.to_thread(Alerts, settings, socket.gethostname())
    system = await asyncio.to_thread(SystemSettings, settings, bus, alerts.rename)
    wear = await asyncio.to_thread(FlashWear, settings, lambda: agent.changed())
    network, pool, certificates = Network(settings, bus), PagePool(settings), Certificates(settings)
    agent = Agent(
        settings,
        bus,
        pool,
        lambda: [
            *([accounts.problem] if accounts.problem else []),
            *updates.problems,
            *alerts.problems,
            *system.problems,
            *restorer.problems,
            *certificates.problems,
            *preseeder.problems,
            *wear.problems,
        ],
        lambda: wear.limit,
    )
    restorer = Restorer(settings, agent, accounts, alerts, system, pool, network, wear, certificates)
    preseeder = Preseeder(accounts, system, network)
    recordings = Recordings(settings, agent.recorder_units, agent.started_at)
    queries = {
        "status": agent.get_status,
        "apps": agent.list_apps,
        "update": updates.get_update,
        "recorder": recordings.get_recorder,
        "system": system.get_system,
    }
    own = [
        network,
        system,
        JournalReader(settings),
        Support(settings, queries),
        restorer,
        certificates,
        preseeder,
        Validations(settings),
        pool,
        wear,
    ]
    features: list[object] = [agent, updates, alerts, recordings, *own]
    Service(bus, features, accounts, settings.call_timeout_s)
    await asyncio.gather(agent.start(), accounts.start())
    if not await bus.own(interface.NAME):
        _log.error("%s is taken: another evenkeeld runs on this bus; stop one of them", interface.NAME)
        return 1
    accounts.changed()  # the process before may have ended a session without sending the signal
    reloads: set[asyncio.Task[None]] = set()
    loop.add_signal_handler(signal.SIGHUP, lambda: reloads.add(loop.create_task(_reload(agent))))
    notify("READY=1")
    stopping = loop.create_task(stop.wait())
    closed = loop.create_task(bus.closed())
    work = [agent.sample(), agent.watch(), updates.watch(), alerts.watch(agent.get_snapshot)]
    work += [accounts.watch(), system.watch(), restorer.watch(), certificates.watch()]
    work += [pool.watch(agent.pool_unit), wear.watch()]
    tasks = {stopping, closed, *(loop.create_task(one) for one in work)}
    done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    if stopping in done:
        notify("STOPPING=1")
        bus.close()
        return 0
    if closed in done:
        _log.error("the connection to D-Bus ended: %s", closed.result())
        return 1
    for task in done:
        # The agent cannot work after a task has ended. It exits with 1, and systemd restarts it.
        _log.critical("the agent has a bug and ends", exc_info=task.exception())
    return 1


def main(arguments: Sequence[str] | None = None) -> int:
    handler = logging.StreamHandler()
    handler.setFormatter(_Priority("%(message)s"))
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    logging.getLogger("dbus_fast").setLevel(logging.CRITICAL)
    return asyncio.run(serve(_settings(sys.argv[1:] if arguments is None else arguments)))


if __name__ == "__main__":
    sys.exit(main())
