# SPDX-License-Identifier: Apache-2.0
"""Joins the texts of a long table in one step. A template would escape each of a thousand cells."""

from __future__ import annotations

from typing import TYPE_CHECKING

from markupsafe import escape

if TYPE_CHECKING:
    from collections.abc import Iterable

    from markupsafe import Markup

_BORDER = "\0"  # stands for the HTML between two texts; HTML has no such character


def joined(texts: Iterable[str], between: Markup) -> Markup:
    """TEXTS with the HTML BETWEEN between each two. As the filter `join`, with one escape instead of one for each text."""
    clean = [text.replace(_BORDER, "") if _BORDER in text else text for text in texts]
    return escape(_BORDER.join(clean)).replace(_BORDER, between)
