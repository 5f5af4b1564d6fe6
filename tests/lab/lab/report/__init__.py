# SPDX-License-Identifier: Apache-2.0
"""What rows become: the page of the bench, generated documentation, pictures, and comparisons of two benches."""
