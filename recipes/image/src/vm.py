# SPDX-License-Identifier: Apache-2.0
"""The board as a virtual machine, for run-qemu, demo, stop and the boot tests.

This module runs on the host's Python and needs only the standard library. QEMU
runs inside the build root, and its working directory is the run directory. So the
sockets and files there have the same short names inside and outside the build root.

A run directory belongs to one machine at a time. QEMU inherits, through
toolroot/enter, a lock on the file "lock" in the run directory. A machine runs as long
as the lock is held. The kernel releases it even after a crash; a file with a process
id could outlive a crash.
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

import image_file

TOP = Path(__file__).resolve().parents[3]
BUILT_IMAGE = TOP / "build/image/evenkeel-x86_64.img"
# EVENKEEL_IMAGE names another image: a released one, or the one that BitBake built.
IMAGE = Path(os.environ.get("EVENKEEL_IMAGE") or BUILT_IMAGE).expanduser().resolve()
RUN = Path(os.environ.get("EVENKEEL_RUN") or TOP / "build/run").absolute()
# the log of a disk, in the run directory
WRITES = "writes.log"
ROOT_PARTITION = {"A": 3, "B": 4}
# Usual size of the board's disk. The size of an eMMC must be a power of two, and 4 GiB is the smallest that holds the image.
MEDIUM_BYTES = 4 << 30
# Free disk space that start() requires: in one session the demo writes logs, databases and the loader's file.
NEEDED_BYTES = 1 << 30
# Additional free disk space that start() requires to unpack an image. Most of the unpacked file is holes.
UNPACKED_BYTES = 3 << 29
# magic number of an x86 kernel, and its offset in bytes (Documentation/arch/x86/boot.rst)
KERNEL_MAGIC, KERNEL_MAGIC_AT = b"HdrS", 0x202
# Folders of the host that toolroot/enter must not show, because they would hide the build root's own programs. The
# folders below UNSHOWABLE_BELOW must not be shown either.
UNSHOWABLE = ("/", "/bin", "/dev", "/etc", "/lib", "/lib64", "/opt", "/proc", "/sbin", "/sys", "/usr")
UNSHOWABLE_BELOW = ("/dev", "/proc", "/sys", "/usr/bin", "/usr/lib", "/usr/share")
SHUTDOWN_SECONDS = 40  # time limit for a shutdown; then the power is cut
PRESS_SECONDS = 5  # time from one press of the power button to the next


class VmError(Exception):
    """A failure that the user can correct; the message says how."""


@dataclasses.dataclass(frozen=True)
class Options:
    """The options with which a machine starts.

    port: port on 127.0.0.1 that is forwarded to the board's port 443 (None: no network card)
    credentials: system credentials NAME=VALUE. They are passed as SMBIOS strings, or on
        the kernel's command line if the board boots from an eMMC
    emmc: the board's disk is an eMMC. QEMU then loads the kernel itself, because
        Debian's OVMF cannot read an eMMC
    usb: the board's disk is a USB stick
    fresh: start from the image again, and delete the data of the board
    slot: slot to boot from an eMMC; in other boots GRUB chooses the slot
    memory_mb: memory of the board
    medium_bytes: size of a new board's disk
    steady: the clock of the board counts its instructions, at 4 ns each, and stands still while the host is too
        busy to emulate the board. So a slow host breaks no time limit on the board. While the board is idle, its
        clock follows the host's. The processors are emulated in turn
    log_writes: write down each write, discard and flush of the disk in the file WRITES (tests/power_cuts.py)
    extra: additional arguments for QEMU
    """

    port: int | None = None
    credentials: tuple[str, ...] = ()
    emmc: bool = False
    usb: bool = False
    fresh: bool = False
    slot: str = "A"
    memory_mb: int = 1024
    medium_bytes: int = MEDIUM_BYTES
    steady: bool = False
    log_writes: bool = False
    extra: tuple[str, ...] = ()


def kernel_arguments(slot: str) -> str:
    """Kernel parameters of an eMMC boot: those that GRUB adds, and recipes/image/data/cmdline."""
    lines = (TOP / "recipes/image/data/cmdline").read_text().splitlines()
    common = [line for line in lines if line and not line.startswith("#")]
    own = [f"root=/dev/mmcblk0p{ROOT_PARTITION[slot]}", f"rauc.slot={slot}", "evenkeel.started=unchecked"]
    return " ".join([*own, *common])


def enter(*command: str) -> list[str]:
    """The given command, changed so that it runs inside the build root."""
    return [str(TOP / "toolroot/enter"), *command]


class Machine:
    """One virtual board in a run directory, running or not.

    run: the run directory
    given: the image that the user named; it may be compressed
    image: the same image, decompressed; the board's disk is an overlay or a copy of it
    kvm: whether start() chose KVM; False means that QEMU emulates the CPU
    """

    def __init__(self, run: Path = RUN, image: Path = IMAGE) -> None:
        self.run = run
        self.given = image
        self.image = image
        self.kvm = False
        self.serial_log = run / "serial.log"
        self.qemu_log = run / "qemu.log"

    # -- state -----------------------------------------------------------------

    def state(self) -> dict[str, Any] | None:
        """The content of demo.json for the running machine; None when no machine runs."""
        try:
            with (self.run / "lock").open("r") as lock:
                # Take a shared lock. With exclusive locks, two callers at the same time would take each other
                # for a running machine.
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except FileNotFoundError:
            return None
        except BlockingIOError:
            return self.saved_state()
        return None

    def saved_state(self) -> dict[str, Any]:
        """The content of demo.json, even if the machine has ended. Empty if the file cannot be read."""
        try:
            state = json.loads((self.run / "demo.json").read_text())
        except (OSError, ValueError):
            return {}
        return state if isinstance(state, dict) else {}

    def save_state(self, **changed: Any) -> None:
        """Set the given fields of demo.json. All other fields keep their values."""
        state = {**self.saved_state(), **changed}
        temporary = self.run / "demo.json.new"
        temporary.write_text(json.dumps(state) + "\n")
        temporary.replace(self.run / "demo.json")

    def already(self, state: dict[str, Any]) -> str:
        """The error message for a user who starts a second board; `state` is what state() returned."""
        which = f"pid {state['pid']}" if "pid" in state else f"in {self.run}"
        url = state.get("url", "none")
        if url == "none":
            text = f"a board is running already ({which})"
        elif state.get("up", True):
            text = f"a board is running already ({which}). Its panel: {url}"
        else:
            text = f"a board is booting already ({which}). Its panel will be at {url}"
        return f"{text}. 'make stop' shuts it down"

    # -- start ----------------------------------------------------------------

    def start(self, options: Options) -> subprocess.Popen[bytes]:
        """Start QEMU in a session of its own, so that it outlives the caller."""
        unpacker = self._check_image()
        self.run.mkdir(parents=True, exist_ok=True)
        needed = NEEDED_BYTES + (UNPACKED_BYTES if unpacker and not self._is_unpacked() else 0)
        free = shutil.disk_usage(self.run).free
        if free < needed:
            raise VmError(
                f"{self.run} has {free >> 20} MiB free, but the board needs {needed >> 20} MiB. "
                "Free some disk space"
            )
        lock = os.open(self.run / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise VmError(self.already(self.state() or {})) from None
            for name in ("qmp.sock", "serial.sock", "demo.json"):
                (self.run / name).unlink(missing_ok=True)
            self.save_state(up=False)
            self.image = self._unpack(unpacker) if unpacker else self.given
            self._prepare_disk(options)
            arguments = [*self._accelerator(options), *self._arguments(options)]
            with self.qemu_log.open("wb") as log:
                qemu = subprocess.Popen(
                    enter("qemu-system-x86_64", *arguments),
                    cwd=self.run,
                    env=self._environment(),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                    pass_fds=(lock,),
                )
            self.save_state(pid=qemu.pid)
            return qemu
        finally:
            os.close(lock)

    def _check_image(self) -> str | None:
        """Name of the program that decompresses the image; None if the image is not compressed.

        Raises VmError if a board cannot boot from the file.
        """
        if not self.given.exists():
            what_to_do = (
                "Build it with 'make image', or boot a released one: make demo IMAGE=FILE"
                if self.given == BUILT_IMAGE
                else "Check the path that you gave as IMAGE=FILE"
            )
            raise VmError(f"there is no image {self.given}. {what_to_do}")
        try:
            unpacker = image_file.unpacker(self.given)
            if unpacker is None:
                image_file.check_whole(self.given)
        except image_file.ImageFileError as error:
            raise VmError(str(error)) from None
        folder = self.given.parent
        if unpacker is None and not _is_shown(folder) and not _is_showable(folder):
            raise VmError(f"QEMU cannot read an image in {folder}. Move the image to another folder")
        return unpacker

    def _is_unpacked(self) -> bool:
        """Whether the run directory already contains the given image in decompressed form."""
        stamp = self.run / "image.img.from"
        try:
            return stamp.read_text() == _stamp(self.given) and (self.run / "image.img").exists()
        except FileNotFoundError:
            return False

    def _unpack(self, unpacker: str) -> Path:
        """Decompress the given image into the run directory, unless it is already there. Returns the new file."""
        image, stamp = self.run / "image.img", self.run / "image.img.from"
        if self._is_unpacked():
            return image
        print(f"  unpacking {self.given.name} (once)", flush=True)
        stamp.unlink(missing_ok=True)
        # The output file gets holes where the image has zeros: xz does this by default, zstd with --sparse.
        command = [unpacker, "-dc", *(["--sparse"] if unpacker == "zstd" else [])]
        try:
            with self.given.open("rb") as packed, image.open("wb") as unpacked:
                outcome = subprocess.run(
                    enter(*command), stdin=packed, stdout=unpacked, stderr=subprocess.PIPE, check=False
                )
            if outcome.returncode != 0:
                reason = outcome.stderr.decode(errors="replace").strip().replace("\n", "; ")
                raise VmError(f"cannot unpack {self.given}: {reason}. If it is damaged, download it again")
            try:
                image_file.check_whole(image)
            except image_file.ImageFileError as error:
                raise VmError(f"{self.given} was unpacked, but {error}") from None
        except BaseException:
            image.unlink(missing_ok=True)
            raise
        stamp.write_text(_stamp(self.given))
        return image

    def _environment(self) -> dict[str, str]:
        """The environment for toolroot/enter, which then also shows the folders of the run and of the image."""
        show = [os.environ.get("EVENKEEL_SHOW", "")]
        show += [str(folder) for folder in (self.run, self.image.parent) if not _is_shown(folder)]
        return {**os.environ, "EVENKEEL_SHOW": ":".join(filter(None, dict.fromkeys(show)))}

    def _prepare_disk(self, options: Options) -> None:
        """Create the board's disk: an overlay over the image, or a copy of it for an eMMC.

        The image itself never changes. If the image is the same as last time, the old disk is kept, with the
        board's data. Otherwise a new disk replaces it.
        """
        disk = self.run / ("emmc.img" if options.emmc else "disk.qcow2")
        kept = disk.exists() and not options.fresh
        stamp = _stamp(self.image)
        made_from = self.run / (disk.name + ".from")
        if kept and made_from.exists() and made_from.read_text() == stamp:
            return
        if kept:
            print(
                "  the image has changed: starting with a new board; the old one's data is dropped",
                flush=True,
            )
        made_from.unlink(missing_ok=True)
        disk.unlink(missing_ok=True)
        if options.emmc:
            # A copy, because QEMU's eMMC model accepts only raw files.
            subprocess.run(["cp", "--sparse=always", "--reflink=auto", self.image, disk], check=True)
            os.truncate(disk, options.medium_bytes)
        else:
            backing = os.path.relpath(self.image, self.run)
            command = ["qemu-img", "create", "-q", "-f", "qcow2", "-F", "raw", "-b", backing]
            self._enter(*command, disk.name, str(options.medium_bytes), check=True)
        # A new board also gets new settings of the firmware.
        self._enter("cp", "/usr/share/OVMF/OVMF_VARS_4M.fd", "vars.fd", check=True)
        made_from.write_text(stamp)

    def adopt_disk(self, name: str) -> None:
        """State that the disk NAME in the run directory was made from the image: start() keeps it."""
        (self.run / f"{name}.from").write_text(_stamp(self.given))

    def _arguments(self, options: Options) -> list[str]:
        args = ["-name", "evenkeel", "-machine", "q35", "-smp", "2", "-m", str(options.memory_mb)]
        args += ["-nodefaults", "-no-user-config", "-display", "none", "-action", "watchdog=reset"]
        args += ["-device", "i6300esb", "-device", "virtio-rng-pci,romfile="]
        args += ["-qmp", "unix:qmp.sock,server=on,wait=off"]
        args += ["-chardev", "socket,id=serial,path=serial.sock,server=on,wait=off,logfile=serial.log"]
        args += ["-serial", "chardev:serial"]
        if options.emmc:
            # the same parameter that an owner writes into grub.cfg (docs/howto/reset-a-password.md)
            given = [
                f"systemd.set_credential={credential.replace('=', ':', 1)}"
                for credential in options.credentials
            ]
            kernel = self._kernel()
            if kernel is None:
                raise VmError(
                    f"an eMMC boot needs a kernel, but {self.image} contains none and has no vmlinuz next to it"
                )
            args += ["-kernel", kernel]
            args += ["-append", " ".join([kernel_arguments(options.slot), *given])]
            args += ["-drive", "if=none,id=disk,file=emmc.img,format=raw,cache=writeback"]
            args += ["-device", "sdhci-pci", "-device", "emmc,drive=disk"]
        else:
            for credential in options.credentials:
                args += ["-smbios", f"type=11,value=io.systemd.credential:{credential}"]
            firmware = "/usr/share/OVMF/OVMF_CODE_4M.fd"
            args += ["-drive", f"if=pflash,unit=0,format=raw,readonly=on,file={firmware}"]
            args += ["-drive", "if=pflash,unit=1,format=raw,file=vars.fd"]
            disk = "file=disk.qcow2,format=qcow2"
            if options.log_writes:
                (self.run / WRITES).write_bytes(b"")
                disk = "driver=blklogwrites,file.driver=qcow2,file.file.driver=file,file.file.filename=disk.qcow2"
                disk += f",log.driver=file,log.filename={WRITES},log-sector-size=512"
            args += ["-drive", f"if=none,id=disk,{disk},cache=writeback"]
            if options.usb:
                args += ["-device", "qemu-xhci", "-device", "usb-storage,drive=disk,removable=on,bootindex=1"]
            else:
                args += ["-device", "virtio-blk-pci,drive=disk,bootindex=1,romfile="]
            # the screen of a mini PC; its firmware leaves a frame buffer
            args += ["-device", "VGA,romfile=,vgamem_mb=8"]
        if options.port is not None:
            args += ["-netdev", f"user,id=net,hostfwd=tcp:127.0.0.1:{options.port}-:443"]
            args += ["-device", "virtio-net-pci,netdev=net,romfile="]
        return [*args, *options.extra]

    def _kernel(self) -> str | None:
        """Path of the board's kernel, relative to the run directory. None if no kernel is found.

        The kernel is the file vmlinuz next to the image. If there is no such file, as for
        a released image, the kernel of slot A is copied to the run directory.
        """
        neighbour = self.image.parent / "vmlinuz"
        if neighbour.exists() and self.image.parent != self.run:
            return os.path.relpath(neighbour, self.run)
        copy = self.run / "vmlinuz"
        copy.unlink(missing_ok=True)
        offset = image_file.partition_offset(self.image, "root-a")
        if offset is None:
            return None
        root = f"{os.path.relpath(self.image, self.run)}?offset={offset}"
        self._enter("debugfs", "-R", f"dump /boot/vmlinuz {copy.name}", root)
        # The exit status of debugfs is 0 even if the file does not exist.
        if not copy.exists():
            return None
        with copy.open("rb") as file:
            file.seek(KERNEL_MAGIC_AT)
            return copy.name if file.read(len(KERNEL_MAGIC)) == KERNEL_MAGIC else None

    def _accelerator(self, options: Options) -> list[str]:
        self.kvm = not options.steady and self._kvm_works()
        if self.kvm:
            return ["-accel", "kvm", "-cpu", "host"]
        accelerator = ["-accel", "tcg,thread=multi"]
        if options.steady:
            accelerator = ["-accel", "tcg,thread=single", "-icount", "shift=2,sleep=on"]
        # QEMU emulates `rep movsb` byte by byte. Without these two flags, kernel and C library copy words: a start of the
        # board takes an eighth less processor time.
        return [*accelerator, "-cpu", "max,-erms,-fsrm"]

    def _kvm_works(self) -> bool:
        """Whether our kernel boots with KVM. The answer is stored per version of the host's kernel and CPU model.

        It is not enough that /dev/kvm can be opened. Under some hypervisors the guest
        then hangs in early boot, and QEMU does not switch to emulation. So the function
        boots the board's kernel without a root file system. If KVM works, the kernel
        panics within 10 s, which ends QEMU.
        """
        if os.environ.get("EVENKEEL_KVM") == "0" or not os.access("/dev/kvm", os.R_OK | os.W_OK):
            return False
        host = hashlib.sha256((platform.release() + _cpu_model()).encode()).hexdigest()[:16]
        answer = TOP / "build" / f"kvm-{host}"
        if answer.exists():
            return answer.read_text() == "works\n"
        kernel = self._kernel()
        if kernel is None:
            return False
        probe = ["timeout", "--signal=KILL", "10", "qemu-system-x86_64", "-accel", "kvm", "-cpu", "host"]
        probe += ["-machine", "q35", "-m", "256", "-nodefaults", "-display", "none", "-no-reboot"]
        probe += ["-kernel", kernel, "-append", "panic=-1"]
        works = self._enter(*probe) == 0
        answer.parent.mkdir(parents=True, exist_ok=True)
        answer.write_text("works\n" if works else "does not work\n")
        return works

    def _enter(self, *command: str, check: bool = False) -> int:
        """Run a command inside the build root, in the run directory; returns its exit status."""
        outcome = subprocess.run(
            enter(*command),
            cwd=self.run,
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
        )
        if check and outcome.returncode != 0:
            reason = outcome.stderr.decode(errors="replace").strip()
            raise VmError(f"{command[0]} failed with status {outcome.returncode}: {reason}")
        return outcome.returncode

    # -- talk to it -----------------------------------------------------------

    def connect(self, name: str, timeout: float = 10) -> socket.socket:
        """Connect to a socket of the machine.

        The path goes through /proc/self/fd, because the path of a socket may have at most 107 bytes.
        """
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

    def qmp(self, command: str, **arguments: Any) -> Any:
        """What QEMU returns for a command of its control socket. Raises OSError or VmError."""
        with self.connect("qmp.sock", timeout=3) as link, link.makefile("rw") as stream:
            answer: dict[str, Any] = {}
            stream.readline()
            for order in ({"execute": "qmp_capabilities"}, {"execute": command, "arguments": arguments}):
                stream.write(json.dumps(order) + "\n")
                stream.flush()
                # Events may come before the answer.
                while line := stream.readline():
                    answer = json.loads(line)
                    if "event" not in answer:
                        break
            if "error" in answer:
                raise VmError(f"QEMU refused {command}: {answer['error']['desc']}")
            return answer.get("return")

    def serial_text(self) -> str:
        try:
            return self.serial_log.read_text(errors="replace")
        except FileNotFoundError:
            return ""

    # -- end it ---------------------------------------------------------------

    def power_down(self, limit: float = SHUTDOWN_SECONDS) -> bool:
        """Press the power button and wait. After `limit` seconds, cut the power.

        True if the board shut down by itself. If not, state() is None once QEMU has ended.
        """
        end = time.monotonic() + limit
        while True:
            # Press the button again and again, because a board that is booting ignores it.
            with contextlib.suppress(OSError):
                self.qmp("system_powerdown")
            left = end - time.monotonic()
            if self._gone_within(max(0, min(left, PRESS_SECONDS))):
                return True
            if left <= PRESS_SECONDS:
                break
        with contextlib.suppress(OSError):
            self.qmp("quit")
        if not self._gone_within(5) and (pid := self.saved_state().get("pid")) is not None:
            # The lock is still held, so the machine runs and the saved process id is its own.
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
    """Status and JSON body of the panel's /healthz; None if there is no answer or no JSON object."""
    # Do not verify the certificate: the board made it itself, so no authority has signed it.
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


def _is_shown(folder: Path) -> bool:
    """Whether toolroot/enter always shows this folder of the host, because it is in the clone or in the cache."""
    default = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "evenkeel"
    cache = Path(os.environ.get("EVENKEEL_CACHE") or default)
    return folder.is_relative_to(TOP) or folder.is_relative_to(cache)


def _is_showable(folder: Path) -> bool:
    """Whether the build root still works if toolroot/enter shows this folder of the host."""
    return not (
        str(folder) in UNSHOWABLE
        or any(folder.is_relative_to(other) for other in UNSHOWABLE_BELOW)
        or ":" in str(folder)
    )


def _stamp(file: Path) -> str:
    """Path, size and time stamp of a file. The text changes when the file is replaced."""
    status = file.stat()
    return f"{file} {status.st_size} {status.st_mtime_ns}\n"


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line
    return ""
