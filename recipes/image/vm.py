# SPDX-License-Identifier: Apache-2.0
"""The board as a virtual machine: what run-qemu, demo, stop and the boot test share.

Runs on the host's Python (standard library only). QEMU itself runs inside the
tool root, in the run directory, so that every path it is given is short and
the same on both sides.

A run directory belongs to one machine at a time. The machine's process holds
a lock on its file "lock" (inherited through toolroot/enter), so "is it
running?" is asked of the kernel, never of a pid file that outlived a crash.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import hashlib
import http.client
import json
import os
import platform
import shutil
import signal
import socket
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

TOP = Path(__file__).resolve().parents[2]
# EVENKEEL_IMAGE names another one, such as BitBake's; the kernel lies beside it
IMAGE = Path(os.environ.get("EVENKEEL_IMAGE") or TOP / "build/image/evenkeel-x86_64.img").absolute()
RUN = Path(os.environ.get("EVENKEEL_RUN") or TOP / "build/run").absolute()
ROOT_PARTITION = {"A": 3, "B": 4}
# An eMMC's size must be a power of two; the image is made for this one.
MEDIUM_BYTES = 4 << 30
# A session of the demo writes its logs, the databases and the loader's file.
NEEDED_BYTES = 1 << 30
SHUTDOWN_SECONDS = 40
PRESS_SECONDS = 5


class VmError(Exception):
    """Something the person at the keyboard can act on; the message says what."""


@dataclasses.dataclass(frozen=True)
class Options:
    """How one machine is started.

    port: on 127.0.0.1, forwarded to the board's 443 (None: no network card)
    credentials: system credentials NAME=VALUE, passed as SMBIOS strings, or to
        an eMMC boot by its kernel's command line
    emmc: the board's disk is an eMMC and QEMU hands over the kernel, as
        Debian's OVMF cannot read one
    fresh: start from the built image again, forgetting what was written
    slot: root of an eMMC boot; otherwise GRUB chooses
    """

    port: int | None = None
    credentials: tuple[str, ...] = ()
    emmc: bool = False
    fresh: bool = False
    slot: str = "A"
    memory_mb: int = 1024
    extra: tuple[str, ...] = ()


def kernel_arguments(slot: str) -> str:
    """The parameters that GRUB would give the kernel (recipes/image/cmdline), with root on an eMMC."""
    lines = (TOP / "recipes/image/cmdline").read_text().splitlines()
    common = [line for line in lines if line and not line.startswith("#")]
    return " ".join([f"root=/dev/mmcblk0p{ROOT_PARTITION[slot]}", f"rauc.slot={slot}", *common])


def enter(*command: str) -> list[str]:
    return [str(TOP / "toolroot/enter"), *command]


class Machine:
    """One virtual board in a run directory, running or not."""

    def __init__(self, run: Path = RUN, image: Path = IMAGE) -> None:
        self.run = run
        self.image = image
        self.serial_log = run / "serial.log"
        self.qemu_log = run / "qemu.log"

    # -- is it there? ---------------------------------------------------------

    def state(self) -> dict[str, Any] | None:
        """What was noted about the running machine; None when none runs."""
        try:
            with (self.run / "lock").open("r") as lock:
                # shared: two that ask at once do not take each other for a machine
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except FileNotFoundError:
            return None
        except BlockingIOError:
            return self.noted()
        return None

    def noted(self) -> dict[str, Any]:
        """The last note, also of a machine that has ended; empty when there is none."""
        try:
            note = json.loads((self.run / "demo.json").read_text())
        except (OSError, ValueError):
            return {}
        return note if isinstance(note, dict) else {}

    def note(self, **news: Any) -> None:
        """Add to the note; what others added stays."""
        state = {**self.noted(), **news}
        temporary = self.run / "demo.json.new"
        temporary.write_text(json.dumps(state) + "\n")
        temporary.replace(self.run / "demo.json")

    def already(self, noted: dict[str, Any]) -> str:
        """What to tell somebody who wants to start a second one."""
        who = f"pid {noted['pid']}" if "pid" in noted else f"in {self.run}"
        url = noted.get("url", "none")
        if url == "none":
            where = f"one runs already ({who})"
        elif noted.get("up", True):
            where = f"one runs already: {url} ({who})"
        else:
            where = f"one is booting already ({who}), {url} will answer"
        return f"{where}; 'make stop' ends it"

    # -- start ----------------------------------------------------------------

    def start(self, options: Options) -> subprocess.Popen[bytes]:
        """Start QEMU in a session of its own, so that it outlives the caller."""
        if not self.image.exists():
            raise VmError(f"there is no image {self.image}; 'make image' builds it")
        self.run.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(self.run).free
        if free < NEEDED_BYTES:
            raise VmError(
                f"{self.run} has {free >> 20} MiB free, the board needs {NEEDED_BYTES >> 20} MiB to write to"
            )
        lock = os.open(self.run / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise VmError(self.already(self.state() or {})) from None
            for name in ("qmp.sock", "serial.sock", "demo.json"):
                (self.run / name).unlink(missing_ok=True)
            self.note(up=False)
            self._prepare_disk(options)
            arguments = [*self._accelerator(), *self._arguments(options)]
            with self.qemu_log.open("wb") as log:
                qemu = subprocess.Popen(
                    enter("qemu-system-x86_64", *arguments),
                    cwd=self.run,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                    pass_fds=(lock,),
                )
            self.note(pid=qemu.pid)
            return qemu
        finally:
            os.close(lock)

    def _prepare_disk(self, options: Options) -> None:
        """The board writes to an overlay: the built image stays as it was built."""
        disk = self.run / ("emmc.img" if options.emmc else "disk.qcow2")
        built = self.image.stat()
        kept = disk.exists() and not options.fresh
        stamp = f"{self.image} {built.st_size} {built.st_mtime_ns}\n"
        made_from = self.run / (disk.name + ".from")
        # A new image is a new board; the same image goes on where it was.
        if kept and made_from.exists() and made_from.read_text() == stamp:
            return
        if kept:
            print("  the image is another one: what the board had written before is dropped", flush=True)
        made_from.unlink(missing_ok=True)
        disk.unlink(missing_ok=True)
        if options.emmc:
            # QEMU's eMMC takes raw files only
            subprocess.run(["cp", "--sparse=always", "--reflink=auto", self.image, disk], check=True)
            os.truncate(disk, MEDIUM_BYTES)
        else:
            backing = os.path.relpath(self.image, self.run)
            command = ["qemu-img", "create", "-q", "-f", "qcow2", "-F", "raw", "-b", backing]
            subprocess.run(enter(*command, disk.name, str(MEDIUM_BYTES)), cwd=self.run, check=True)
        # firmware settings belong to the board, too
        subprocess.run(enter("cp", "/usr/share/OVMF/OVMF_VARS_4M.fd", "vars.fd"), cwd=self.run, check=True)
        made_from.write_text(stamp)

    def _arguments(self, options: Options) -> list[str]:
        args = ["-name", "evenkeel", "-machine", "q35", "-smp", "2", "-m", str(options.memory_mb)]
        args += ["-nodefaults", "-no-user-config", "-display", "none", "-action", "watchdog=reset"]
        args += ["-device", "i6300esb", "-device", "virtio-rng-pci,romfile="]
        args += ["-qmp", "unix:qmp.sock,server=on,wait=off"]
        args += ["-chardev", "socket,id=serial,path=serial.sock,server=on,wait=off,logfile=serial.log"]
        args += ["-serial", "chardev:serial"]
        if options.emmc:
            # as an owner without QEMU passes them, in grub.cfg (docs/install.md)
            given = [
                f"systemd.set_credential={credential.replace('=', ':', 1)}"
                for credential in options.credentials
            ]
            args += ["-kernel", os.path.relpath(self.image.parent / "vmlinuz", self.run)]
            args += ["-append", " ".join([kernel_arguments(options.slot), *given])]
            args += ["-drive", "if=none,id=disk,file=emmc.img,format=raw,cache=writeback"]
            args += ["-device", "sdhci-pci", "-device", "emmc,drive=disk"]
        else:
            for credential in options.credentials:
                args += ["-smbios", f"type=11,value=io.systemd.credential:{credential}"]
            firmware = "/usr/share/OVMF/OVMF_CODE_4M.fd"
            args += ["-drive", f"if=pflash,unit=0,format=raw,readonly=on,file={firmware}"]
            args += ["-drive", "if=pflash,unit=1,format=raw,file=vars.fd"]
            args += ["-drive", "if=none,id=disk,file=disk.qcow2,format=qcow2,cache=writeback"]
            args += ["-device", "virtio-blk-pci,drive=disk,bootindex=1,romfile="]
        if options.port is not None:
            args += ["-netdev", f"user,id=net,hostfwd=tcp:127.0.0.1:{options.port}-:443"]
            args += ["-device", "virtio-net-pci,netdev=net,romfile="]
        return [*args, *options.extra]

    def _accelerator(self) -> list[str]:
        if self._kvm_works():
            return ["-accel", "kvm", "-cpu", "host"]
        return ["-accel", "tcg,thread=multi", "-cpu", "max"]

    def _kvm_works(self) -> bool:
        """Whether /dev/kvm runs our kernel, found out once per host kernel.

        Its presence proves nothing: under some hypervisors it opens and then
        hangs a guest in early boot, and QEMU does not fall back. So the board's
        kernel is booted without a root: it must panic and so end QEMU in time.
        """
        if os.environ.get("EVENKEEL_KVM") == "0" or not os.access("/dev/kvm", os.R_OK | os.W_OK):
            return False
        host = hashlib.sha256((platform.release() + _cpu_model()).encode()).hexdigest()[:16]
        answer = TOP / "build" / f"kvm-{host}"
        if answer.exists():
            return answer.read_text() == "works\n"
        kernel = os.path.relpath(self.image.parent / "vmlinuz", self.run)
        probe = ["timeout", "--signal=KILL", "10", "qemu-system-x86_64", "-accel", "kvm", "-cpu", "host"]
        probe += ["-machine", "q35", "-m", "256", "-nodefaults", "-display", "none", "-no-reboot"]
        probe += ["-kernel", kernel, "-append", "panic=-1"]
        outcome = subprocess.run(
            enter(*probe), cwd=self.run, stdin=subprocess.DEVNULL, capture_output=True, check=False
        )
        works = outcome.returncode == 0
        answer.write_text("works\n" if works else "does not work\n")
        return works

    # -- talk to it -----------------------------------------------------------

    def connect(self, name: str, timeout: float = 10) -> socket.socket:
        """Connect to a socket of the machine; its path may be longer than a socket's may."""
        directory = os.open(self.run, os.O_PATH | os.O_DIRECTORY)
        link = socket.socket(socket.AF_UNIX)
        link.settimeout(timeout)
        try:
            link.connect(f"/proc/self/fd/{directory}/{name}")
        except OSError:
            link.close()
            raise
        finally:
            os.close(directory)
        return link

    def qmp(self, command: str) -> None:
        with self.connect("qmp.sock", timeout=3) as link, link.makefile("rw") as stream:
            stream.readline()
            for name in ("qmp_capabilities", command):
                stream.write(json.dumps({"execute": name}) + "\n")
                stream.flush()
                stream.readline()

    def serial_text(self) -> str:
        try:
            return self.serial_log.read_text(errors="replace")
        except FileNotFoundError:
            return ""

    # -- end ------------------------------------------------------------------

    def power_down(self, limit: float = SHUTDOWN_SECONDS) -> bool:
        """Press the power button, wait, and pull the plug after limit seconds.

        True if the board went down by itself. If not, state() says whether it is gone at all.
        """
        end = time.monotonic() + limit
        while True:
            # again and again: a board that is booting does not yet hear the button
            with contextlib.suppress(OSError):
                self.qmp("system_powerdown")
            left = end - time.monotonic()
            if self._gone_within(max(0, min(left, PRESS_SECONDS))):
                return True
            if left <= PRESS_SECONDS:
                break
        with contextlib.suppress(OSError):
            self.qmp("quit")
        if not self._gone_within(5) and (pid := self.noted().get("pid")) is not None:
            # the lock is held, so the noted process is still the machine's
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
            self._gone_within(5)
        return False

    def _gone_within(self, seconds: float) -> bool:
        end = time.monotonic() + seconds
        while self.state() is not None:
            if time.monotonic() > end:
                return False
            time.sleep(0.2)
        return True


def panel_health(url: str) -> tuple[int, dict[str, str]] | None:
    """Status and JSON body of the panel's /healthz; None while nothing answers in JSON."""
    # The board made its own certificate a moment ago: there is nothing to check it against.
    trust = ssl.create_default_context()
    trust.check_hostname = False
    trust.verify_mode = ssl.CERT_NONE
    opener = urllib.request.build_opener(
        urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=trust)
    )
    try:
        with opener.open(url + "healthz", timeout=8) as answer:
            status, body = answer.status, answer.read()
    except urllib.error.HTTPError as error:
        status, body = error.code, error.read()
    except (OSError, http.client.HTTPException):
        return None
    try:
        health = json.loads(body)
    except ValueError:
        return None
    return (status, health) if isinstance(health, dict) else None


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line
    return ""
