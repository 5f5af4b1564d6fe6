# SPDX-License-Identifier: GPL-2.0-only
"""The KUnit tests of all kernel modules, in user-mode Linux with KASAN and lockdep.

After the KUnit tests, the guest sets the scheduler evenkeel on a null_blk device, does I/O, and removes it again.
EVENKEEL_KERNEL (default 6.12) selects the kernel version below build/; `make kunit KERNEL=7.3` sets it.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(TOP / "tests"), str(TOP / "tests/lab")]

import components  # noqa: E402
from lab import initramfs, qemu  # noqa: E402

BUILD = TOP / "build" / os.environ.get("EVENKEEL_KERNEL", "6.12")
TESTS = sorted(test for folder in components.modules() for test in (TOP / folder).glob("tests/*_kunit.c"))

INIT = """#!/bin/sh
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mount -t debugfs d /sys/kernel/debug
for m in /modules/*_kunit.ko; do insmod $m; done
insmod /modules/evenkeel.ko
insmod /modules/null_blk.ko nr_devices=1 irqmode=1 hw_queue_depth=4
q=/sys/block/nullb0/queue
for i in 1 2 3; do
	echo evenkeel > $q/scheduler && cat $q/scheduler
	dd if=/dev/nullb0 of=/dev/null bs=1M count=8 2>/dev/null &
	dd if=/dev/zero of=/dev/nullb0 bs=64k count=64 2>/dev/null
	wait
	echo none > $q/scheduler
done
rmmod evenkeel && echo "evenkeel is unloaded"
for m in /modules/*_kunit.ko; do rmmod $m; done
poweroff -f
"""


@pytest.fixture(scope="module")
def console(tmp_path_factory: pytest.TempPathFactory) -> str:
    linux = BUILD / "uml/linux"
    assert linux.exists(), f"the user-mode kernel {linux} does not exist; 'make kunit' builds it"
    image = tmp_path_factory.mktemp("uml") / "initramfs.cpio"
    modules = [
        *(BUILD / "module-uml" / test.with_suffix(".ko").name for test in TESTS),
        BUILD / "module-uml/evenkeel.ko",
        BUILD / "uml/drivers/block/null_blk/null_blk.ko",
    ]
    initramfs.build(image, programs=(), modules=modules, files={"/init": INIT})
    run = subprocess.run(
        [str(linux), "mem=512M", f"initrd={image}", "con0=null,fd:1", "con=null", "panic=-1",
         # Later kernels run the KUnit tests of a module only with these two parameters.
         "kunit.enable=1", "kunit.autorun=1"],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=180, check=False,
    )  # fmt: skip
    log = TOP / "build/kunit.log"
    log.write_text(run.stdout + run.stderr)
    return run.stdout


def test_all_kunit_cases_pass(console: str) -> None:
    # The line of a test case is indented by four spaces, below the line of its suite.
    cases = re.findall(r"^(?:\[.*?\] )? {4}(ok|not ok) \d+ (\w+)", console, re.M)
    declared = {
        name for test in TESTS for name in re.findall(r"KUNIT_CASE(?:_\w+)?\((\w+)", test.read_text())
    }
    assert {name for _, name in cases} == declared, "see build/kunit.log"
    assert [name for verdict, name in cases if verdict != "ok"] == []


def test_the_elevator_is_set_and_removed_without_a_splat(console: str) -> None:
    assert console.count("[evenkeel]") == 3
    assert "evenkeel is unloaded" in console
    assert not qemu.SPLAT.search(console), "see build/kunit.log"
