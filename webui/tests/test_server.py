# SPDX-License-Identifier: Apache-2.0
"""gunicorn accepts the panel's settings, and serves in one process that systemd watches."""

from __future__ import annotations

import http.client
import re
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from evenkeel_panel import gunicorn_conf

if TYPE_CHECKING:
    from collections.abc import Iterator

WEBUI = Path(__file__).resolve().parents[1]


def test_gunicorn_accepts_the_settings() -> None:
    """gunicorn must also accept settings that it does not know. The supported Yocto series have gunicorn 21 to 25."""
    settings = "python:evenkeel_panel.gunicorn_conf"
    # load a demo application: the panel's application would open the database
    command = ["gunicorn", "-c", settings, "--print-config", "wsgiref.simple_server:demo_app"]
    done = subprocess.run([sys.executable, "-m", *command], cwd=WEBUI / "src", capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)
    found = {name.strip(): value.strip() for name, value in found.items()}
    assert found["worker_tmp_dir"] == "/dev/shm"  # noqa: S108
    # the line is present only if this version of gunicorn knows the setting
    assert found.get("control_socket_disable", "True") == "True"


def test_control_socket_is_off() -> None:
    assert gunicorn_conf.control_socket_disable is True


APP = """
import signal
import time

signal.signal(signal.SIGUSR2, lambda *_: time.sleep(60))  # a main thread that hangs

def app(environ, start_response):
    if environ["PATH_INFO"] == "/slow":
        time.sleep(1)
    start_response("200 OK", [("Content-Type", "application/octet-stream")])
    return parts(environ["PATH_INFO"])

def parts(path):
    yield b"part of a file"
    if path == "/cut":
        raise RuntimeError("the file is cut")
"""


class Connection(http.client.HTTPConnection):
    """HTTP on a Unix socket."""

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(20)
        self.sock.connect(self.host)


@dataclass
class Started:
    """A server that has the socket PATH from its service manager. STATES: what it reports to it."""

    process: subprocess.Popen[bytes]
    path: Path
    states: socket.socket

    def said(self, within_s: float) -> str:
        """Its next report; "" if it reports nothing for WITHIN_S seconds."""
        self.states.settimeout(max(within_s, 0.01))
        try:
            return self.states.recv(4096).decode()
        except TimeoutError:
            return ""

    def asked(self, where: str) -> Connection:
        """A connection on which WHERE has been requested."""
        connection = Connection(str(self.path))
        connection.request("GET", where)
        return connection


@contextmanager
def started(folder: Path, text: str = APP, **environment: str) -> Iterator[Started]:
    """The server as systemd starts it, with the application `app` of the program TEXT."""
    (folder / "small.py").write_text(text)
    with (
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as states,
        socket.socket(socket.AF_UNIX) as listener,
    ):
        states.bind(str(folder / "states"))
        listener.bind(str(folder / "socket"))
        listener.listen()
        # The shell puts the socket where systemd puts it, and keeps its process.
        script = f'exec 3<&{listener.fileno()}; export LISTEN_FDS=1 LISTEN_PID=$$; exec "$@"'
        options = ["-c", f"python:{gunicorn_conf.__name__}", "--chdir", str(folder), "small:app"]
        with subprocess.Popen(
            ["bash", "-c", script, "bash", sys.executable, "-m", "evenkeel_panel.server", *options],
            env={
                "PYTHONPATH": ":".join(sys.path),
                "PATH": "/usr/bin:/bin",
                "NOTIFY_SOCKET": str(folder / "states"),
                **environment,
            },
            pass_fds=[listener.fileno()],
            stderr=subprocess.DEVNULL,
        ) as process:
            try:
                yield Started(process, folder / "socket", states)
            finally:
                process.kill()


def test_a_file_that_is_cut_does_not_end_properly(tmp_path: Path) -> None:
    """recorder/download.py relies on this: after an error, the last chunk is missing."""
    with started(tmp_path) as server:
        assert server.said(30) == "READY=1"
        for where in ("/whole", "/cut"):
            connection = server.asked(where)
            answer = connection.getresponse()
            assert answer.headers["Transfer-Encoding"] == "chunked"
            if where == "/whole":
                assert answer.read() == b"part of a file"
            else:
                with pytest.raises((http.client.IncompleteRead, ConnectionError)):
                    answer.read()
            connection.close()


def test_there_is_one_process(tmp_path: Path) -> None:
    """Another one would need memory."""
    with started(tmp_path) as server:
        assert server.said(30) == "READY=1"
        assert server.asked("/whole").getresponse().status == 200
        assert not Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children").read_text()


def test_a_request_that_waits_is_answered_when_the_server_is_ready(tmp_path: Path) -> None:
    """systemd has the socket, so no request is lost while the panel starts."""
    with started(tmp_path) as server:
        assert server.asked("/whole").getresponse().read() == b"part of a file"
        assert server.said(0) == "READY=1"


def test_a_stop_completes_the_requests(tmp_path: Path) -> None:
    with started(tmp_path) as server:
        assert server.said(30) == "READY=1"
        connection = server.asked("/slow")
        time.sleep(0.3)
        server.process.terminate()
        assert connection.getresponse().read() == b"part of a file"
        assert server.process.wait(timeout=10) == 0


def test_the_watchdog_hears_from_a_server_that_accepts_connections(tmp_path: Path) -> None:
    with started(tmp_path, WATCHDOG_USEC="4000000") as server:
        assert [server.said(30) for _ in range(3)] == ["READY=1", "WATCHDOG=1", "WATCHDOG=1"]
        # The loop that accepts connections does not run, but the threads of the requests do.
        server.process.send_signal(signal.SIGUSR2)
        assert server.said(4) == ""


def test_an_application_that_cannot_be_loaded_ends_the_server(tmp_path: Path) -> None:
    """systemd then starts it again, after a delay."""
    with started(tmp_path, text="raise RuntimeError('no application')") as server:
        assert server.process.wait(timeout=30) == 1
        assert server.said(0) == ""


def test_the_unit_and_the_server_belong_together() -> None:
    unit = (WEBUI / "data/systemd/evenkeel-panel.service").read_text()
    assert re.search(
        r"^ExecStart=.* -m evenkeel_panel.server -c python:evenkeel_panel.gunicorn_conf$", unit, re.M
    )
    assert {"Type=notify", "WatchdogSec=60"} <= set(unit.splitlines())
