# SPDX-License-Identifier: Apache-2.0
"""Examples of Debian's files, which several tests read."""

from __future__ import annotations

# the first line of a machine-readable copyright file
HEAD = "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n"
# dpkg's list of packages
STATUS = """\
Package: libc6
Status: install ok installed
Architecture: amd64
Source: glibc
Version: 2.41-12+deb13u1
Description: GNU C Library: Shared libraries
 Contains the standard libraries.
Homepage: https://www.gnu.org/software/libc/

Package: mawk
Status: install ok installed
Architecture: amd64
Provides: awk, editor (= 1)
Version: 1.3.4.20250131-1
Pre-Depends: libc6 (>= 2.38)

Package: tool
Status: install ok installed
Architecture: all
Source: toolbox (1:2.0-3)
Version: 1:2.0-3+b1
Depends: gawk | awk, libc6:any (>= 2.38), nowhere
Built-Using: lzo2 (= 2.10-3), sphinx (= 8.1.3-5)

Package: gone
Status: deinstall ok config-files
Architecture: all
Version: 1
"""
