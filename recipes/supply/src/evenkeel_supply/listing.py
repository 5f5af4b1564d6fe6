# SPDX-License-Identifier: Apache-2.0
"""The list of licences for the person who ships boards, and the archive of their texts."""

from __future__ import annotations

import io
import lzma
import tarfile
import textwrap
from collections.abc import Iterable

from .inventory import Item

WIDTH = 100
HEAD = """\
Licences of {title}

Part 1 lists the licences, each with the items that have it. Part 2 lists the items. The archive
{archive} has the texts: whoever ships boards must pass them on.

Debian's copyright files name the licences of a whole source package. So the list of an item may
have licences of files that are not on the board. An item with several licences is under all of them,
each for a part of its files, unless the list says "or". "see its text": the copyright file is not
machine-readable, so a person must read it.

GPL, LGPL and MPL require that you offer the source. The SBOM names the source package of each item.
"""


def _folded(text: str, indent: str) -> str:
    return textwrap.fill(
        text,
        WIDTH,
        initial_indent=indent,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def text(title: str, archive: str, items: Iterable[Item]) -> str:
    """The list of licences."""
    items = sorted(items, key=lambda item: (item.kind, item.name))
    owners: dict[str, list[str]] = {}
    for item in items:
        for name in item.licence.names:
            owners.setdefault(name, []).append(item.name)
    lines = [HEAD.format(title=title, archive=archive), "", "Part 1: licences", "================"]
    for name, holders in sorted(owners.items(), key=lambda pair: (pair[0].lower(), pair[0])):
        lines += ["", name, _folded(", ".join(holders), "    ")]
    lines += ["", "", "Part 2: items", "============="]
    for item in items:
        lines += [
            "",
            f"{item.name} {item.version} ({item.kind})",
            _folded("; ".join(item.licence.names), "    "),
            *(f"    text: {path}" for path in sorted(item.texts)),
        ]
    return "\n".join(lines) + "\n"


def archive(texts: dict[str, bytes], epoch: int) -> bytes:
    """A tar archive, compressed by xz, of the texts by path. The same texts give the same bytes."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for path in sorted(texts):
            entry = tarfile.TarInfo(path)
            entry.size, entry.mtime, entry.mode = len(texts[path]), epoch, 0o644
            tar.addfile(entry, io.BytesIO(texts[path]))
    return lzma.compress(out.getvalue())
