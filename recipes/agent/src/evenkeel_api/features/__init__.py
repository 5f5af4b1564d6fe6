# SPDX-License-Identifier: Apache-2.0
"""A module per feature. It has the feature's structs, ACTIONS (polkit action → what the action allows) and METHODS."""
