# SPDX-License-Identifier: Apache-2.0
"""`ek-recorder bench --paper`: compare how long write() waits with how long a writer to ek-recorder waits.

Cases and reference figures are those of R. Okabe and M. Toyama, "Reducing File Write Latency for Real-Time Data
Recording" (paper.toml). Programs in C measure. This package runs them, stores their figures as rows in the form of
the lab's results.json, and shows such rows, measured here or in the lab, next to the paper's figures.
"""
