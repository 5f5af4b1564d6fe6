# SPDX-License-Identifier: Apache-2.0
"""The set-up of a new board: leads an administrator through the pages with the settings that every board needs."""

from .views import blueprint

__all__ = ["blueprint"]
