# SPDX-License-Identifier: Apache-2.0
"""Log-in, log-out and the password. The first-boot password must be changed before anything else."""

from .views import blueprint

__all__ = ["blueprint"]
