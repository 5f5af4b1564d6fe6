# SPDX-License-Identifier: Apache-2.0
"""gunicorn's settings, as gunicorn reads them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from evenkeel_panel import gunicorn_conf

WEBUI = Path(__file__).resolve().parents[1]


def test_this_gunicorn_takes_them() -> None:
    """Also one that does not know all of the names: series of Yocto have versions from 21 to 25."""
    settings = "python:evenkeel_panel.gunicorn_conf"
    # another program than the panel, which would look for its data base
    command = ["gunicorn", "-c", settings, "--print-config", "wsgiref.simple_server:demo_app"]
    done = subprocess.run([sys.executable, "-m", *command], cwd=WEBUI, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)
    found = {name.strip(): value.strip() for name, value in found.items()}
    assert found["worker_tmp_dir"] == "/dev/shm"  # noqa: S108
    # True where gunicorn has the setting
    assert found.get("control_socket_disable", "True") == "True"


def test_nothing_listens_for_commands() -> None:
    assert gunicorn_conf.control_socket_disable is True
