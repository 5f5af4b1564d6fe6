# SPDX-License-Identifier: Apache-2.0
"""HTML and SVG as nested calls. Text that is not Markup is escaped."""

from __future__ import annotations

from html import escape

# elements of HTML that have no end tag
VOID = frozenset({"meta", "br", "hr", "link"})


class Markup(str):
    """Text that is HTML or SVG already."""

    __slots__ = ()


def el(tag: str, *children: str | None, **attributes: str | float | None) -> Markup:
    """An element. Children and attributes that are None are omitted.

    Underscores in attribute names become dashes and a final one is dropped:
    `stroke_width` is stroke-width, `class_` is class.
    """
    written = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{escape(_value(value))}"'
        for name, value in attributes.items()
        if value is not None
    )
    if tag in VOID:
        return Markup(f"<{tag}{written}>")
    return Markup(f"<{tag}{written}>{join(*children)}</{tag}>")


def join(*children: str | None) -> Markup:
    return Markup("".join(c if isinstance(c, Markup) else escape(c) for c in children if c is not None))


def _value(value: str | float) -> str:
    # a tenth of a pixel is precise enough and keeps the page small
    return f"{value:.1f}".removesuffix(".0") if isinstance(value, float) else str(value)
