# SPDX-License-Identifier: Apache-2.0
"""Routes of the certificate of the panel. The agent's helper checks a file, and takes it only if nginx serves it."""

from __future__ import annotations

from typing import Any

from evenkeel_api.features.certificate import MAX_PEM, Certificate
from flask import request

from .. import texts
from ..agent import AgentError
from ..context import call
from ..times import day
from .views import blueprint, page_with, refused

FILES = ("certificate", "key")  # fields of the form; both may be in one file


@blueprint.twin("/system/certificate.json", Certificate, "GetCertificate")
def certificate_json() -> Certificate:
    """The certificate of the panel."""
    found: Certificate = call("GetCertificate")
    return found


@blueprint.post("/system/certificate")
def install_certificate() -> tuple[str, int]:
    texts_of_files = []
    for name in FILES:
        sent = request.files.get(name)
        texts_of_files.append(sent.stream.read(MAX_PEM + 1).decode("utf-8", "replace") if sent else "")
    pem = "\n".join(text for text in texts_of_files if text.strip())
    if not pem:
        return _bad("certificate-missing")
    if len(pem) > MAX_PEM:
        return _bad("certificate-long", most=MAX_PEM)
    return _change("InstallCertificate", pem, _forced())


@blueprint.post("/system/certificate/new")
def make_certificate() -> tuple[str, int]:
    return _change("MakeCertificate", _forced())


def _forced() -> bool:
    return request.form.get("force") == "yes"


def _bad(code: str, **parameters: Any) -> tuple[str, int]:
    return page_with(422, message=texts.text(code, **parameters), kind="bad", field="certificate")


def _change(method: str, *values: Any) -> tuple[str, int]:
    try:
        made: Certificate = call(method, *values)
    except AgentError as error:
        return refused(error, field="certificate", remembered=error.note.code == "certificate-remembered")
    until = day(made.not_after)
    code = "certificate-made" if made.own else "certificate-installed"
    return page_with(message=texts.text(code, date=until, fingerprint=made.fingerprint), kind="ok")
