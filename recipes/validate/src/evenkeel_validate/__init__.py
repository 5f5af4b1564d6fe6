# SPDX-License-Identifier: Apache-2.0
"""ek-validate: measures what a flash device and its scheduler do, and compares it with what was promised."""
