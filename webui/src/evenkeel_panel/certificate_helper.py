# SPDX-License-Identifier: Apache-2.0
"""ek-certificate: shows and replaces the certificate of the panel for the agent.

evenkeel-certificate.socket starts it, and only the agent may connect. Each connection has one request and one answer, as
JSON. The process ends when no request came for IDLE_S. It runs as a user of its own, who owns the files. A polkit rule
allows this user one operation of systemd: to reload nginx.

Guarantees:

- A new certificate is in use only if nginx serves it. Otherwise, the old pair comes back. So no certificate that nginx
  refuses locks the users out.
- Before key and certificate are replaced, the old pair is on the medium, in one file (firstboot.BEFORE). If the process is
  killed or the board loses power, the next process or the next boot puts the old pair back.
- An order whose sender does not wait any more changes nothing.
- Browsers get HSTS only with a certificate that stays.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import select
import socket
import ssl
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenkeel_common.command import run

from . import firstboot

if TYPE_CHECKING:
    from collections.abc import Callable

TLS = Path("/var/lib/evenkeel/tls")
RELOAD = ("systemctl", "--no-ask-password", "reload", "nginx.service")
RELOAD_S = 8.0  # time limit for RELOAD
SERVED_S = 6.0  # time in which nginx must serve the new certificate
CONNECT_S = 2.0  # time limit for each step of a connection to nginx
POLL_S = 0.2
# The longest time of an order, without its checks: the start of the process undoes an earlier change, RELOAD fails to show
# the new certificate, and a second RELOAD brings back the old one. The agent must wait longer (ORDER_S).
LONGEST_S = 3 * RELOAD_S + SERVED_S + 2 * CONNECT_S
IDLE_S = 20.0
REQUEST_S = 5.0  # time that the agent may take to send its request
PACKET = 64 * 1024
MAX_CERTIFICATES = 8
_BLOCK = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----.*?-----END \1-----", re.DOTALL)


class Refused(Exception):
    """The order was refused, and nothing has changed: the code and the parameters of a message, and the kind of error."""

    def __init__(self, code: str, kind: str = "InvalidArgument", **parameters: Any) -> None:
        super().__init__(code)
        self.code, self.kind, self.parameters = code, kind, parameters


def reload() -> None:
    """Make nginx read the files. Raises OSError."""
    run(RELOAD, RELOAD_S)


def served(port: int = 443) -> str:
    """The SHA-256 digest of the certificate that nginx serves. Raises OSError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    # The certificate is compared with the file. Whether an authority has signed it does not matter here.
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with (
        socket.create_connection(("127.0.0.1", port), timeout=CONNECT_S) as raw,
        context.wrap_socket(raw) as connection,
    ):
        return hashlib.sha256(connection.getpeercert(binary_form=True) or b"").hexdigest()


def parts(pem: str, now_s: float) -> tuple[bytes, bytes]:
    """The key and the chain in the text PEM, the certificate of the board first. Raises Refused if they cannot be used."""
    blocks = [(match[1], match[0] + "\n") for match in _BLOCK.finditer(pem.replace("\r\n", "\n"))]
    keys = [text for kind, text in blocks if kind.endswith("PRIVATE KEY")]
    chain = [text for kind, text in blocks if kind == "CERTIFICATE"]
    if len(keys) != 1:
        raise Refused("certificate-keys", count=len(keys))
    if "ENCRYPTED" in keys[0]:
        raise Refused("certificate-key-encrypted")
    if not 1 <= len(chain) <= MAX_CERTIFICATES:
        raise Refused("certificate-count", count=len(chain), most=MAX_CERTIFICATES)
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / f"{number}.pem" for number in range(len(chain))]
        for path, text in zip(files, chain, strict=True):
            path.write_text(text)
        key = Path(folder) / "key.pem"
        key.write_text(keys[0])
        _check_pair(files[0], key)
        _check_use(files[0], key)
        for number, path in enumerate(files, 1):
            found = described(path)
            if found["not_after"] <= now_s:
                raise Refused("certificate-expired", number=number, date=_date(found["not_after"]))
            if found["not_before"] > now_s:
                date = _time(found["not_before"])
                raise Refused("certificate-early", number=number, date=date, now=_time(now_s))
        for number in range(len(files) - 1):
            verify = ("verify", "-partial_chain", "-no_check_time", "-trusted", str(files[number + 1]))
            try:
                firstboot.openssl(*verify, str(files[number]))
            except subprocess.CalledProcessError:
                raise Refused("certificate-chain", number=number + 1, next=number + 2) from None
    return keys[0].encode(), "".join(chain).encode()


def _check_pair(cert: Path, key: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.set_ciphers("DEFAULT:@SECLEVEL=2")  # refuses short keys and SHA-1, as browsers do
        context.load_cert_chain(cert, key, password=lambda: b"")
    except ssl.SSLError as error:
        codes = {"KEY_VALUES_MISMATCH": "certificate-key-other", "KEY_TYPE_MISMATCH": "certificate-key-other"}
        if code := codes.get(error.reason or ""):
            raise Refused(code) from None
        weak = "TOO_SMALL" in (error.reason or "") or "TOO_WEAK" in (error.reason or "")
        raise Refused("certificate-weak" if weak else "certificate-unreadable") from None


def _check_use(cert: Path, key: Path) -> None:
    """Check what only browsers refuse: kinds of keys that they do not know, and a certificate that is not for servers."""
    text = firstboot.openssl("pkey", "-in", str(key), "-noout", "-text_pub").decode("ascii", "replace")
    rsa = "Modulus:" in text and "PSS" not in text
    if not rsa and not re.search(r"^ASN1 OID: (prime256v1|secp384r1)$", text, re.MULTILINE):
        raise Refused("certificate-key-kind")
    purposes = firstboot.openssl("x509", "-in", str(cert), "-noout", "-purpose").decode("ascii", "replace")
    if not re.search(r"^SSL server : Yes", purposes, re.MULTILINE):
        raise Refused("certificate-purpose")


def _date(seconds: float) -> str:
    return time.strftime("%Y-%m-%d", time.gmtime(seconds))


def _time(seconds: float) -> str:
    """Both times may be of the same day: a certificate was made some minutes ago, and the board's clock is slow."""
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(seconds))


def described(cert: Path) -> dict[str, Any]:
    """What the certificate in the file CERT says. Raises CalledProcessError or ValueError if it cannot be read."""
    options = ("-noout", "-nameopt", "RFC2253,-esc_msb,utf8", "-subject", "-issuer", "-dates")
    text = firstboot.openssl("x509", "-in", str(cert), *options).decode("utf-8", "replace")
    found = dict(line.partition("=")[::2] for line in text.splitlines())
    names = firstboot.openssl("x509", "-in", str(cert), "-noout", "-ext", "subjectAltName").decode(
        "utf-8", "replace"
    )
    subject, issuer = found["subject"].strip(), found["issuer"].strip()
    return {
        "subject": subject,
        "issuer": issuer,
        "own": subject == issuer,
        "names": re.findall(r"(?:DNS|IP Address):([^,\s]+)", names),
        "not_before": int(ssl.cert_time_to_seconds(found["notBefore"])),
        "not_after": int(ssl.cert_time_to_seconds(found["notAfter"])),
        "fingerprint": firstboot.fingerprint(cert),
    }


class Helper:
    """Keeps the files in the folder TLS. The constructor puts the old pair back, if a change was not completed."""

    def __init__(
        self,
        tls: Path = TLS,
        reload: Callable[[], None] = reload,
        served: Callable[[], str] = served,
        served_s: float = SERVED_S,
    ) -> None:
        self._tls, self._reload, self._served, self._served_s = tls, reload, served, served_s
        if firstboot.undo(tls):
            with contextlib.suppress(OSError):
                reload()
        self._set_hsts()

    def answer(self, packet: bytes, waited: Callable[[], bool] = lambda: True) -> bytes:
        """The answer to the request PACKET. It never fails. WAITED: whether the sender still waits for the answer."""
        try:
            request = json.loads(packet)
            self._order(request, waited)
            found = {**described(self._tls / "cert.pem"), "hsts": self._hsts()}
        except Refused as error:
            found = {"error": error.code, "parameters": error.parameters, "kind": error.kind}
        except (
            OSError,
            subprocess.SubprocessError,
            ValueError,
            LookupError,
            TypeError,
            AttributeError,
        ) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            found = {"error": "certificate-failed", "parameters": {"reason": reason}, "kind": "Failed"}
        return json.dumps(found).encode()

    def _hsts(self) -> bool:
        return (self._tls / firstboot.HSTS).exists()

    def _set_hsts(self) -> None:
        """Set HSTS for the present certificate, which is final. On a full disk, the next process or boot does it."""
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            firstboot.set_hsts(self._tls)

    def _order(self, request: Any, waited: Callable[[], bool]) -> None:
        order = request["order"]
        if order == "state":
            return
        if order == "install":
            key, chain = parts(request["pem"], time.time())
        elif order == "make":
            key, chain = firstboot.new_pair()
        else:
            raise ValueError(f"unknown order {order!r:.40}")
        with tempfile.NamedTemporaryFile() as file:
            file.write(chain)
            file.flush()
            own = described(Path(file.name))["own"]
        if own and self._hsts() and request["force"] is not True:
            raise Refused("certificate-remembered", "Conflict")
        # An agent that has given up has reported that the order failed.
        if not waited():
            raise Refused("certificate-failed", "Failed", reason="the agent did not wait for the answer")
        self._use(key, chain)

    def _use(self, key: bytes, chain: bytes) -> None:
        """Replace the pair, if nginx serves the new one. Raises Refused; then the old pair is in use."""
        firstboot.undo(self._tls)  # an earlier pair that could not be put back must not be lost
        firstboot.keep(self._tls)
        try:
            firstboot.put(self._tls, key, chain)
            self._reload()
            self._wait(chain)
        except (OSError, subprocess.SubprocessError) as error:
            firstboot.undo(self._tls)
            with contextlib.suppress(OSError):
                self._reload()
            raise Refused("certificate-not-served", "Failed", reason=str(error)) from error
        firstboot.done(self._tls)
        self._set_hsts()

    def _wait(self, chain: bytes) -> None:
        """Wait until nginx serves the first certificate of CHAIN. Raises OSError."""
        wanted = firstboot.digest(chain.decode("ascii", "replace"))
        end = time.monotonic() + self._served_s
        reason = "nginx still serves the old one"
        while True:
            try:
                if self._served() == wanted:
                    return
            except OSError as error:
                reason = str(error)
            if time.monotonic() > end:
                raise OSError(reason)
            time.sleep(POLL_S)


def serve(listener: socket.socket, helper: Helper, idle_s: float = IDLE_S) -> None:
    """Serve requests until none came for IDLE_S."""
    while select.select([listener], [], [], idle_s)[0]:
        connection, _ = listener.accept()
        with connection, contextlib.suppress(OSError):  # the agent may close the connection
            _answer(connection, helper)


def _answer(connection: socket.socket, helper: Helper) -> None:
    connection.settimeout(REQUEST_S)
    packet = connection.recv(PACKET)
    connection.sendall(helper.answer(packet, lambda: not _closed(connection)))


def _closed(connection: socket.socket) -> bool:
    """Whether the other side has closed the connection. The agent sends one packet only."""
    poll = select.poll()
    poll.register(connection, select.POLLIN)
    return bool(poll.poll(0))


def main() -> int:
    with socket.socket(fileno=3) as listener:
        try:
            helper = Helper()
        except OSError as error:  # systemd starts the process again
            print(f"ek-certificate: the old certificate cannot be put back: {error}", file=sys.stderr)
            return 1
        serve(listener, helper)
    return 0


if __name__ == "__main__":
    sys.exit(main())
