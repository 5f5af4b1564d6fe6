# SPDX-License-Identifier: Apache-2.0
"""A real Prometheus, as Debian packages it, scrapes /metrics with an API token. It must accept every metric."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from typing import TYPE_CHECKING, Any

import pytest
from evenkeel_history.live import Live, Server
from evenkeel_history.period import READ, Sum
from evenkeel_history.totals import Totals
from evenkeel_panel.dev import dev_app
from evenkeel_panel.fake_agent import FIRST_PASSWORD, FakeAgent
from evenkeel_panel.testing import PASSWORD
from werkzeug.serving import make_server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PROMETHEUS = shutil.which("prometheus")
START_S = 60.0  # the maximum time until the first scrape, on a busy host
CONFIG = """\
global: {{scrape_interval: 1s, scrape_timeout: 1s}}
scrape_configs:
  - job_name: evenkeel
    authorization: {{credentials_file: {token}}}
    static_configs: [{{targets: ["127.0.0.1:{port}"]}}]
"""


@pytest.fixture
def live(tmp_path: Path) -> Iterator[Live]:
    live = Live(Totals(tmp_path / "totals"))
    server = Server(tmp_path / "live", live)
    add(live, 4096)
    yield live
    server.close()


def add(live: Live, count: int) -> None:
    step = Sum(ms=1000, blame={("player", "loader"): 1_500_000})
    flow = step.flow(("player", "mmcblk0", READ))
    flow.bytes, flow.ios, flow.latency = count, 1, {31: 1}
    live.add(1, step)


def make_token(agent: FakeAgent) -> str:
    """A viewer's token, made by an administrator who has changed the first password."""
    first = agent.call("LogIn", "", "t", "admin", FIRST_PASSWORD, "", "", "test").session
    session = agent.call("ChangePassword", first, "t", FIRST_PASSWORD, PASSWORD, "test").session
    return str(agent.call("CreateToken", session, "t", "prometheus", "viewer", 30).token)


@pytest.fixture
def panel_port(tmp_path: Path, live: Live) -> Iterator[int]:
    """The port of the development server; the file `token` has a valid token."""
    agent = FakeAgent(moving=True)
    (tmp_path / "token").write_text(make_token(agent))
    app = dev_app(
        tmp_path,
        tmp_path,
        agent,
        HISTORY_FOLDER=tmp_path / "history",
        HISTORY_SOCKET=tmp_path / "live",
    )
    server = make_server("127.0.0.1", 0, app, threaded=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.port
    server.shutdown()
    server.server_close()


class Prometheus:
    """A Prometheus server with the panel at PORT as its only target. Its log is in FOLDER."""

    def __init__(self, folder: Path, port: int) -> None:
        assert PROMETHEUS, "the package prometheus of toolroot/packages is missing"
        config = folder / "prometheus.yml"
        config.write_text(CONFIG.format(token=folder / "token", port=port))
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self._log = (folder / "prometheus.log").open("w+")
        self.process = subprocess.Popen(
            [
                PROMETHEUS,
                f"--config.file={config}",
                f"--storage.tsdb.path={folder / 'tsdb'}",
                f"--web.listen-address=127.0.0.1:{self.port}",
            ],
            stdout=self._log,
            stderr=subprocess.STDOUT,
        )

    def ask(self, path: str, **parameters: str) -> Any:
        url = f"http://127.0.0.1:{self.port}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        with urllib.request.urlopen(url, timeout=10) as answer:
            return json.load(answer)["data"]

    def wait_for(self, query: str) -> list[float]:
        """The values of QUERY, as soon as it has any."""
        end = time.monotonic() + START_S
        while time.monotonic() < end:
            assert self.process.poll() is None, self.log()
            try:
                if found := self.ask("query", query=query)["result"]:
                    return [float(each["value"][1]) for each in found]
            except (urllib.error.URLError, ConnectionError, TimeoutError):
                pass  # Prometheus has not started yet
            time.sleep(0.2)
        raise AssertionError(f"{query} has no result. Targets: {self.targets()}. Log: {self.log()}")

    def targets(self) -> Any:
        return self.ask("targets")["activeTargets"]

    def log(self) -> str:
        self._log.seek(0)
        return self._log.read()[-3000:]

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        self._log.close()


def test_prometheus_scrapes_the_panel(tmp_path: Path, panel_port: int, live: Live) -> None:
    server = Prometheus(tmp_path, panel_port)
    try:
        assert server.wait_for("up == 1") == [1]
        assert server.wait_for("evenkeel_agent_up") == server.wait_for("evenkeel_history_up") == [1]
        assert server.wait_for('evenkeel_app_weight{app="player"}') == [100]
        assert server.wait_for('evenkeel_io_bytes_total{app="player",direction="read"}') == [4096]
        add(live, 4096)
        assert server.wait_for('evenkeel_io_bytes_total{app="player"} > 4096') == [8192]
        assert server.wait_for("increase(evenkeel_io_bytes_total[1m]) > 0")[0] > 0
        latency = "histogram_quantile(0.99, sum by (le) (evenkeel_io_latency_seconds_bucket))"
        assert 0 < server.wait_for(latency)[0] < 0.0001  # bucket 31 is 60 to 63 µs
        kinds = server.ask("targets/metadata", metric="evenkeel_io_bytes")
        assert [(kind["type"], kind["unit"]) for kind in kinds] == [("counter", "bytes")]
        # Prometheus has kept every sample of each scrape
        (target,) = server.targets()
        assert target["lastError"] == ""
        (scraped,) = server.wait_for("scrape_samples_scraped")
        (kept,) = server.wait_for("scrape_samples_post_metric_relabeling")
        assert scraped == kept > 40
    finally:
        server.close()


def test_prometheus_reports_a_wrong_token(tmp_path: Path, panel_port: int) -> None:
    (tmp_path / "token").write_text("ek_wrong")
    server = Prometheus(tmp_path, panel_port)
    try:
        assert server.wait_for("up == 0") == [0]
        (target,) = server.targets()
        assert "401" in target["lastError"]
    finally:
        server.close()
