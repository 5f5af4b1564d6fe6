# SPDX-License-Identifier: Apache-2.0
"""gunicorn accepts the panel's settings."""

from __future__ import annotations

import http.client
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from evenkeel_panel import gunicorn_conf

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


CUT = """
def app(environ, start_response):
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


def test_a_file_that_is_cut_does_not_end_properly(tmp_path: Path) -> None:
    """recorder/download.py relies on this: after an error, the last chunk is missing."""
    (tmp_path / "cut.py").write_text(CUT)
    path = tmp_path / "socket"
    options = ["-c", f"python:{gunicorn_conf.__name__}", "--chdir", str(tmp_path), "-b", f"unix:{path}"]
    with subprocess.Popen(
        [sys.executable, "-m", "gunicorn", *options, "cut:app"],
        cwd=WEBUI / "src",
        env={"PYTHONPATH": str(WEBUI / "src"), "PATH": "/usr/bin:/bin"},
        stderr=subprocess.DEVNULL,
    ) as server:
        try:
            deadline = time.monotonic() + 30
            while not path.exists() and time.monotonic() < deadline:
                time.sleep(0.1)
            for where in ("/whole", "/cut"):
                connection = Connection(str(path))
                connection.request("GET", where)
                answer = connection.getresponse()
                assert answer.headers["Transfer-Encoding"] == "chunked"
                if where == "/whole":
                    assert answer.read() == b"part of a file"
                else:
                    with pytest.raises((http.client.IncompleteRead, ConnectionError)):
                        answer.read()
                connection.close()
        finally:
            server.terminate()
