# SPDX-License-Identifier: Apache-2.0
"""The lab: exact I/O experiments in a virtual machine on a virtual clock."""
