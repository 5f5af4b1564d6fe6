# SPDX-License-Identifier: Apache-2.0
"""A module per feature: its structs, ACTIONS (polkit action → what it allows to) and METHODS."""
