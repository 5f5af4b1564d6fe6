# SPDX-License-Identifier: Apache-2.0
"""gunicorn accepts the panel's settings."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

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
