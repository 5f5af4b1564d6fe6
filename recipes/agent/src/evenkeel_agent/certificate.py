# SPDX-License-Identifier: Apache-2.0
"""Serves the feature `certificate`. The agent may not read the files of the panel: ek-certificate does, and replaces them.

Pages ask for the certificate often, and it changes by an order. So the agent keeps the answer. It asks again each CHECK_S,
because somebody may replace the files by hand.
"""

import asyncio
import contextlib
import os
import time
from typing import Any

import msgspec
from evenkeel_api import errors
from evenkeel_api.features.certificate import SOON_DAYS, Certificate, InstallCertificate, MakeCertificate
from evenkeel_api.messages import Message
from evenkeel_api.method import Nothing

from . import helper
from .caller import Caller
from .settings import Settings

HELPER_UNIT = "evenkeel-certificate"
# ek-certificate needs up to 34 s for an order (LONGEST_S), and some s for its start and its checks. The panel waits 50 s.
ORDER_S = 42.0
CHECK_S = 3600.0
DAY_S = 86400


def problem(found: Certificate, now_s: float) -> Message | None:
    """What is wrong with the dates of the certificate FOUND at NOW_S, seconds since 1970; None: nothing for SOON_DAYS."""
    renew = Message("certificate-renew-own" if found.own else "certificate-renew-signed")
    if now_s < found.not_before:
        return Message(
            "panel-certificate-early", date=_time(found.not_before), now=_time(now_s), remedy=renew
        )
    if now_s > found.not_after:
        return Message(
            "panel-certificate-expired", date=_date(found.not_after), now=_date(now_s), remedy=renew
        )
    if found.not_after - now_s < SOON_DAYS * DAY_S:
        return Message("panel-certificate-expiring", date=_date(found.not_after), remedy=renew)
    return None


def _date(seconds: float) -> str:
    return time.strftime("%Y-%m-%d", time.gmtime(seconds))


def _time(seconds: float) -> str:
    """Both times may be of the same day: a certificate was made some minutes ago, and the board's clock is slow."""
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(seconds))


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

    async def signed(self) -> Certificate | None:
        """The present certificate, if an authority has signed it; None also on a board without a panel. Raises AgentError."""
        if not await asyncio.to_thread(os.path.exists, self._settings.certificate_socket):
            return None
        async with self._asking:
            self._known = await self._order({"order": "state"}, self._settings.call_timeout_s)
            return None if self._known.own else self._known

    async def watch(self) -> None:
        """Ask for the certificate for as long as the agent runs. At a boot, everything else comes first."""
        pause_s = self._settings.first_update_check_s
        while True:
            await asyncio.sleep(pause_s)
            with contextlib.suppress(errors.AgentError):  # the page System has the reason
                async with self._asking:
                    self._known = await self._order({"order": "state"}, self._settings.call_timeout_s)
            pause_s = CHECK_S

    @property
    def problems(self) -> list[Message]:
        """What is wrong with the dates of the certificate, as far as it is known."""
        found = self._known and problem(self._known, time.time())
        return [found] if found else []

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
