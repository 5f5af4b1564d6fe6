# SPDX-License-Identifier: Apache-2.0
"""ek-fixed-share on plain files, built with sanitizers: it carries out orders and writes nothing else."""

import errno
import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

COMPONENT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("fixed-share") / "ek-fixed-share"
    subprocess.run(
        ["gcc", "-std=gnu17", "-D_GNU_SOURCE", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-Wshadow",
         "-Wmissing-prototypes", "-Wstrict-prototypes", "-fsanitize=address,undefined",
         "-fno-sanitize-recover=all", "-o", str(out), str(COMPONENT / "src/ek_fixed_share.c")],
        check=True,
    )  # fmt: skip
    return out


class Tree:
    """Plain files in place of the cgroup of the apps' slice, and a connection to a running ek-fixed-share."""

    def __init__(self, program: Path, top: Path) -> None:
        self.top = top
        self.root = top / "cgroup"
        self.fixed = self.root / "a.slice/b.service/io.evenkeel.fixed"
        self.fixed.parent.mkdir(parents=True)
        self.fixed.touch()
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
        _, stderr = self.process.communicate(timeout=10)
        return self.process.returncode, stderr


@pytest.fixture
def tree(program: Path, tmp_path: Path) -> Iterator[Tree]:
    tree = Tree(program, tmp_path)
    yield tree
    tree.process.kill()
    tree.end()


def test_orders_are_carried_out(tree: Tree) -> None:
    assert tree.order("259:0 10 /a.slice/b.service") == 0
    assert tree.fixed.read_text() == "259:0 10"
    tree.fixed.write_text("")
    assert tree.order("8:16 0 /a.slice/b.service") == 0
    assert tree.fixed.read_text() == "8:16 0"
    assert tree.end() == (0, "")


def test_errors_of_the_kernel_are_passed_on(tree: Tree) -> None:
    assert tree.order("259:0 10 /a.slice") == errno.ENOENT
    assert tree.order("259:0 10 /gone") == errno.ENOENT
    tree.fixed.unlink()
    tree.fixed.symlink_to("/dev/full")
    assert tree.order("259:0 10 /a.slice/b.service") == errno.ELOOP
    tree.fixed.unlink()
    tree.fixed.mkdir()
    assert tree.order("259:0 10 /a.slice/b.service") == errno.EISDIR


BAD = [
    " ",
    "259:0 10",
    "259:0 10 ",
    "259:0 10 /",
    "259:0 10 /.",
    "259:0 10 /..",
    "259:0 10 //",
    "259:0 10 /a.slice/",
    "259:0 10 /a.slice/.",
    "259:0 10 /a.slice/../b",
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
def test_a_malformed_order_is_refused(tree: Tree, text: str) -> None:
    assert tree.order(text) == errno.EBADMSG
    assert tree.fixed.read_text() == ""
    assert tree.order("259:0 10 /a.slice/b.service") == 0, "the next order is carried out"


def test_a_message_that_is_too_long(tree: Tree) -> None:
    start = "259:0 10 /a.slice/b.service/"
    assert tree.order(start + "x" * (4096 - len(start))) == errno.ENAMETOOLONG
    assert tree.order(start + "x" * (4097 - len(start))) == errno.EMSGSIZE


def test_nothing_outside_the_tree_is_written(tree: Tree) -> None:
    outside = tree.top / "io.evenkeel.fixed"
    outside.write_text("keep")
    (tree.root / "link").symlink_to(tree.top)
    (tree.root / "inside").symlink_to("a.slice")
    assert tree.order("259:0 10 /..") == errno.EBADMSG
    assert tree.order("259:0 10 /a.slice/../..") == errno.EBADMSG
    assert tree.order(f"259:0 10 /{tree.top}") == errno.EBADMSG
    assert tree.order("259:0 10 /link") == errno.ELOOP
    assert tree.order("259:0 10 /inside/b.service") == errno.ELOOP
    assert outside.read_text() == "keep"
    # The slice itself is not an app, however its path is written.
    own = tree.root / "io.evenkeel.fixed"
    own.write_text("keep")
    for path in ("/", "/.", "//", "/./.", "/a.slice/..", "/a.slice/../.", "/."):
        assert tree.order(f"259:0 10 {path}") == errno.EBADMSG
    assert own.read_text() == "keep"
    own.unlink()
    # A path to another file in the tree is refused, too.
    (tree.root / "a.slice/cgroup.procs").write_text("keep")
    assert tree.order("259:0 10 /a.slice/cgroup.procs") == errno.ENOTDIR
    assert (tree.root / "a.slice/cgroup.procs").read_text() == "keep"


def test_it_ends_with_its_connection(tree: Tree) -> None:
    tree.ours.send(b"259:0 10 /a.slice/b.service")
    # do not wait for the answer
    assert tree.end() == (0, "")


def test_wrong_usage(program: Path) -> None:
    def run(*arguments: str | Path, stdin: int) -> tuple[int, str]:
        done = subprocess.run([program, *arguments], stdin=stdin, capture_output=True, text=True, timeout=10)
        assert done.stdout == ""
        assert done.stderr.count("\n") == 1
        return done.returncode, done.stderr

    status, stderr = run("/a", "/b", stdin=subprocess.DEVNULL)
    assert (status, stderr[:6]) == (2, "Usage:")
    assert run("here", stdin=subprocess.DEVNULL)[0] == 2
    status, stderr = run(stdin=subprocess.DEVNULL)
    assert (status, stderr) == (
        1,
        "ek-fixed-share: standard input is not a connection of evenkeel-fixed-share.socket:"
        " Socket operation on non-socket\n",
    )


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
    """Whatever the messages contain, no file is created, and only characters of a valid order are written."""
    import tempfile

    with tempfile.TemporaryDirectory() as top:
        tree = Tree(program, Path(top))
        try:
            for message in messages:
                assert 0 <= tree.order(message) < 256
            assert set(tree.fixed.read_bytes()) <= set(b"0123456789: ")
            assert [str(path) for path in tree.root.rglob("*") if path.is_file()] == [str(tree.fixed)]
        finally:
            assert tree.end() == (0, "")


def test_without_the_slice_an_order_has_no_cgroup(program: Path) -> None:
    """The default directory is the cgroup of evenkeel-apps.slice, which a build machine does not have."""
    if os.path.isdir("/sys/fs/cgroup/evenkeel.slice/evenkeel-apps.slice"):  # noqa: PTH112
        pytest.skip("this machine has apps")
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        process = subprocess.Popen([program], stdin=theirs)
        theirs.close()
        ours.send(b"259:0 10 /there-is-no-such-cgroup")
        assert int(ours.recv(64)) == errno.ENOENT
        ours.close()
        assert process.wait(10) == 0
