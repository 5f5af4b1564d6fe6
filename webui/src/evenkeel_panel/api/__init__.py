# SPDX-License-Identifier: Apache-2.0
"""/api/v1: the methods of the agent for programs, with an API token. The schema of the agent describes all of it."""

from .views import blueprint

__all__ = ["blueprint"]
