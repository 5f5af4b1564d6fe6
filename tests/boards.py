# SPDX-License-Identifier: Apache-2.0
"""A board in QEMU, for tests. A test switches the board on and off, and runs commands on it over the serial line."""

import fcntl
import hashlib
import itertools
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pexpect
import pexpect.socket_pexpect
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "recipes/image/src"))
from vm import IMAGE, MEDIUM_BYTES, Machine, Options, enter, panel_health

BUILD = Path(__file__).resolve().parents[1] / "build"
# Time limit of a boot, up to the prompt of the root shell. The slowest boot, from the emulated eMMC, takes an eighth of
# it on two idle cores.
BOOT_SECONDS = 600
# A command on the board ends sooner, unless something hangs: a start of ekctl takes 4 s of processor time, and other
# stages run.
COMMAND_SECONDS = 300
# The clock of a board is at most so many times slower than the host's: it counts the instructions of the board while the
# board is busy (Options.steady). A board that starts from an eMMC has the clock of the host.
SLOW = 6
# Time limit for QEMU to open its serial console, or to end. On a busy machine QEMU needs some seconds for this.
QEMU_SECONDS = 60
# the system credential that makes the board offer a root shell on the serial line
CONSOLE = "evenkeel.console=1"
# name of the image in the folder of a board
KEPT = "built.img"
# name of the file of the second eMMC
SPARE = "spare.img"
# name of the file to which save() writes the memory and the devices of a board
MEMORY = "memory"
PASSWORD = re.compile(r"evenkeel: panel first-boot password: (\S+)")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Board:
    """A board and a root shell on it.

    If a wait times out, the test fails with a message that says where the log is.
    """

    def __init__(
        self,
        run: Path,
        *,
        credentials: tuple[str, ...],
        emmc: bool = False,
        usb: bool = False,
        spare_mib: int = 0,
        log_writes: bool = False,
        image: Path = IMAGE,
        medium_bytes: int = MEDIUM_BYTES,
        extra: tuple[str, ...] = (),
    ) -> None:
        """EMMC, USB: the board's disk is an eMMC or a USB stick. MEDIUM_BYTES: size of a new board's disk.

        SPARE_MIB: size of a second, empty eMMC (mmcblk1); 0: there is none. EXTRA: more arguments of QEMU.
        LOG_WRITES: QEMU logs the writes to the disk (tests/power_cuts.py).
        """
        self.machine = Machine(run, image)
        self.credentials = credentials
        self.emmc = emmc
        self.usb = usb
        self.spare_mib = spare_mib
        self.medium_bytes = medium_bytes
        self.extra = extra
        self.log_writes = log_writes
        self.port = free_port()
        self.link: pexpect.socket_pexpect.SocketSpawn | None = None
        self.qemu: subprocess.Popen[bytes] | None = None
        self.boot_seconds = 0.0
        self._earlier = ""  # serial log of the board from which this one was copied
        self._marks = itertools.count()

    # -- power ----------------------------------------------------------------

    def power_on(self) -> None:
        started = time.monotonic()
        self._earlier = ""
        self._start()
        self._log_in()
        self.boot_seconds = time.monotonic() - started

    def _start(self, *extra: str) -> None:
        """Start QEMU, and connect to the serial line."""
        extra += self.extra
        if self.spare_mib:
            self.machine.run.mkdir(parents=True, exist_ok=True)
            with (self.machine.run / SPARE).open("ab") as file:
                file.truncate(self.spare_mib << 20)
            extra += (
                "-drive",
                f"if=none,id=spare,file={SPARE},format=raw",
                "-device",
                "sdhci-pci,id=spare-host",
            )
            extra += ("-device", "emmc,drive=spare,bus=pcie.0/spare-host/sd-bus")
        options = Options(
            port=self.port,
            credentials=self.credentials,
            emmc=self.emmc,
            usb=self.usb,
            # QEMU moves the blocks of an eMMC while the processors stand still, so their instructions do not show this time.
            steady=not self.emmc,
            medium_bytes=self.medium_bytes,
            log_writes=self.log_writes,
            extra=extra,
        )
        self.qemu = self.machine.start(options)
        # Measure from here: start() may copy the image, which can take longer than QEMU_SECONDS.
        since = time.monotonic()
        while True:
            try:
                connection = self.machine.connect("serial.sock")
                break
            except OSError:
                if self.qemu.poll() is not None:
                    log = self.machine.qemu_log.read_text(errors="replace")
                    pytest.fail(f"QEMU ended with status {self.qemu.returncode}: {log}", pytrace=False)
                self._check_limit(since, "QEMU did not open the serial console")
                time.sleep(0.1)
        connection.settimeout(None)
        self.link = pexpect.socket_pexpect.SocketSpawn(connection)

    def _log_in(self) -> None:
        self._expect(r"bash-[\d.]+# ", BOOT_SECONDS, "the shell on the serial console")
        self._set_up_shell()

    def _set_up_shell(self) -> None:
        # Switch off echo and line editing: try_run() must read only the output of its command.
        self._send("stty -echo; PS1= PS2= exec bash --noprofile --norc --noediting")
        self.run("true")

    def save(self) -> None:
        """Save the running board in its folder, for resume(), and end QEMU."""
        assert self.qemu is not None
        self.machine.qmp("stop")
        self.machine.qmp("migrate", uri=f"file:{MEMORY}")
        self._wait_until_migrated()
        (self.machine.run / "serial.txt").write_text(self.serial())
        self.machine.qmp("quit")
        self._wait_until_ended()

    def resume(self, saved: Path) -> None:
        """Continue as a copy of the board that save() saved in the folder SAVED. It must have the same options."""
        run = self.machine.run
        for name in ("disk.qcow2", "vars.fd"):
            subprocess.run(["cp", "--sparse=always", "--reflink=auto", saved / name, run], check=True)
        self.machine.adopt_disk("disk.qcow2")
        self._earlier = (saved / "serial.txt").read_text()
        self._start("-incoming", f"file:{os.path.relpath(saved / MEMORY, run)}")
        self._wait_until_migrated()
        self.machine.qmp("cont")
        # The clock stood still since save().
        self.catch_up()

    def _wait_until_migrated(self) -> None:
        since = time.monotonic()
        while (found := self.machine.qmp("query-migrate") or {}).get("status") != "completed":
            if found.get("status") == "failed":
                pytest.fail(
                    f"QEMU cannot copy the board: {found}; see {self.machine.qemu_log}", pytrace=False
                )
            self._check_limit(since, "QEMU did not copy the board")
            time.sleep(0.1)

    def reboot(self) -> None:
        self._send("systemctl reboot")
        self._log_in()

    def start(self, text: str) -> None:
        """Switch the board on, and wait until the boot loader shows TEXT."""
        self._earlier = ""
        self._start()
        self._expect(re.escape(text), BOOT_SECONDS, f"{text!r} of the boot loader")

    def at_menu(self, text: str, keys: str) -> None:
        """Wait until the boot loader shows TEXT, then press KEYS. They need no return key, so nothing else is sent."""
        self._expect(re.escape(text), BOOT_SECONDS, f"{text!r} of the boot loader")
        assert self.link is not None
        self.link.send(keys)

    def wait_for_boot(self, seconds: float = BOOT_SECONDS) -> None:
        """Wait for a boot that somebody else has ordered, and for the boots that fail before it. Then log in again."""
        self._expect(r"bash-[\d.]+# ", seconds, "the shell on the serial console, after a restart")
        self._set_up_shell()

    def power_cut(self) -> None:
        """Kill QEMU. As in a power cut, the board cannot flush anything."""
        assert self.qemu is not None
        self.qemu.kill()
        self._wait_until_ended()

    def power_button(self) -> bool:
        """Press the power button. True if the board shut itself down; otherwise its power was cut."""
        assert self.qemu is not None
        by_itself = self.machine.power_down()
        self._wait_until_ended()
        return by_itself

    def _wait_until_ended(self) -> None:
        assert self.qemu is not None
        since = time.monotonic()
        while self.qemu.poll() is None or self.machine.state() is not None:
            self._check_limit(since, "QEMU did not end")
            time.sleep(0.1)
        self.qemu = None

    def _check_limit(self, since: float, what: str) -> None:
        if time.monotonic() - since > QEMU_SECONDS:
            pytest.fail(f"{what} within {QEMU_SECONDS} s; see {self.machine.qemu_log}", pytrace=False)

    @property
    def on(self) -> bool:
        return self.qemu is not None and self.qemu.poll() is None

    # -- shell ----------------------------------------------------------------

    def try_run(self, command: str, timeout: float = COMMAND_SECONDS) -> tuple[int, str]:
        """Exit status and output of a shell command on the board."""
        mark = next(self._marks)
        self._send(f"printf '<%s\\n' {mark}; {{ {command}\n}} 2>&1; printf '%s %s>\\n' {mark} $?")
        match = self._expect(
            rf"<{mark}\r?\n(.*?){mark} (\d+)>\r?\n", timeout, f"the end of the command: {command}"
        )
        return int(match.group(2)), match.group(1).decode(errors="replace").replace("\r\n", "\n").strip()

    def run(self, command: str, timeout: float = COMMAND_SECONDS) -> str:
        status, output = self.try_run(command, timeout)
        assert status == 0, f"{command!r} on the board ended with {status}:\n{output}"
        return output

    def _send(self, line: str) -> None:
        assert self.link is not None
        self.link.sendline(line.encode())

    def _expect(self, pattern: str, timeout: float, what: str) -> re.Match[bytes]:
        assert self.link is not None
        try:
            self.link.expect(re.compile(pattern.encode(), re.DOTALL), timeout=timeout)
        except (pexpect.TIMEOUT, pexpect.EOF) as error:
            why = "QEMU ended" if isinstance(error, pexpect.EOF) else f"no answer for {timeout:.0f} s"
            tail = "\n  ".join(self.serial().splitlines()[-20:])
            pytest.fail(
                f"waiting for {what}: {why}. Serial log {self.machine.serial_log} ends with\n  {tail}",
                pytrace=False,
            )
        match = self.link.match
        assert isinstance(match, re.Match)
        return match

    def wait(self, seconds: float) -> None:
        """Wait until this time has passed on the board, whose clock is slower than the host's while it is busy."""
        self.run(f"sleep {seconds}", timeout=COMMAND_SECONDS + 10 * seconds)

    def catch_up(self) -> None:
        """Set the clock of the board to the host's, if it is slow.

        A clock that is fast stays so: if it is set back by a minute, the sessions of the panel end.
        """
        now = int(time.time())
        self.run(f"[ $(date +%s) -ge {now} ] || date --set=@{now}")

    # -- state ----------------------------------------------------------------

    def serial(self) -> str:
        """The serial log since the last power_on(). A copy of a board begins with the log of that board."""
        return self._earlier + self.machine.serial_text()

    def settled(self, timeout: float = 400) -> str:
        """The output of `systemctl is-system-running` after all start jobs have ended, such as `running`."""
        # Only the last line: the kernel may print messages to the console before it.
        return self.try_run("systemctl is-system-running --wait", timeout)[1].splitlines()[-1]

    def first_password(self) -> str:
        found = PASSWORD.findall(self.serial())
        if not found:
            self.settled()  # the board prints it when the panel is ready
            found = PASSWORD.findall(self.serial())
        assert found, f"no first-boot password on the serial console; see {self.machine.serial_log}"
        return str(found[-1])

    def screen(self) -> str:
        """The text on the screen, with single spaces."""
        return " ".join(self.run("cat /dev/vcs1").split())

    def picture(self) -> tuple[int, int, bytes]:
        """What the screen shows: its width and height, and red, green and blue of each pixel, row by row."""
        file = self.machine.run / "screen.ppm"
        self.machine.qmp("screendump", filename=file.name)
        head, _, pixels = file.read_bytes().partition(b"\n255\n")
        _, width, height = head.split()
        return int(width), int(height), pixels

    def health(self, timeout: float = 300) -> tuple[int, dict[str, str]]:
        """Status and body of the panel's /healthz through the forwarded port.

        Waits at most `timeout` seconds for status 200, then returns the last answer.
        """
        url = f"https://127.0.0.1:{self.port}/"
        deadline = time.monotonic() + timeout
        while True:
            answer = panel_health(url)
            # Wait for 200: nginx answers 503 while the panel is still starting.
            if answer is not None and (answer[0] == 200 or time.monotonic() > deadline):
                return answer
            if time.monotonic() > deadline:
                pytest.fail(
                    f"no answer from {url}healthz for {timeout:.0f} s; see the serial log {self.machine.serial_log}",
                    pytrace=False,
                )
            time.sleep(1)

    def problems(self) -> list[str]:
        """The codes of the problems that the agent reports."""
        return [note["code"] for note in json.loads(self.run("ekctl status --json"))["problems"]]

    # -- disk -----------------------------------------------------------------

    def destroy_partition(self, label: str) -> None:
        """Overwrite a partition with zeros. The board must be off."""
        table = json.loads(
            subprocess.run(["sfdisk", "-J", self.machine.given], capture_output=True, check=True).stdout
        )
        found = [part for part in table["partitiontable"]["partitions"] if part["name"] == label]
        assert len(found) == 1, f"the image has {len(found)} partitions named {label}"
        start, size = found[0]["start"] * 512, found[0]["size"] * 512
        command = enter("qemu-io", "-f", "qcow2", "-c", f"write -z {start} {size}", "disk.qcow2")
        subprocess.run(command, cwd=self.machine.run, check=True, stdout=subprocess.DEVNULL)


def second_medium(run: Path, image: Path, kind: str = "stick", *, first: bool = False) -> tuple[str, ...]:
    """Arguments of QEMU that attach another medium with IMAGE to the board of the folder RUN: the file second.*.

    KIND: stick or emmc. FIRST: the firmware starts the stick, not the disk. It has no driver for an eMMC.
    """
    run.mkdir(parents=True, exist_ok=True)
    if kind == "emmc":
        disk = run / "second.img"
        if not disk.exists():
            subprocess.run(["cp", "--sparse=always", "--reflink=auto", image, disk], check=True)
            os.truncate(disk, MEDIUM_BYTES)
        emmc = "emmc,drive=second,bus=pcie.0/second-host/sd-bus"
        device = ("-device", "sdhci-pci,id=second-host", "-device", emmc)
    else:
        disk = run / "second.qcow2"
        if not disk.exists():
            backing = os.path.relpath(image, run)
            command = ["qemu-img", "create", "-q", "-f", "qcow2", "-F", "raw", "-b", backing]
            subprocess.run(enter(*command, disk.name), cwd=run, check=True)
        order = ",bootindex=0" if first else ""
        device = ("-device", "qemu-xhci", "-device", f"usb-storage,removable=on,drive=second{order}")
    form = "raw" if kind == "emmc" else "qcow2"
    return ("-drive", f"if=none,id=second,file={disk.name},format={form}", *device)


def until(what: str, condition: Callable[[], bool], seconds: float = 60) -> None:
    """Wait until CONDITION is true, SECONDS of the board at most. WHAT: the words of the failure."""
    end = time.monotonic() + SLOW * seconds
    while not condition():
        assert time.monotonic() < end, f"after {seconds:.0f} s still not: {what}"
        time.sleep(2)


def power_on(
    name: str,
    *,
    credentials: tuple[str, ...] = (CONSOLE,),
    emmc: bool = False,
    spare_mib: int = 0,
    cold: bool = False,
) -> Iterator[Board]:
    """Body of a fixture: yields a new board that is switched on. Its logs stay in build/test-NAME.

    It is a copy of a board that has just started for the first time, because an emulated start takes a minute of
    processor time. With `cold`, and from an eMMC, which QEMU cannot copy, the board really starts. With SPARE_MIB it has a
    second eMMC; then it must start from an eMMC, too.
    """
    if not IMAGE.exists():
        pytest.fail(f"the image {IMAGE} does not exist; build it with 'make image'", pytrace=False)
    run = BUILD / f"test-{name}"
    shutil.rmtree(run, ignore_errors=True)
    # For boards from an eMMC: a test must not depend on whether the host has KVM.
    os.environ["EVENKEEL_KVM"] = "0"
    # An eMMC is a copy of the image.
    image = IMAGE if emmc else _kept(run)
    board = Board(run, credentials=credentials, emmc=emmc, spare_mib=spare_mib, image=image)
    try:
        if cold or emmc or board.machine.given == IMAGE:
            board.power_on()
        else:
            board.resume(_started(credentials))
        yield board
    finally:
        if board.qemu is not None:
            board.power_cut()
        for disk in ("disk.qcow2", "emmc.img", SPARE, KEPT):
            (run / disk).unlink(missing_ok=True)


def _started(credentials: tuple[str, ...]) -> Path:
    """The folder of a saved board that has just started for the first time. Makes it for the first caller."""
    run = BUILD / f"started-{hashlib.sha256(repr(credentials).encode()).hexdigest()[:8]}"
    image = IMAGE.stat()
    toolroot = os.environ.get("EVENKEEL_INSIDE")  # names the version of QEMU
    devices = hashlib.sha256(
        (BUILD.parent / "recipes/image/src/vm.py").read_bytes()
    ).hexdigest()  # of the machine
    made_from = f"{IMAGE} {image.st_size} {image.st_mtime_ns} {toolroot} {credentials} {devices}\n"
    stamp = run / "from"
    with (BUILD / f"{run.name}.lock").open("w") as lock:
        # Tests run at the same time: one of them makes the board, the others wait for it.
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not stamp.exists() or stamp.read_text() != made_from:
            shutil.rmtree(run, ignore_errors=True)
            board = Board(run, credentials=credentials, image=_kept(run))
            try:
                board.power_on()
                state = board.settled()
                if state != "running":
                    failed = board.run("systemctl --failed --no-legend --plain")
                    pytest.fail(f"the board is {state} after its first start: {failed}", pytrace=False)
                board.health()
                board.save()
            finally:
                if board.qemu is not None:
                    board.power_cut()
            stamp.write_text(made_from)
    return run


def _kept(run: Path) -> Path:
    """The image under a name in RUN, which keeps this image if it is built again while the board runs.

    The board's disk is an overlay over the image, so a new image would damage it at the next power-on.
    """
    run.mkdir(parents=True)
    try:
        os.link(IMAGE, run / KEPT)
    except OSError:  # another file system, for an image that the user named: nothing builds that one again
        return IMAGE
    return run / KEPT
