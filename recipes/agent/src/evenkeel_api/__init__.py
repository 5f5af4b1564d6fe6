# SPDX-License-Identifier: Apache-2.0
"""The schema of the agent: structs, methods, roles, errors and messages, shared by agent, ekctl and panel.

D-Bus signatures, JSON, OpenAPI and validation all come from the structs in `features`. A new feature is one
file there.
"""
