# SPDX-License-Identifier: Apache-2.0
"""Rows of results as plots, tables and one self-contained page. The lab and ek-validate share this package."""
