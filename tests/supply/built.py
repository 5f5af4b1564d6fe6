# SPDX-License-Identifier: Apache-2.0
"""The image that make has built."""

from __future__ import annotations

from pathlib import Path

TOP = Path(__file__).resolve().parents[2]
IMAGE = TOP / "build/image"
