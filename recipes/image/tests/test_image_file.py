# SPDX-License-Identifier: Apache-2.0
"""`make demo IMAGE=FILE`: which files it boots, which it refuses, and that it needs no other file of the build."""

import json
import os
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

IMAGE = Path(__file__).resolve().parents[1]
MIB = 1 << 20
KERNEL = bytes(0x202) + b"HdrS" + b"kernel" * 1000


def gpt_copy(own: int, other: int) -> bytes:
    """A header of a partition table, in sector `own`; the other copy is in sector `other`.

    The table has 128 entries, in the 32 sectors from sector 2 on. The checksums are 0.
    """
    return struct.pack(
        "<8sIIIIQQQQ16sQIII", b"EFI PART", 1 << 16, 92, 0, 0, own, other, 34, 0, b"", 2, 128, 128, 0
    )


def make_image(path: Path, kernel: bytes | None = KERNEL) -> Path:
    """A disk image of 16 MiB. It has both copies of the partition table, and the partition root-a at offset 2 MiB."""
    tree = path.parent / "tree"
    (tree / "boot").mkdir(parents=True)
    if kernel is not None:
        (tree / "boot/vmlinuz").write_bytes(kernel)
    root = path.parent / "root.ext4"
    subprocess.run(["mke2fs", "-q", "-t", "ext4", "-O", "^has_journal", "-d", tree, root, "8M"], check=True)
    with path.open("wb") as file:
        file.truncate(16 * MIB)
        last = 16 * MIB // 512 - 1
        for own, other in ((1, last), (last, 1)):
            file.seek(own * 512)
            file.write(gpt_copy(own, other))
        file.seek(2 * 512)
        for number, (name, first) in enumerate({"esp": 1 * MIB // 512, "root-a": 2 * MIB // 512}.items()):
            unique = bytes([number + 1]) * 16
            file.write(struct.pack("<16s16sQQQ", unique, unique, first, first + 1, 0))
            file.write(name.encode("utf-16-le").ljust(72, b"\0"))
        file.seek(2 * MIB)
        file.write(root.read_bytes())
    shutil.rmtree(tree)
    root.unlink()
    return path


needs_tools = pytest.mark.skipif(
    not all(shutil.which(tool) for tool in ("mke2fs", "debugfs", "qemu-img", "xz", "zstd")),
    reason="the build root's tools are missing (toolroot/enter)",
)


@pytest.fixture
def image(tmp_path: Path) -> Path:
    folder = tmp_path / "downloads"
    folder.mkdir()
    return make_image(folder / "evenkeel.img")


def demo(run: Path, image: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(IMAGE / "src/demo")],
        env={**os.environ, "EVENKEEL_RUN": str(run), "EVENKEEL_IMAGE": str(image), "EVENKEEL_PORT": "18443"},
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


@pytest.fixture
def refused(tmp_path: Path) -> Callable[[object], str]:
    """A function that starts the demo with a file from which no board can boot. It returns the one line of error."""

    def start(image: object) -> str:
        out = demo(tmp_path / "run", image)
        assert out.returncode == 1, out.stdout
        assert out.stderr.startswith("demo: ")
        assert out.stderr.count("\n") == 1, out.stderr
        # The demo must not create files for a board that it does not start.
        assert not (tmp_path / "run").exists()
        return out.stderr

    return start


def test_missing_image(refused: Callable[[object], str]) -> None:
    assert "there is no image /nonexistent/evenkeel.img. Check the path" in refused(
        "/nonexistent/evenkeel.img"
    )


def test_missing_built_image() -> None:
    sys.path.insert(0, str(IMAGE / "src"))
    import vm

    assert IMAGE.parents[1] / "build/image/evenkeel-x86_64.img" == vm.BUILT_IMAGE


def test_folder_is_no_image(refused: Callable[[object], str], tmp_path: Path) -> None:
    assert "is a folder, not an image file" in refused(tmp_path)


@pytest.mark.parametrize(
    "content", [b"", b"<html>404 Not Found</html>", bytes(MIB)], ids=["empty", "text", "zeros"]
)
def test_file_without_partition_table(
    refused: Callable[[object], str], tmp_path: Path, content: bytes
) -> None:
    (tmp_path / "evenkeel.img").write_bytes(content)
    assert "is not a disk image: it has no partition table" in refused(tmp_path / "evenkeel.img")


@needs_tools
def test_truncated_image(refused: Callable[[object], str], image: Path) -> None:
    os.truncate(image, 10 * MIB)
    error = refused(image)
    assert f"is truncated: it has {10 * MIB} of {16 * MIB} bytes" in error
    assert "download it again" in error


@needs_tools
def test_unfinished_download_of_full_size(refused: Callable[[object], str], image: Path) -> None:
    os.truncate(image, 10 * MIB)
    os.truncate(image, 16 * MIB)
    assert "is damaged" in refused(image)


@pytest.fixture
def vm(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module vm, with a fake QEMU that ends at once."""
    monkeypatch.syspath_prepend(str(IMAGE / "src"))
    monkeypatch.setenv("EVENKEEL_KVM", "0")
    import vm

    def enter(*command: str) -> list[str]:
        return ["true"] if command[0] == "qemu-system-x86_64" else list(command)

    monkeypatch.setattr(vm, "enter", enter)
    return vm


def start(vm: Any, run: Path, image: Path) -> Any:
    machine = vm.Machine(run, image)
    machine.start(vm.Options()).wait()
    return machine


def test_a_steady_board_counts_its_instructions(
    vm: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where KVM works, because a processor of the host cannot count them."""
    monkeypatch.setattr(vm.Machine, "_kvm_works", lambda machine: True)
    machine = vm.Machine(tmp_path)
    assert machine._accelerator(vm.Options())[:2] == ["-accel", "kvm"]
    assert "-icount" in machine._accelerator(vm.Options(steady=True))
    assert not machine.kvm


def backing_file(run: Path) -> Path:
    """The image of which the board's disk is an overlay."""
    out = subprocess.run(
        ["qemu-img", "info", "--output=json", "disk.qcow2"], cwd=run, capture_output=True, check=True
    )
    return (run / json.loads(out.stdout)["full-backing-filename"]).resolve()


@needs_tools
def test_an_image_alone_is_enough(vm: Any, tmp_path: Path, image: Path) -> None:
    machine = start(vm, tmp_path / "run", image)
    assert backing_file(machine.run) == image
    assert not machine.kvm
    # the kernel with which KVM would be tried
    assert machine._kernel() == "vmlinuz"
    assert (machine.run / "vmlinuz").read_bytes() == KERNEL


@needs_tools
def test_a_kernel_beside_the_image_comes_first(vm: Any, tmp_path: Path, image: Path) -> None:
    (image.parent / "vmlinuz").write_bytes(KERNEL)
    machine = start(vm, tmp_path / "run", image)
    assert machine._kernel() == "../downloads/vmlinuz"


@needs_tools
@pytest.mark.parametrize("kernel", [None, b"", b"no kernel" * 1000], ids=["none", "empty", "other"])
def test_an_image_without_a_kernel(vm: Any, tmp_path: Path, kernel: bytes | None) -> None:
    image = make_image(tmp_path / "evenkeel.img", kernel)
    machine = start(vm, tmp_path / "run", image)
    assert machine._kernel() is None
    with pytest.raises(vm.VmError, match="an eMMC boot needs a kernel"):
        machine.start(vm.Options(emmc=True))


@needs_tools
@pytest.mark.parametrize("program", ["xz", "zstd"])
def test_a_compressed_image_is_unpacked_once(
    vm: Any, tmp_path: Path, image: Path, program: str, capfd: pytest.CaptureFixture[str]
) -> None:
    content = image.read_bytes()
    # The name does not end in .xz or .zst: the file's content shows how it is compressed.
    packed = image.with_name("evenkeel.img.download")
    with packed.open("wb") as file:
        subprocess.run([program, "-c", str(image)], stdout=file, check=True)
    image.unlink()
    run = tmp_path / "run"
    machine = start(vm, run, packed)
    assert "unpacking evenkeel.img.download" in capfd.readouterr().out
    unpacked = run / "image.img"
    assert backing_file(run) == unpacked
    assert unpacked.read_bytes() == content
    assert unpacked.stat().st_blocks * 512 < 8 * MIB
    assert machine._kernel() == "vmlinuz"
    # With the same image, the board keeps its disk.
    disk = (run / "disk.qcow2").stat().st_ino
    start(vm, run, packed)
    assert "unpacking" not in capfd.readouterr().out
    assert (run / "disk.qcow2").stat().st_ino == disk
    # With another image, the board gets a new disk.
    os.utime(packed, ns=(1, 1))
    start(vm, run, packed)
    out = capfd.readouterr().out
    assert "unpacking" in out
    assert "the image has changed" in out


@needs_tools
@pytest.mark.parametrize("program", ["xz", "zstd"])
def test_a_compressed_image_that_is_truncated(vm: Any, tmp_path: Path, image: Path, program: str) -> None:
    packed = image.with_name("evenkeel.img.packed")
    packed.write_bytes(
        subprocess.run([program, "-c", str(image)], capture_output=True, check=True).stdout[:-20]
    )
    with pytest.raises(vm.VmError, match=r"cannot unpack .*evenkeel\.img\.packed: .*download it again"):
        start(vm, tmp_path / "run", packed)
    assert not (tmp_path / "run/image.img").exists()


@needs_tools
@pytest.mark.parametrize("program", ["xz", "zstd"])
def test_a_compressed_file_that_is_no_image(vm: Any, tmp_path: Path, program: str) -> None:
    packed = tmp_path / "notes.packed"
    packed.write_bytes(
        subprocess.run([program, "-c"], input=b"notes", capture_output=True, check=True).stdout
    )
    with pytest.raises(vm.VmError, match=r"notes\.packed was unpacked, but .* no partition table"):
        start(vm, tmp_path / "run", packed)


@needs_tools
def test_the_build_root_shows_the_folder_of_the_image(
    vm: Any, tmp_path: Path, image: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EVENKEEL_SHOW", "/srv")
    shown = vm.Machine(vm.TOP / "build/run", image)._environment()["EVENKEEL_SHOW"]
    assert shown == f"/srv:{image.parent}"
    monkeypatch.setenv("EVENKEEL_CACHE", str(tmp_path))
    assert vm.Machine(vm.TOP / "build/run", image)._environment()["EVENKEEL_SHOW"] == "/srv"


@pytest.mark.parametrize(
    ("folder", "showable"),
    [
        ("/home/ann/Downloads", True),
        ("/root", True),
        ("/run/media/ann/stick", True),
        ("/opt/images", True),
        ("/", False),
        ("/usr", False),
        ("/usr/lib/images", False),
        ("/dev/disk", False),
        ("/home/ann/a:b", False),
    ],
)
def test_folders_that_would_hide_the_build_root_are_refused(vm: Any, folder: str, showable: bool) -> None:
    assert vm._is_showable(Path(folder)) == showable


def test_home_is_expanded(tmp_path: Path) -> None:
    out = subprocess.run(
        [sys.executable, "-c", "import vm; print(vm.IMAGE)"],
        env={**os.environ, "PYTHONPATH": str(IMAGE / "src"), "HOME": str(tmp_path), "EVENKEEL_IMAGE": "~/e.img"},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert out.stdout.strip() == str(tmp_path / "e.img")
