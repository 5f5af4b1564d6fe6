# SPDX-License-Identifier: Apache-2.0
"""ek-regulate, built under the sanitizers, on plain files: what it writes, and what nobody makes it write."""

import errno
import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

ROOM = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("regulate") / "ek-regulate"
    subprocess.run(
        ["gcc", "-std=gnu17", "-D_GNU_SOURCE", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-Wshadow",
         "-Wmissing-prototypes", "-Wstrict-prototypes", "-fsanitize=address,undefined",
         "-fno-sanitize-recover=all", "-o", str(out), str(ROOM / "src/ek_regulate.c")],
        check=True,
    )  # fmt: skip
    return out


class Tree:
    """A cgroup root of plain files, and a connection to the program."""

    def __init__(self, program: Path, top: Path) -> None:
        self.top = top
        self.root = top / "cgroup"
        self.perf = self.root / "a.slice/b.service/io.evenkeel.perf"
        self.perf.parent.mkdir(parents=True)
        self.perf.touch()
        self.ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.ours.settimeout(10)
        with theirs:
            self.process = subprocess.Popen(
                [program, self.root], stdin=theirs, stderr=subprocess.PIPE, text=True
            )

    def order(self, text: str | bytes) -> int:
        self.ours.send(text.encode() if isinstance(text, str) else text)
        return int(self.ours.recv(64))

    def end(self) -> tuple[int, str]:
        self.ours.close()
        _, said = self.process.communicate(timeout=10)
        return self.process.returncode, said


@pytest.fixture
def tree(program: Path, tmp_path: Path) -> Iterator[Tree]:
    tree = Tree(program, tmp_path)
    yield tree
    tree.process.kill()
    tree.end()


def test_orders_are_carried_out(tree: Tree) -> None:
    assert tree.order("259:0 10 /a.slice/b.service") == 0
    assert tree.perf.read_text() == "259:0 10"
    tree.perf.write_text("")
    assert tree.order("8:16 0 /a.slice/b.service") == 0
    assert tree.perf.read_text() == "8:16 0"
    assert tree.end() == (0, "")


def test_what_the_kernel_says_is_passed_on(tree: Tree) -> None:
    assert tree.order("259:0 10 /a.slice") == errno.ENOENT
    assert tree.order("259:0 10 /gone") == errno.ENOENT
    tree.perf.unlink()
    tree.perf.symlink_to("/dev/full")
    assert tree.order("259:0 10 /a.slice/b.service") == errno.ELOOP
    tree.perf.unlink()
    tree.perf.mkdir()
    assert tree.order("259:0 10 /a.slice/b.service") == errno.EISDIR


BAD = [
    " ",
    "259:0 10",
    "259:0 10 ",
    "259:0 10 /",
    "259:0 10 a.slice/b.service",
    "259:0  10 /a.slice/b.service",
    "259:0 10  /a.slice/b.service",
    "259 10 /a.slice/b.service",
    ":0 10 /a.slice/b.service",
    "259: 10 /a.slice/b.service",
    "259:0 -1 /a.slice/b.service",
    "259:0 +1 /a.slice/b.service",
    "259:0 1.5 /a.slice/b.service",
    "259:0 x /a.slice/b.service",
    "259:0\n10 /a.slice/b.service",
    "259:0 10\n8:0 5 /a.slice/b.service",
    "259:0 10 /a.slice/b.service\0",
    "259:0 10 /a.slice/b.service\0/x",
]


@pytest.mark.parametrize("text", BAD, ids=range(len(BAD)))
def test_what_is_no_order_is_refused(tree: Tree, text: str) -> None:
    assert tree.order(text) == errno.EBADMSG
    assert tree.perf.read_text() == ""
    assert tree.order("259:0 10 /a.slice/b.service") == 0, "the next one is served"


def test_a_message_that_is_too_long(tree: Tree) -> None:
    start = "259:0 10 /a.slice/b.service/"
    assert tree.order(start + "x" * (4096 - len(start))) == errno.ENAMETOOLONG
    assert tree.order(start + "x" * (4097 - len(start))) == errno.EMSGSIZE
    assert tree.order("259:0 10 /" + "./" * 2000 + "a.slice/b.service") == 0


def test_nothing_outside_the_tree_is_written(tree: Tree) -> None:
    outside = tree.top / "io.evenkeel.perf"
    outside.write_text("keep")
    (tree.root / "link").symlink_to(tree.top)
    (tree.root / "inside").symlink_to("a.slice")
    assert tree.order("259:0 10 /..") == errno.EXDEV
    assert tree.order("259:0 10 /a.slice/../..") == errno.EXDEV
    assert tree.order(f"259:0 10 /{tree.top}") == errno.EXDEV
    assert tree.order("259:0 10 /link") == errno.ELOOP
    assert tree.order("259:0 10 /inside/b.service") == errno.ELOOP
    assert outside.read_text() == "keep"
    # an end of another file's name is no way either
    (tree.root / "a.slice/cgroup.procs").write_text("keep")
    assert tree.order("259:0 10 /a.slice/cgroup.procs") == errno.ENOTDIR
    assert (tree.root / "a.slice/cgroup.procs").read_text() == "keep"


def test_it_ends_with_its_connection(tree: Tree) -> None:
    tree.ours.send(b"259:0 10 /a.slice/b.service")
    # without waiting for the answer
    assert tree.end() == (0, "")


def test_wrong_usage(program: Path, tmp_path: Path) -> None:
    def run(*arguments: str | Path, stdin: int) -> tuple[int, str]:
        done = subprocess.run([program, *arguments], stdin=stdin, capture_output=True, text=True, timeout=10)
        assert done.stdout == ""
        assert done.stderr.count("\n") == 1
        return done.returncode, done.stderr

    status, said = run("/a", "/b", stdin=subprocess.DEVNULL)
    assert (status, said[:6]) == (2, "Usage:")
    assert run("here", stdin=subprocess.DEVNULL)[0] == 2
    status, said = run(stdin=subprocess.DEVNULL)
    assert (status, said) == (
        1,
        "ek-regulate: standard input is no connection: Socket operation on non-socket\n",
    )
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        status, said = run(tmp_path / "none", stdin=theirs.fileno())
        assert (status, said[:32]) == (1, f"ek-regulate: cannot open {tmp_path}"[:32])


@settings(deadline=None, max_examples=60)
@given(
    messages=st.lists(
        st.one_of(
            st.binary(min_size=1, max_size=60),
            st.text(alphabet="0123456789: /.ab\n\0", min_size=1, max_size=40).map(str.encode),
            st.from_regex(rb"[0-9]{1,30}:[0-9]{1,30} [0-9]{1,30} /[ab./ ]{0,60}", fullmatch=True),
        ),
        min_size=1,
        max_size=30,
    )
)
def test_any_message_is_answered(program: Path, messages: list[bytes]) -> None:
    """And the tree has no file that was not there, nor anything in one but what an order may hold."""
    import tempfile

    with tempfile.TemporaryDirectory() as top:
        tree = Tree(program, Path(top))
        try:
            for message in messages:
                assert 0 <= tree.order(message) < 256
            assert set(tree.perf.read_bytes()) <= set(b"0123456789: ")
            assert [str(path) for path in tree.root.rglob("*") if path.is_file()] == [str(tree.perf)]
        finally:
            assert tree.end() == (0, "")


def test_the_tree_is_the_kernels_by_default(program: Path) -> None:
    """A cgroup that is not there tells so, without a file being touched."""
    if not os.path.isdir("/sys/fs/cgroup"):  # noqa: PTH112
        pytest.skip("there is no /sys/fs/cgroup here")
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        process = subprocess.Popen([program], stdin=theirs)
        theirs.close()
        ours.send(b"259:0 10 /there-is-no-such-cgroup")
        assert int(ours.recv(64)) == errno.ENOENT
        ours.close()
        assert process.wait(10) == 0
