# SPDX-License-Identifier: Apache-2.0
"""The certificate of the panel."""

from typing import Annotated

from msgspec import Meta

from ..errors import Conflict, InvalidArgument
from ..method import ANY, Method
from ..roles import ADMIN, VIEWER
from ..schema import Struct
from .accounts import Time
from .board import READ

CERTIFICATE = "org.evenkeel.agent.set-certificate"
ACTIONS = {CERTIFICATE: "Replace the certificate of the panel"}
SOON_DAYS = 30  # so many days before its end, somebody must renew a certificate
MAX_PEM = 40_000  # characters: less than a form of the panel may have

Force = Annotated[
    bool,
    Meta(
        description="also replace a certificate of an authority by a self-signed one. Browsers that have seen the former"
        " refuse the latter for up to a year"
    ),
]


class Certificate(Struct, frozen=True):
    """The certificate that the panel uses."""

    subject: Annotated[str, Meta(description="for whom it was made, such as `CN=evenkeel`")]
    issuer: Annotated[str, Meta(description="who has signed it")]
    own: Annotated[bool, Meta(description="whether it is self-signed, as the board makes it")]
    names: Annotated[list[str], Meta(description="host names and addresses for which it is valid")]
    not_before: Annotated[Time, Meta(description="from when it is valid")]
    not_after: Annotated[Time, Meta(description="until when it is valid")]
    fingerprint: Annotated[
        str,
        Meta(description="SHA-256 as browsers show it: pairs of hexadecimal digits with `:` between them"),
    ]
    hsts: Annotated[
        bool,
        Meta(description="whether the panel tells browsers to use HTTPS only (Strict-Transport-Security)"),
    ]


class InstallCertificate(Struct, frozen=True):
    pem: Annotated[
        str,
        Meta(
            max_length=MAX_PEM,
            description="the certificate of the board, then the intermediate certificates, each signed"
            " by the next one; and the private key, without a password. All as PEM",
        ),
    ]
    force: Force


class MakeCertificate(Struct, frozen=True):
    force: Force


METHODS = (
    Method(
        "GetCertificate",
        READ,
        VIEWER,
        "Returns the [certificate](#certificate) of the panel.",
        answer=Certificate,
        answer_name="certificate",
    ),
    Method(
        "InstallCertificate",
        CERTIFICATE,
        ADMIN,
        "Installs a certificate and its key. The old one stays in use unless the web server serves the new one.",
        InstallCertificate,
        Certificate,
        "certificate",
        (InvalidArgument, Conflict, *ANY),
        changes=True,
        secret=("pem",),
    ),
    Method(
        "MakeCertificate",
        CERTIFICATE,
        ADMIN,
        "Makes a new key and a new self-signed certificate with the present name of the board, and installs them.",
        MakeCertificate,
        Certificate,
        "certificate",
        (Conflict, *ANY),
        changes=True,
    ),
)
