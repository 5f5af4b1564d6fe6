# SPDX-License-Identifier: Apache-2.0
"""What an image consists of: its SBOM, its licences, and its known vulnerabilities. Needs only Python and dpkg."""

from __future__ import annotations


class SupplyError(Exception):
    """Says what is wrong with an input, and what to do."""
