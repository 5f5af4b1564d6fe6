# SPDX-License-Identifier: Apache-2.0
"""The errors of ek-validate. Each message is one line that says what happened and what to do."""


class ValidateError(Exception):
    """A validation or a probe cannot start, or cannot go on. Nothing was lost."""


class Stopped(Exception):
    """The run ends before its last case. Its report stays and is marked partial with this reason."""


class DeviceGone(Stopped):
    """The device was removed, or it refuses all I/O."""
