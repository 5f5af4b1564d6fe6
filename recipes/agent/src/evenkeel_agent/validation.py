# SPDX-License-Identifier: Apache-2.0
"""Serves the feature `validation`. The agent may not measure a device: ek-validation starts ek-validate, which does.

The agent keeps no state of a validation, so a validation and its progress survive a restart of the agent.
"""

import time
from typing import Any, TypeVar

import msgspec
from evenkeel_api import errors
from evenkeel_api.features.validation import (
    OneValidation,
    TwoValidations,
    Validation,
    ValidationComparison,
    ValidationFile,
    ValidationOrder,
    ValidationPlan,
    ValidationReport,
    ValidationRow,
)
from evenkeel_api.method import Nothing

from . import helper
from .caller import Caller
from .settings import Settings

HELPER_UNIT = "evenkeel-validate"
# A validation keeps the flash and the processors busy, and ek-validation starts when it is asked. It waits up to 4 s for a
# validation to begin. The panel and ekctl wait for longer.
ANSWER_S = 25.0
# the same for the state, if an order had no answer
STATE_S = 15.0
UNANSWERED = "validation-unanswered"
# ran_s is rounded, and up to half a second old
CLOCK_S = 1.0
T = TypeVar("T")


class Validations:
    """The handlers of the feature `validation`."""

    def __init__(self, settings: Settings, answer_s: float = ANSWER_S, state_s: float = STATE_S) -> None:
        self._path = settings.validate_socket
        self._answer_s = answer_s
        self._state_s = state_s

    async def plan_validation(self, request: ValidationOrder, _: Caller) -> ValidationPlan:
        return await self._ask(ValidationPlan, "plan", request)

    async def start_validation(self, request: ValidationOrder, _: Caller) -> Validation:
        begin = time.monotonic()
        try:
            return await self._ask(Validation, "start", request, UNANSWERED)
        except errors.Failed as error:
            if error.message.code != UNANSWERED:
                raise
            unanswered = error
        found = await self._state_after(unanswered)
        # Another command of ek-validate is `running`, too, but has no id.
        if found.state == "idle" or (found.state == "running" and not found.id):
            # ek-validation does not start a validation for a caller that has gone
            reason = unanswered.message.parameters["reason"]
            raise errors.Failed("validation-not-started", reason=reason, unit=HELPER_UNIT) from unanswered
        if found.ran_s > time.monotonic() - begin + CLOCK_S:
            raise errors.Conflict("validation-runs") from unanswered
        return found

    async def get_validation(self, request: Nothing, _: Caller) -> Validation:
        return await self._ask(Validation, "state", request)

    async def cancel_validation(self, request: Nothing, _: Caller) -> Validation:
        return await self._ask(Validation, "cancel", request, UNANSWERED)

    async def list_validations(self, request: Nothing, _: Caller) -> list[ValidationRow]:
        return await self._ask(list[ValidationRow], "list", request)

    async def show_validation(self, request: OneValidation, _: Caller) -> ValidationReport:
        return await self._ask(ValidationReport, "show", request)

    async def compare_validations(self, request: TwoValidations, _: Caller) -> ValidationComparison:
        return await self._ask(ValidationComparison, "compare", request)

    async def open_validation(self, request: ValidationFile, caller: Caller) -> int:
        """Returns the descriptor of a connection, from which the caller reads the packets of the file."""
        # A validation that does not exist is an error of this call. On the connection, there is only the file.
        await self.show_validation(OneValidation(request.id), caller)
        connection = await helper.connect(
            self._path, _order("open", request), ANSWER_S, "validation-unreachable", HELPER_UNIT
        )
        return connection.detach()

    async def _state_after(self, unanswered: errors.Failed) -> Validation:
        """The state after an order without an answer. Raises UNANSWERED if the state has no answer either."""
        try:
            return await self._ask(Validation, "state", Nothing(), limit_s=self._state_s)
        except errors.AgentError as error:
            raise unanswered from error

    async def _ask(
        self, answer: type[T], order: str, request: msgspec.Struct, unanswered: str = "", limit_s: float | None = None
    ) -> T:  # fmt: skip
        found = await helper.ask(
            self._path, _order(order, request), limit_s or self._answer_s, "validation-unreachable", HELPER_UNIT, unanswered
        )  # fmt: skip
        try:
            return msgspec.convert(found, answer)
        except msgspec.ValidationError as error:
            raise errors.Failed("validation-failed", reason=str(error)) from error


def _order(order: str, request: msgspec.Struct) -> dict[str, Any]:
    return {"order": order, **{name: getattr(request, name) for name in request.__struct_fields__}}
