# SPDX-License-Identifier: Apache-2.0
"""Who slows whom, against a trace of each request: `lab/attribution.py` says what is compared with what.

The cases differ in what makes an attribution from sums per second wrong: a victim whose waiting time depends on whose
request is in the device, groups with one and with many requests, three groups with unequal weights, submitters that wait
at the gate, a device that serves many requests at once, pauses, sixteen groups, and writeback.
"""

from __future__ import annotations

from lab.attribution import experiment
from lab.model import flashsim
from lab.promise import Case, Job

CASES = (
    Case("light-deep.sd-uhs3", flashsim("sd-uhs3"),
         (Job("light", "randread", "4k", 1, pause=20), Job("write", "write", "1m", 16), Job("read", "read", "256k", 2))),
    Case("loader-player.emmc51", flashsim("emmc51"), (Job("loader", "read", "1m", 4), Job("player", "read", "128k", 1))),
    Case("write-read.emmc50-slow", flashsim("emmc50-slow"),
         (Job("write", "write", "512k", 8), Job("read", "randread", "16k", 4))),
    Case("three.emmc51", flashsim("emmc51"),
         (Job("small", "randread", "64k", 8, 300), Job("medium", "read", "4m", 2, 200), Job("write", "write", "1m", 4, 100))),
    # 100 MB are 200 requests, more than there are tags
    Case("gate.emmc51", flashsim("emmc51"), (Job("huge", "read", "100m", 2), Job("small", "randread", "32k", 8, 200))),
    Case("deep-shallow.ufs31", flashsim("ufs31"),
         (Job("deep", "read", "1m", 32, 100), Job("shallow", "randread", "256k", 4, 300))),
    Case("pauses.emmc51", flashsim("emmc51"),
         (Job("bursts", "read", "8m", 1, 200, pause=150), Job("write", "write", "512k", 4),
          Job("light", "randread", "16k", 1, pause=10))),
    Case("sixteen.emmc51", flashsim("emmc51", slices=32),
         (Job("read", "randread", "64k", 2, 100, copies=8), Job("write", "write", "256k", 2, 50, copies=8))),
    Case("writeback.emmc50-slow", flashsim("emmc50-slow"),
         (Job("read", "randread", "16k", 1), Job("buffered", "write", "1m", buffered=True))),
)  # fmt: skip
# the cases of the quick bench
QUICK = ("light-deep.sd-uhs3",)
# The full bench runs the first ALWAYS cases and one of the others.
ALWAYS = 2

EXPERIMENTS = [
    experiment(case, quick=case.name in QUICK, pool=None if i < ALWAYS else ("attribution", 1))
    for i, case in enumerate(CASES)
]
