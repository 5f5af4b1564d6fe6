# SPDX-License-Identifier: Apache-2.0
"""ek-alert: sends one alert to a webhook and by mail, for the agent, which has no network.

A socket unit starts one process per connection, with a user of its own and without privileges. The order on standard
input is a JSON object. The answer is a JSON object as well: by receiver, the reason why it was not reached, or "".
The process stores nothing, and gets no secret but those of this order.
"""

import http.client
import json
import os
import smtplib
import socket
import ssl
import sys
import urllib.error
import urllib.request
from email.message import EmailMessage
from typing import Any

LIMIT = 2 << 20  # bytes of an order: more than the agent can send, see alerts.MAX_LENGTH
TIMEOUT_S = 15.0  # of each connection


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect is an error: it would send the alert to a host that no administrator has named."""

    def redirect_request(self, *_: Any) -> None:
        return None


def post(url: str, document: object) -> None:
    """Send DOCUMENT as JSON. Raises OSError, ValueError or HTTPException."""
    body = json.dumps(document).encode()
    request = urllib.request.Request(  # noqa: S310  (the agent allows http and https only)
        url, body, {"Content-Type": "application/json", "User-Agent": "evenkeel"}
    )
    context = ssl.create_default_context()
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.HTTPHandler(),
        urllib.request.HTTPSHandler(context=context),
        urllib.request.HTTPDefaultErrorHandler(),
        urllib.request.HTTPErrorProcessor(),
        _NoRedirect(),
    ):
        opener.add_handler(handler)
    opener.open(request, timeout=TIMEOUT_S).close()


def mail(order: dict[str, Any], subject: str, text: str) -> None:
    """Send a mail. Raises OSError (smtplib.SMTPException is one) or ValueError."""
    message = EmailMessage()
    message["Subject"], message["To"] = subject, order["to"]
    message["From"] = order["from"] or order["to"]
    message.set_content(text)
    host, port, context = order["server"], order["port"], ssl.create_default_context()
    if order["security"] == "tls":
        server: smtplib.SMTP = smtplib.SMTP_SSL(host, port, timeout=TIMEOUT_S, context=context)
    else:
        server = smtplib.SMTP(host, port, timeout=TIMEOUT_S)
    with server:
        if order["security"] == "starttls":
            server.starttls(context=context)
        if order["user"]:
            server.login(order["user"], order["password"])
        server.send_message(message)


def why(error: Exception) -> str:
    """The reason of ERROR, as one line. Texts of the libraries may have a part of the URL or of the password."""
    if isinstance(error, http.client.InvalidURL):
        return "the URL is not valid"
    if isinstance(error, UnicodeEncodeError) and error.encoding == "ascii":
        return "user and password must be ASCII"
    if isinstance(error, UnicodeError):
        return "the host name is not valid"
    if isinstance(error, urllib.error.HTTPError):
        return f"the server answered {error.code} {error.reason}"
    if isinstance(error, urllib.error.URLError):
        return str(getattr(error.reason, "strerror", None) or error.reason)
    if isinstance(error, smtplib.SMTPResponseException):
        text = error.smtp_error
        shown = text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text)
        return " ".join(f"the server answered {error.smtp_code} {shown}".split())
    if isinstance(error, TimeoutError):
        return "the server did not answer in time"
    return " ".join(str(getattr(error, "strerror", None) or error).split()) or type(error).__name__


def deliver(order: dict[str, Any]) -> dict[str, str]:
    """Send ORDER to each of its receivers. One that fails does not stop the others."""
    result = {}
    if url := order.get("webhook"):
        result["webhook"] = _attempt(lambda: post(url, order["document"]))
    if to := order.get("mail"):
        result["mail"] = _attempt(lambda: mail(to, order["subject"], order["text"]))
    return result


def _attempt(work: Any) -> str:
    try:
        work()
    except (OSError, ValueError, http.client.HTTPException) as error:
        return why(error)[:300]
    return ""


def main() -> int:
    with socket.socket(fileno=os.dup(0)) as connection:
        connection.settimeout(TIMEOUT_S)
        content = b""
        while len(content) <= LIMIT and (chunk := connection.recv(65536)):
            content += chunk
        try:
            order = json.loads(content)
        except ValueError:
            print("ek-alert: the order is not JSON", file=sys.stderr)
            return 1
        connection.sendall(json.dumps(deliver(order)).encode())
    return 0


if __name__ == "__main__":
    sys.exit(main())
