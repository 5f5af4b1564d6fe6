# SPDX-License-Identifier: Apache-2.0
"""Outputs made from rows: the page of the bench, generated documentation, pictures, and comparisons of two benches."""
