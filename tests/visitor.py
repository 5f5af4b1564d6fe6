# SPDX-License-Identifier: Apache-2.0
"""An HTTP client for the panel of a board in QEMU."""

import http.cookiejar
import json
import re
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

PASSWORD = "sailing on an even keel"  # noqa: S105  (of a board in QEMU)
TOKEN = re.compile(r'name="csrf_token" value="([^"]+)"')


class Visitor:
    """Stands for a browser without JavaScript. PORT: the port of this machine that leads to the board's HTTPS port."""

    def __init__(self, port: int) -> None:
        self._base = f"https://127.0.0.1:{port}"
        context = ssl.create_default_context()
        # the board made its own certificate
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        self._jar = http.cookiejar.CookieJar()
        self._opener = urllib.request.build_opener(
            urllib.request.HTTPSHandler(context=context), urllib.request.HTTPCookieProcessor(self._jar)
        )

    @property
    def cookies(self) -> str:
        """The cookies, as the value of the header Cookie."""
        return "; ".join(f"{cookie.name}={cookie.value}" for cookie in self._jar)

    def get(self, path: str) -> str:
        """The page. A busy board may be too slow for the panel, which then answers 503: try again for five minutes."""
        end = time.monotonic() + 300
        while True:
            try:
                with self._opener.open(self._base + path, timeout=180) as answer:
                    return str(answer.read().decode())
            except urllib.error.HTTPError as error:
                if error.code != 503 or time.monotonic() > end:
                    raise
            time.sleep(1)

    def _token(self, path: str) -> str:
        found = TOKEN.search(self.get(path))
        assert found, f"{path} has no form"
        return found[1]

    def post(self, path: str, page: str = "", **fields: str) -> str:
        """Send FIELDS to PATH, with the token of PAGE (default: PATH). Returns the page, also if it reports an error."""
        data = urllib.parse.urlencode({"csrf_token": self._token(page or path), **fields}).encode()
        try:
            with self._opener.open(self._base + path, data, timeout=180) as answer:
                return str(answer.read().decode())
        except urllib.error.HTTPError as error:
            return error.read().decode()

    def download(self, path: str, page: str, **fields: str) -> bytes:
        """Send FIELDS to PATH, with the token of PAGE. Returns the file. Raises OSError if it is refused or cut."""
        data = urllib.parse.urlencode({"csrf_token": self._token(page), **fields}).encode()
        with self._opener.open(self._base + path, data, timeout=300) as answer:
            assert answer.headers["Content-Disposition"].startswith("attachment")
            return bytes(answer.read())

    def upload(self, path: str, page: str, file: Path) -> dict[str, Any]:
        """Send FILE as the body. Returns the answer, and `status`."""
        with file.open("rb") as body:
            headers = {
                "X-CSRFToken": self._token(page),
                "Content-Type": "application/octet-stream",
                "Content-Length": str(file.stat().st_size),
            }
            request = urllib.request.Request(self._base + path, body, headers)  # noqa: S310  (always https)
            try:
                with self._opener.open(request, timeout=600) as answer:
                    return {"status": 200, **json.loads(answer.read())}
            except urllib.error.HTTPError as error:
                return {"status": error.code, **json.loads(error.read())}

    def log_in(self, password: str = PASSWORD, user: str = "admin") -> None:
        self.post("/login", username=user, password=password)

    def first_log_in(self, first: str) -> None:
        """Log in with the first-boot password, and change it to PASSWORD."""
        self.log_in(first)
        self.post("/password", current=first, new=PASSWORD, confirm=PASSWORD)
