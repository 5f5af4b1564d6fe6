# SPDX-License-Identifier: Apache-2.0
"""What is made of rows: the bench's page, docs/tuning.md, and the comparison of two benches."""
