# SPDX-License-Identifier: Apache-2.0
"""/api/v1: the agent's methods for programs that have an API token. Routes, checks and documents come from its schema."""

from .views import blueprint

__all__ = ["blueprint"]
