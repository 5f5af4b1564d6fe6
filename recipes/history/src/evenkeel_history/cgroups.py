# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: PTH116, PTH120
"""Finds the folders of all cgroups. It lists a folder only if it may have other folders in it than before.

The folder of a cgroup has dozens of files, so a list of it costs far more than its status. The number of links of such
a folder tells how many cgroups are in it. If a cgroup was removed and another one created in the same folder, the
removed one is missed at its old path, and the next call lists the folder again.
"""

import os
from dataclasses import dataclass, field


@dataclass(slots=True)
class _Folder:
    state: tuple[int, int, int]  # inode, number of links, time of the last change (ns)
    inside: list[str]  # the paths of the folders in it


@dataclass(slots=True)
class Tree:
    """The folder TOP and all folders below it, at most LIMIT."""

    top: str
    limit: int
    # Whether a folder was removed since its parent was listed. Another one may have taken its place.
    stale: bool = False
    _folders: dict[str, _Folder] = field(default_factory=dict)

    def find(self) -> dict[str, int]:
        """The inode of each folder, by path. A cgroup that is created again has another inode."""
        known, self._folders, self.stale = self._folders, {}, False
        stack = [self.top]
        while stack and len(self._folders) < self.limit:
            path = stack.pop()
            folder = known.get(path)
            try:
                status = os.stat(path)
                state = status.st_ino, status.st_nlink, status.st_mtime_ns
                if folder is None or folder.state != state:
                    with os.scandir(path) as entries:
                        inside = [entry.path for entry in entries if entry.is_dir(follow_symlinks=False)]
                    folder = _Folder(state, inside)
            except OSError:
                if parent := self._folders.get(os.path.dirname(path)):
                    parent.state = parent.state[0], 0, 0  # the next call lists it
                self.stale = True
                continue
            self._folders[path] = folder
            stack += folder.inside
        return {path: folder.state[0] for path, folder in self._folders.items()}
