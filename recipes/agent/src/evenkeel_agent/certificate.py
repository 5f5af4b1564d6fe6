# SPDX-License-Identifier: Apache-2.0
"""Serves the feature `certificate`. The agent may not read the files of the panel: ek-certificate does, and replaces them.

Pages ask for the certificate often, and it changes only by an order. So the agent asks ek-certificate once.
"""

import asyncio
from typing import Any

import msgspec
from evenkeel_api import errors
from evenkeel_api.features.certificate import Certificate, InstallCertificate, MakeCertificate
from evenkeel_api.method import Nothing

from . import helper
from .caller import Caller
from .settings import Settings

HELPER_UNIT = "evenkeel-certificate"
# ek-certificate needs up to 34 s for an order (LONGEST_S), and some s for its start and its checks. The panel waits 50 s.
ORDER_S = 42.0


class Certificates:
    """The handlers of the feature `certificate`."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._known: Certificate | None = None
        self._asking = asyncio.Lock()

    async def get_certificate(self, _: Nothing, __: Caller) -> Certificate:
        async with self._asking:
            if self._known is None:
                self._known = await self._order({"order": "state"}, self._settings.call_timeout_s)
            return self._known

    async def install_certificate(self, request: InstallCertificate, _: Caller) -> Certificate:
        """Replace the certificate. On an AgentError other than `certificate-unanswered` nothing has changed."""
        return await self._change({"order": "install", "pem": request.pem, "force": request.force})

    async def make_certificate(self, request: MakeCertificate, _: Caller) -> Certificate:
        """Replace the certificate by a self-signed one. Errors are those of install_certificate()."""
        return await self._change({"order": "make", "force": request.force})

    async def _change(self, order: dict[str, Any]) -> Certificate:
        async with self._asking:
            self._known = None  # without an answer, the order may have been executed
            self._known = await self._order(order, ORDER_S, "certificate-unanswered")
            return self._known

    async def _order(self, order: dict[str, Any], timeout_s: float, unanswered: str = "") -> Certificate:
        path = self._settings.certificate_socket
        found = await helper.order(path, order, timeout_s, "certificate-unreachable", HELPER_UNIT, unanswered)
        try:
            return msgspec.convert(found, Certificate)
        except msgspec.ValidationError as error:
            raise errors.Failed("certificate-failed", reason=str(error)) from error
