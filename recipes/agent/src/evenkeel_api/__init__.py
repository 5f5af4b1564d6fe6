# SPDX-License-Identifier: Apache-2.0
"""The schema of the agent: structs, methods, roles, errors and messages. The agent, ekctl and the panel share it.

D-Bus signatures, JSON, OpenAPI and validation all come from the structs in `features`. To add a feature, add a file
there.
"""
