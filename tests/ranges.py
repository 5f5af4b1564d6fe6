# SPDX-License-Identifier: Apache-2.0
"""An HTTP server for update bundles, which a board reads in parts."""

import http.server
from pathlib import Path


class Server(http.server.SimpleHTTPRequestHandler):
    """Serves ranges of files, as RAUC's streaming needs, and counts the bytes."""

    sent = 0
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        path = Path(self.translate_path(self.path))
        if not path.is_file():
            self.send_error(404)
            return
        size = path.stat().st_size
        first, last = 0, size - 1
        wanted = self.headers.get("Range", "")
        if wanted.startswith("bytes="):
            begin, _, end = wanted.removeprefix("bytes=").partition("-")
            first, last = int(begin), min(int(end or size - 1), size - 1)
        self.send_response(206 if wanted else 200)
        self.send_header("Accept-Ranges", "bytes")
        self.send_header("Content-Length", str(last - first + 1))
        if wanted:
            self.send_header("Content-Range", f"bytes {first}-{last}/{size}")
        self.end_headers()
        with path.open("rb") as file:
            file.seek(first)
            self.wfile.write(file.read(last - first + 1))
        Server.sent += last - first + 1
