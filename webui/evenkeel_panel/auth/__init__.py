# SPDX-License-Identifier: Apache-2.0
"""Logging in and out, and the password that has to be changed first."""

from .views import blueprint

__all__ = ["blueprint"]
