# SPDX-License-Identifier: Apache-2.0
"""The real nginx with the board's configuration, in front of a small panel: limits, HSTS, uploads."""

from __future__ import annotations

import http.client
import json
import os
import re
import shutil
import socket
import socketserver
import ssl
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from evenkeel_panel import gunicorn_conf
from evenkeel_panel.certificate_helper import Helper, served
from evenkeel_panel.firstboot import HSTS, digest, ensure_certificate
from evenkeel_panel.testing import COMPONENT, Authority

if TYPE_CHECKING:
    from collections.abc import Iterator

CONF = COMPONENT / "data/nginx/evenkeel.conf"
pytestmark = [
    pytest.mark.skipif(shutil.which("nginx") is None, reason="needs nginx"),
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root, because nginx changes its user"),
]


class Panel(socketserver.ThreadingUnixStreamServer):
    """A small panel that answers each request with the request's headers, and counts the bytes of uploads as they arrive."""

    daemon_threads = True
    request_queue_size = 512
    begun = 0  # requests with a body
    received = 0
    cut = threading.Event()  # ends a download


class Handler(BaseHTTPRequestHandler):
    server: Panel

    def do_GET(self) -> None:
        self._answer(bytes(400_000) if self.path == "/history" else str(self.headers).encode())

    def do_POST(self) -> None:
        if self.path == "/recorder/download":
            self._cut_file()
            return
        self.server.begun += 1
        left = int(self.headers["Content-Length"])
        while left and (piece := self.rfile.read1(min(left, 65536))):  # type: ignore[attr-defined]
            left -= len(piece)
            self.server.received += len(piece)
        self._answer(self.path.encode())

    def _cut_file(self) -> None:
        """A part of a file, with the headers of recorder/views.py. When `cut` is set, the last chunk is missing."""
        head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nX-Accel-Buffering: no\r\n\r\n"
        self.wfile.write(head + b"4\r\npart\r\n")
        self.server.cut.wait(60)  # longer than the client waits
        self.close_connection = True

    def _answer(self, body: bytes) -> None:
        self.send_response(200)
        if self.path == "/with-headers":
            self.send_header("X-Content-Type-Options", "nosniff")
            self.send_header("Content-Security-Policy", "default-src 'self'")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def address_string(self) -> str:
        return "nginx"

    def log_message(self, format: str, *args: object) -> None:
        pass


class Site:
    """nginx in front of the panel that listens on TOP/panel.sock."""

    def __init__(self, top: Path, more: str = "") -> None:
        """MORE: servers of apps; PORT, CERTIFICATE and KEY stand for those of the panel."""
        self.top = top
        top.chmod(0o755)
        self.tls = top / "tls"
        ensure_certificate(self.tls)
        with socket.socket() as one, socket.socket() as two:
            one.bind(("127.0.0.1", 0))
            two.bind(("127.0.0.1", 0))
            self.port, self.plain_port = int(one.getsockname()[1]), int(two.getsockname()[1])
        text = CONF.read_text()
        text = text.replace("listen [::]:80;", "").replace(
            "listen 80;", f"listen 127.0.0.1:{self.plain_port};"
        )
        text = text.replace("listen [::]:443 ssl default_server;", "").replace(
            "listen 443 ssl", f"listen 127.0.0.1:{self.port} sndbuf=16k ssl"
        )  # with a small buffer of the kernel, so that nginx has to keep what a slow browser does not take
        text = text.replace("/var/lib/evenkeel/tls", str(self.tls)).replace("/run/evenkeel-panel", str(top))
        text = text.replace("/usr/share/evenkeel-panel/static/", f"{COMPONENT}/src/static/")
        for word, value in (
            ("PORT", self.port),
            ("CERTIFICATE", self.tls / "cert.pem"),
            ("KEY", self.tls / "key.pem"),
        ):
            more = more.replace(word, str(value))
        paths = "".join(
            f"{name}_temp_path {top}/{name};" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        )
        types = "types { text/css css; text/javascript js; text/html html; image/svg+xml svg; }"
        main = f"user root; daemon off; pid {top}/pid; error_log {top}/log;"
        main += f" events {{}} http {{ {types} {paths}\n{text}\n{more} }}"
        (top / "nginx.conf").write_text(main)
        self.process = subprocess.Popen(
            ["nginx", "-c", top / "nginx.conf", "-e", top / "log"], stderr=(top / "stderr").open("wb")
        )
        deadline = time.monotonic() + 20
        while self.get("/healthz")[0] != 200:
            assert time.monotonic() < deadline, (top / "log").read_text()
            time.sleep(0.05)

    def connect(self, source: str = "127.0.0.1") -> http.client.HTTPSConnection:
        """A connection from the address SOURCE."""
        context = ssl.create_default_context(cafile=str(self.tls / "cert.pem"))
        context.check_hostname = False
        return http.client.HTTPSConnection(
            "127.0.0.1", self.port, context=context, timeout=20, source_address=(source, 0)
        )

    def get(self, path: str) -> tuple[int, http.client.HTTPMessage | None, bytes]:
        try:
            connection = self.connect()
            connection.request("GET", path, headers={"X-Forwarded-For": "6.6.6.6"})
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read()
        except OSError:
            return 0, None, b""

    def slow_post(self, path: str, kind: str) -> ssl.SSLSocket:
        """A connection whose client has sent the headers of a POST and 1 of 60,000 bytes."""
        connection = self.connect()
        connection.connect()
        head = (
            f"POST {path} HTTP/1.1\r\nHost: board\r\nContent-Type: {kind}\r\nContent-Length: 60000\r\n\r\na"
        )
        connection.sock.sendall(head.encode())
        assert isinstance(connection.sock, ssl.SSLSocket)
        return connection.sock

    def reload(self) -> None:
        subprocess.run(
            ["nginx", "-c", self.top / "nginx.conf", "-e", self.top / "log", "-s", "reload"], check=True
        )
        time.sleep(0.5)

    def close(self) -> None:
        self.process.terminate()
        self.process.wait(20)


class SmallSite(Site):
    """nginx in front of a `Panel`."""

    def __init__(self, top: Path, more: str = "") -> None:
        self.panel = Panel(str(top / "panel.sock"), Handler)
        (top / "panel.sock").chmod(0o777)
        threading.Thread(target=self.panel.serve_forever, daemon=True).start()
        super().__init__(top, more)

    def close(self) -> None:
        super().close()
        self.panel.shutdown()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallSite]:
    site = SmallSite(tmp_path_factory.mktemp("nginx"))
    yield site
    site.close()


WSGI = """
from pathlib import Path
from evenkeel_panel.app import create_app
from evenkeel_panel.fake_agent import FakeAgent
from evenkeel_panel.testing import COMPONENT

app = create_app(Path(__file__).parent, COMPONENT / "src/static", FakeAgent())
"""


@pytest.fixture
def whole_site(tmp_path: Path) -> Iterator[Site]:
    """nginx in front of gunicorn with the real panel and the settings of a board."""
    (tmp_path / "wsgi.py").write_text(WSGI)
    path = tmp_path / "panel.sock"
    settings = f"python:{gunicorn_conf.__name__}"
    with subprocess.Popen(
        [
            sys.executable,
            "-m",
            "evenkeel_panel.server",
            "-c",
            settings,
            "--chdir",
            tmp_path,
            "-b",
            f"unix:{path}",
            "wsgi:app",
        ],
        env={**os.environ, "PYTHONPATH": ":".join(sys.path)},
    ) as server:
        try:
            deadline = time.monotonic() + 30
            while not path.exists():
                assert time.monotonic() < deadline
                time.sleep(0.1)
            path.chmod(0o777)
            site = Site(tmp_path)
            yield site
            site.close()
        finally:
            server.terminate()


def test_the_panel_gets_the_address_of_the_browser(site: SmallSite) -> None:
    status, _, body = site.get("/apps")
    assert status == 200
    assert b"X-Forwarded-For: 127.0.0.1" in body
    assert b"6.6.6.6" not in body


def test_hsts_follows_the_certificate(site: SmallSite) -> None:
    def sent(path: str) -> str | None:
        headers = site.get(path)[1]
        assert headers is not None
        return headers["Strict-Transport-Security"]

    assert [sent(path) for path in ("/apps", "/static/logo.svg", "/login")] == [None] * 3
    (site.tls / HSTS).write_text("return 500;")  # whatever the file says, nginx only sees that it exists
    assert {sent(path) for path in ("/apps", "/static/logo.svg", "/login")} == {"max-age=31536000"}
    (site.tls / HSTS).unlink()
    assert sent("/apps") is None


def test_nginx_includes_no_file() -> None:
    """Its configuration is a part of the image. Another user could add a module or a log file, and root would use it."""
    assert re.findall(r"^\s*include\b.*", CONF.read_text(), re.MULTILINE) == []


def test_an_upload_streams_to_the_panel(site: SmallSite) -> None:
    """The panel gets the first half before the browser sends the second half. nginx writes nothing to a file meanwhile."""
    half = 1 << 20
    site.panel.received = 0
    connection = site.connect()
    connection.putrequest("POST", "/upload/bundle")
    connection.putheader("Content-Length", str(2 * half))
    connection.endheaders()
    connection.send(b"x" * half)
    deadline = time.monotonic() + 20
    while site.panel.received < half - 65536:
        assert time.monotonic() < deadline, site.panel.received
        time.sleep(0.02)
    assert not list((site.top / "client_body").rglob("*[0-9]"))
    connection.send(b"x" * half)
    assert connection.getresponse().status == 200
    assert site.panel.received == 2 * half


def test_only_an_upload_reaches_the_panel_before_its_end(site: SmallSite) -> None:
    """A request that reaches the panel occupies one of its threads. Also if its path is written in another way."""
    form = "application/x-www-form-urlencoded"
    site.panel.begun = 0
    slow = [
        site.slow_post(path, form)
        for path in ("/upload/", "/upload/x", "/upload/bundle/", "/upload", "/login", "/apps/player/weight",
                     "/recorder/download", "/system/support", "/healthz", "/api/v1/SetWeight")
    ]  # fmt: skip
    time.sleep(0.5)
    assert site.panel.begun == 0
    for path in ("/upload/bundle", "//upload/./bundle", "/x/../upload/%62undle"):
        connection = site.connect()
        connection.request("POST", path + "?q=1", body=b"12345")
        assert connection.getresponse().read() == b"/upload/bundle?q=1", path
    for one in slow:
        one.close()


def test_an_address_has_few_uploads_at_once(site: SmallSite) -> None:
    """Fewer than the panel has threads. Other requests of the address still get answers."""
    site.panel.begun = 0
    slow = [site.slow_post("/upload/bundle", "application/octet-stream") for _ in range(8)]
    time.sleep(0.5)
    assert 1 < site.panel.begun < gunicorn_conf.threads
    for one in slow[site.panel.begun :]:
        assert one.recv(100).split()[1] == b"429"
    assert site.get("/apps")[0] == 200
    for one in slow:
        one.close()


def test_an_address_has_a_limited_number_of_open_requests(site: SmallSite) -> None:
    """A client that sends slowly occupies connections of nginx. Other addresses still get answers."""
    limit = 128
    assert f"limit_conn evenkeel_open {limit};" in CONF.read_text()
    slow = [site.slow_post("/apps/player/weight", "application/x-www-form-urlencoded") for _ in range(limit)]
    try:
        for path in ("/apps", "/static/logo.svg", "/healthz"):
            assert site.get(path)[0] == 429, path
        connection = site.connect("127.0.0.2")
        connection.request("GET", "/apps")
        assert connection.getresponse().status == 200
    finally:
        for one in slow:
            one.close()
    deadline = time.monotonic() + 20
    while site.get("/apps")[0] != 200:
        assert time.monotonic() < deadline
        time.sleep(0.1)


def test_slow_senders_without_a_session_do_not_stop_the_panel(whole_site: Site) -> None:
    for path, kind in (
        ("/upload/x", "application/x-www-form-urlencoded"),
        ("/upload/bundle", "multipart/form-data; boundary=x"),
        ("/upload/bundle", "application/octet-stream"),
        ("//upload/bundle", "application/x-www-form-urlencoded"),
        ("/login", "application/x-www-form-urlencoded"),
    ):
        slow = [whole_site.slow_post(path, kind) for _ in range(2 * gunicorn_conf.threads)]
        time.sleep(0.5)
        began = time.monotonic()
        assert whole_site.get("/healthz")[0] == 200, (path, kind)
        assert time.monotonic() - began < 5, (path, kind)
        for one in slow:
            one.close()


def test_a_long_page_for_a_slow_browser_is_in_no_file(site: SmallSite) -> None:
    connection = site.connect()
    connection.connect()
    connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.request("GET", "/history")
    time.sleep(0.5)
    assert len(connection.getresponse().read()) == 400_000
    assert "buffered to a temporary file" not in (site.top / "stderr").read_text()


def test_a_large_form_is_refused(site: SmallSite) -> None:
    connection = site.connect()
    connection.request("POST", "/apps/player/weight", body=b"x" * 70_000)
    assert connection.getresponse().status == 413


def test_a_flood_is_limited_and_50_pages_are_not(site: SmallSite) -> None:
    def statuses(path: str, count: int) -> list[int]:
        connection = site.connect()
        found = []
        for _ in range(count):
            connection.request("GET", path)
            answer = connection.getresponse()
            answer.read()
            found.append(answer.status)
        return found

    # 50 pages that all poll in the same instant, for 3 s
    for _ in range(3):
        assert set(statuses("/apps/rows", 50)) == {200}
        time.sleep(1)
    assert 429 in statuses("/login", 60)
    assert 429 in statuses("/apps", 2000)
    time.sleep(0.5)  # then the limits let the requests of the next tests pass


def test_a_download_passes_at_once_and_if_cut_does_not_end_properly(site: SmallSite) -> None:
    connection = site.connect()
    connection.request("POST", "/recorder/download", body=b"")
    answer = connection.getresponse()
    assert answer.read(4) == b"part", "nginx has not waited for more"
    site.panel.cut.set()
    with pytest.raises((http.client.IncompleteRead, OSError)):
        answer.read()
    connection.close()


def plain(site: Site, port: int, path: str, **headers: str) -> tuple[int, str | None]:
    """Status and target of the answer to a request without TLS."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    connection.request("GET", path, headers={"Host": "board", **headers})
    answer = connection.getresponse()
    answer.read()
    connection.close()
    assert "nosniff" in (answer.headers["X-Content-Type-Options"] or "")
    assert "frame-ancestors 'none'" in (answer.headers["Content-Security-Policy"] or "")
    return answer.status, answer.headers["Location"]


def test_http_redirects_pages_and_refuses_programs(site: SmallSite) -> None:
    """On port 80, and for HTTP on the port of HTTPS. A program must notice that its token was sent without encryption."""
    for port in (site.plain_port, site.port):
        for path in ("/", "/apps", "/history.csv?app=x", "/healthz"):
            assert plain(site, port, path) == (308, f"https://board{path}"), port
        for path in ("/api/v1/ListApps", "/metrics", "/upload/bundle", "/apps.json"):
            assert plain(site, port, path) == (403, None), (port, path)
        assert plain(site, port, "/apps", Authorization="Bearer ek_x") == (403, None)


def test_answers_of_nginx_itself_have_the_headers(site: SmallSite) -> None:
    """A refusal, a static file, an unknown file, and what is shown while the panel does not answer. No header twice."""
    socket_file = site.top / "panel.sock"
    found = []
    connection = site.connect()
    connection.request("POST", "/apps/player/weight", body=b"x" * 70_000)
    found.append(connection.getresponse())
    for path in ("/static/logo.svg", "/static/nothing.css"):
        connection = site.connect()
        connection.request("GET", path)
        found.append(connection.getresponse())
    socket_file.rename(site.top / "away")
    try:
        for path in ("/apps", "/healthz", "/upload/x"):
            connection = site.connect()
            connection.request("GET", path)
            found.append(connection.getresponse())
            found[-1].read()
    finally:
        (site.top / "away").rename(socket_file)
    assert [answer.status for answer in found] == [413, 200, 404, 502, 503, 502]
    for answer in found:
        assert answer.headers.get_all("X-Content-Type-Options") == ["nosniff"], answer.status
        (policy,) = answer.headers.get_all("Content-Security-Policy") or [""]
        assert {"default-src 'none'", "base-uri 'none'", "frame-ancestors 'none'"} <= set(policy.split("; "))


def test_the_headers_of_the_panel_stay_as_they_are(site: SmallSite) -> None:
    connection = site.connect()
    connection.request("GET", "/with-headers")
    answer = connection.getresponse()
    assert answer.headers.get_all("X-Content-Type-Options") == ["nosniff"]
    assert answer.headers.get_all("Content-Security-Policy") == ["default-src 'self'"]


def test_static_files_name_type_and_character_set(site: SmallSite) -> None:
    for name, kind in (
        ("panel.css", "text/css"),
        ("theme.js", "text/javascript"),
        ("logo.svg", "image/svg+xml"),
        ("down.html", "text/html"),
    ):
        headers = site.get(f"/static/{name}")[1]
        assert headers is not None
        assert headers["Content-Type"] == f"{kind}; charset=utf-8"


def test_no_folder_is_listed_and_no_file_outside_is_served(site: SmallSite) -> None:
    for path in ("/static/", "/static/vendor/"):
        assert site.get(path)[0] in (403, 404), path
    for path in ("/static/../src/fetch-static", "/static/%2e%2e/fetch-static", "/static../fetch-static"):
        assert b"#!/bin/sh" not in site.get(path)[2], path


def test_trace_is_refused(site: SmallSite) -> None:
    for path in ("/", "/static/logo.svg", "/api/v1/ListApps"):
        connection = site.connect()
        connection.request("TRACE", path, headers={"X-Secret": "1"})
        answer = connection.getresponse()
        assert answer.status == 405
        assert b"X-Secret" not in answer.read()


def test_a_request_with_two_lengths_is_refused(site: SmallSite) -> None:
    """Otherwise nginx and the panel could see different ends of a request, and take the rest for a second one."""
    for lengths in (
        "Content-Length: 4\r\nTransfer-Encoding: chunked",
        "Content-Length: 4\r\nContent-Length: 5",
        "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
    ):
        connection = site.connect()
        connection.connect()
        head = f"POST /apps/player/weight HTTP/1.1\r\nHost: board\r\n{lengths}\r\n\r\n"
        connection.sock.sendall(head.encode() + b"0\r\n\r\n")
        assert connection.sock.recv(100).split()[1] in (b"400", b"501"), lengths


def test_only_modern_tls(site: SmallSite) -> None:
    def shake(**changes: object) -> tuple[str, str] | None:
        context = ssl.create_default_context(cafile=str(site.tls / "cert.pem"))
        context.check_hostname = False
        ciphers = changes.pop("ciphers", None)
        if isinstance(ciphers, str):
            context.set_ciphers(ciphers)
        for name, value in changes.items():
            setattr(context, name, value)
        try:
            with (
                socket.create_connection(("127.0.0.1", site.port), timeout=20) as raw,
                context.wrap_socket(raw, server_hostname="localhost") as connection,
            ):
                cipher = connection.cipher()
                assert cipher
                return str(connection.version()), str(cipher[0])
        except OSError:
            return None

    found = shake()
    assert found
    assert found[0] == "TLSv1.3"
    tls12 = ssl.TLSVersion.TLSv1_2
    for cipher in (
        "ECDHE-ECDSA-AES128-GCM-SHA256",
        "ECDHE-ECDSA-AES256-GCM-SHA384",
        "ECDHE-ECDSA-CHACHA20-POLY1305",
    ):
        assert shake(maximum_version=tls12, ciphers=cipher) == ("TLSv1.2", cipher)
    # no forward secrecy, no authenticated encryption, and an older protocol
    for cipher in ("AES128-GCM-SHA256", "ECDHE-ECDSA-AES128-SHA", "ECDHE-ECDSA-AES256-SHA384"):
        assert shake(maximum_version=tls12, ciphers=f"{cipher}:@SECLEVEL=0") is None, cipher
    with pytest.warns(DeprecationWarning, match="TLSv1"):
        old = shake(
            minimum_version=ssl.TLSVersion.TLSv1,
            maximum_version=ssl.TLSVersion.TLSv1_1,
            ciphers="ALL:@SECLEVEL=0",
        )
    assert old is None


def test_a_flood_is_logged(site: SmallSite) -> None:
    """On a board, the error log goes to the journal."""
    connection = site.connect()
    for _ in range(60):
        connection.request("GET", "/login")
        connection.getresponse().read()
    assert "error_log stderr warn;" in CONF.read_text()
    assert "limiting requests" in (site.top / "stderr").read_text()


@pytest.mark.parametrize("curve", ["P-256", "2048"])
def test_nginx_takes_a_new_certificate_or_keeps_the_old_one(
    site: Site, tmp_path: Path, curve: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The helper of the agent with the real nginx. With an RSA key, also TLS 1.2 works."""
    helper = Helper(site.tls, site.reload, lambda: served(site.port), served_s=3)

    def order(name: str, **more: object) -> dict[str, object]:
        found: dict[str, object] = json.loads(helper.answer(json.dumps({"order": name, **more}).encode()))
        return found

    def version(most: ssl.TLSVersion) -> str | None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.maximum_version = most
        with (
            socket.create_connection(("127.0.0.1", site.port), timeout=20) as raw,
            context.wrap_socket(raw) as connection,
        ):
            return connection.version()

    before = served(site.port)
    chain, key = Authority(tmp_path / "authority").board(curve=curve)
    assert order("install", pem=chain + key, force=False)["hsts"] is True
    assert served(site.port) == digest(chain) != before
    assert version(ssl.TLSVersion.TLSv1_2) == "TLSv1.2"
    assert version(ssl.TLSVersion.TLSv1_3) == "TLSv1.3"

    # nginx is not told, so it still serves the old one
    monkeypatch.setattr(helper, "_reload", lambda: None)
    answer = order("make", force=True)
    assert (answer["error"], answer["parameters"]) == (
        "certificate-not-served",
        {"reason": "nginx still serves the old one"},
    )
    site.reload()
    assert served(site.port) == digest(chain)
    monkeypatch.setattr(helper, "_reload", site.reload)
    assert order("make", force=True)["own"] is True
    assert served(site.port) != digest(chain)


def test_an_app_has_its_pages_under_a_name_of_its_own(tmp_path: Path) -> None:
    """The file of the how-to beside that of the panel. Under every other name, the panel answers."""
    text = (COMPONENT.parent / "docs/howto/show-the-pages-of-an-app.md").read_text()
    server = text.partition("```nginx\n")[2].partition("```")[0]
    server = server.replace("listen [::]:443 ssl;", "").replace(
        "listen 443 ssl;", "listen 127.0.0.1:PORT ssl;"
    )
    server = re.sub(r"(ssl_certificate) \S+;", r"\1 CERTIFICATE;", server)
    server = re.sub(r"(ssl_certificate_key) \S+;", r"\1 KEY;", server)
    app = HTTPServer(("127.0.0.1", 0), AppHandler)
    threading.Thread(target=app.serve_forever, daemon=True).start()
    site = SmallSite(tmp_path, server.replace("127.0.0.1:8080", f"127.0.0.1:{app.server_port}"))
    try:
        found = {}
        for name in ("player.example.net", "board.example.net", "evenkeel-1a2b3c.local", "127.0.0.1"):
            connection = site.connect()
            connection.request("GET", "/", headers={"Host": name})
            found[name] = b"of the app" in connection.getresponse().read()
        assert found == {name: name == "player.example.net" for name in found}
    finally:
        site.close()
        app.shutdown()


class AppHandler(BaseHTTPRequestHandler):
    """The pages of an app."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"a page of the app")

    def log_message(self, format: str, *args: object) -> None:
        pass
