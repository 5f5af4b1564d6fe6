# SPDX-License-Identifier: Apache-2.0
"""The apps of the board: what each gets of the flash, and its weight."""

from .views import blueprint

__all__ = ["blueprint"]
