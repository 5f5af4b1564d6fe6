# SPDX-License-Identifier: Apache-2.0
"""`ek-recorder bench --paper`: how long write() waits and how long a recorder's writer, on the same medium.

The cases and figures are those of Okabe and Toyama 2020 (paper.toml). Programs in C measure; what is here starts
them, keeps what they say as rows like those of the lab, and shows rows, measured here or there, beside the paper.
"""
