# SPDX-License-Identifier: Apache-2.0
"""`make release`: when it refuses before any change, its steps, and the state after a failure."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from project import clean_environment

Release = Callable[..., subprocess.CompletedProcess[str]]
CHANGELOG = """# Changelog

## [Unreleased]

## [0.2.0] - 2026-12-01

- One thing.

### Upgrading

Nothing to do.

## [0.1.0] - 2026-11-01

- The first.
"""
# Fake programs replace the steps that take long. They only record their calls. Other tests cover the real programs.
MAKE = """#!/bin/sh
echo "make $*" >> "$STEPS"
[ "$1" != "$FAIL" ] || exit 1
# As Ctrl-C does, send SIGINT to all processes of the terminal.
[ "$FAIL" != interrupt ] || { kill -INT $PPID; kill -INT $$; }
[ "$FAIL" != commit ] || git commit -q --allow-empty -m "x: during the tests"
[ "$1" = image ] || exit 0
mkdir -p build/image
for kind in img bmap spdx.json licences.txt licences.tar.xz kernel-files; do : > build/image/evenkeel-x86_64.$kind; done
"""
STEP = """#!/bin/sh
echo "${0##*/} $*" >> "$STEPS"
for last; do :; done
case ${0##*/} in enter) exec "$@" ;; esac
echo content > "$last"
"""


@pytest.fixture
def release(clone: Path, tmp_path: Path) -> Release:
    (clone / "VERSION").write_text("0.1.0\n")
    (clone / "CHANGELOG.md").write_text(CHANGELOG)
    programs = tmp_path / "bin"
    programs.mkdir()
    for path, text in (
        (programs / "make", MAKE),
        (clone / "toolroot/enter", STEP),
        (clone / "recipes/image/src/bundle", STEP),
        (clone / "recipes/image/src/package", STEP),
    ):
        path.write_text(text)
        path.chmod(0o755)
    (tmp_path / "key").write_text("key")
    git(clone, "init", "-q")
    git(clone, "add", "-A")
    git(clone, "commit", "-q", "-m", "tests: begin")

    def call(version: str, **environment: str) -> subprocess.CompletedProcess[str]:
        more = dict.fromkeys(("RAUC_KEY_FILE", "RAUC_CERT_FILE", "RAUC_KEYRING_FILE"), str(tmp_path / "key"))
        more |= {"STEPS": str(tmp_path / "steps"), "FAIL": ""}
        more["PATH"] = f"{programs}:{os.environ['PATH']}"
        return subprocess.run(
            [clone / "mk/release", version, clone / "build/release"],
            env=clean_environment(**{**IDENTITY, **more, **environment}), cwd=clone,
            capture_output=True, text=True, timeout=120, check=False,
            # A shell that starts the tests in the background makes them ignore SIGINT. Undo this.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )  # fmt: skip

    call.clone = clone  # type: ignore[attr-defined]
    return call


IDENTITY = {
    f"GIT_{who}_{what}": "test@example" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
}


def git(clone: Path, *args: str) -> str:
    return subprocess.run(
        ["git", *args],
        cwd=clone,
        env=clean_environment(**IDENTITY),
        capture_output=True,
        text=True,
        check=True,
    ).stdout


def changed(clone: Path) -> bool:
    """Whether the clone's version, commits or tags differ from those before the release."""
    version = (clone / "VERSION").read_text() != "0.1.0\n"
    return version or git(clone, "tag") != "" or git(clone, "rev-list", "--count", "HEAD") != "1\n"


@pytest.mark.parametrize(
    ("version", "complaint"),
    [
        ("", "which version? For example: make release VERSION=0.2.0"),
        ("v0.2.0", "VERSION=v0.2.0 is not of the form 1.2.3"),
        ("0.2", "VERSION=0.2 is not of the form 1.2.3"),
        ("0.0.9", "VERSION=0.0.9 is older than the present version, 0.1.0"),
        ("0.3.0", "CHANGELOG.md has no section '## [0.3.0] - DATE'"),
        ("0.1.0", "the section of 0.1.0 in CHANGELOG.md has no note '### Upgrading'"),
    ],
)
def test_bad_versions_are_refused(release: Release, version: str, complaint: str) -> None:
    out = release(version)
    assert out.returncode == 1
    assert complaint in out.stderr
    assert not changed(release.clone)  # type: ignore[attr-defined]


def test_a_tree_with_changes_is_refused_and_they_are_named(release: Release) -> None:
    (release.clone / "new.txt").write_text("new")  # type: ignore[attr-defined]
    out = release("0.2.0")
    assert out.returncode == 1
    assert "changes that are not committed" in out.stderr
    assert "new.txt" in out.stderr


def test_without_a_key_nothing_begins(release: Release) -> None:
    assert "RAUC_KEY_FILE is not set" in release("0.2.0", RAUC_KEY_FILE="").stderr
    assert "RAUC_CERT_FILE: cannot read /none" in release("0.2.0", RAUC_CERT_FILE="/none").stderr
    assert not changed(release.clone)  # type: ignore[attr-defined]


@pytest.mark.parametrize("step", ["test", "image"])
def test_a_failed_step_leaves_the_version_and_no_tag(release: Release, step: str) -> None:
    out = release("0.2.0", FAIL=step)
    assert out.returncode == 1
    assert "VERSION is 0.1.0 again, and no tag was set" in out.stderr
    assert not changed(release.clone)  # type: ignore[attr-defined]


def test_a_release_is_built_versioned_and_tagged(release: Release, tmp_path: Path) -> None:
    out = release("0.2.0")
    assert out.returncode == 0, out.stderr
    clone: Path = release.clone  # type: ignore[attr-defined]
    steps = (tmp_path / "steps").read_text().splitlines()
    makes = [line for line in steps if line.startswith("make")]
    assert makes == ["make test DEEP=1", f"make image KEYRING={tmp_path}/key"]
    assert (clone / "VERSION").read_text() == "0.2.0\n"
    assert git(clone, "log", "-1", "--format=%s").strip() == "release: set version 0.2.0"
    assert git(clone, "tag").split() == ["v0.2.0"]
    assert "One thing." in git(clone, "tag", "-n9", "v0.2.0")
    made = {
        str(p.relative_to(clone / "build/release"))
        for p in (clone / "build/release").rglob("*")
        if p.is_file()
    }
    assert {
        "evenkeel-x86_64-0.2.0.img.zst",
        "evenkeel-x86_64-0.2.0.raucb",
        *(
            f"evenkeel-x86_64-0.2.0.{kind}"
            for kind in ("spdx.json", "licences.txt", "licences.tar.xz", "kernel-files")
        ),
        "evenkeel-0.2.0.tar.zst",
        "SHA256SUMS",
    } <= made
    assert "packages/evenkeel-agent-0.2.0-x86_64.tar.zst" in made
    subprocess.run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=clone / "build/release", check=True)
    listed = {line.split("  ")[1] for line in (clone / "build/release/SHA256SUMS").read_text().splitlines()}
    assert listed == made - {"SHA256SUMS"}
    # the source archive must have the new version
    source = subprocess.run(
        ["tar", "--zstd", "-xOf", clone / "build/release/evenkeel-0.2.0.tar.zst", "evenkeel-0.2.0/VERSION"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert source.stdout == "0.2.0\n"


def test_ctrl_c_restores_the_version(release: Release, tmp_path: Path) -> None:
    """Ctrl-C ends the shell while `make test` runs."""
    out = release("0.2.0", FAIL="interrupt")
    assert out.returncode != 0
    assert "VERSION is 0.1.0 again" in out.stderr
    assert not changed(release.clone)  # type: ignore[attr-defined]


def test_a_commit_during_the_tests_ends_the_release(release: Release) -> None:
    out = release("0.2.0", FAIL="commit")
    assert out.returncode == 1
    assert "the tree changed while the release was made" in out.stderr
    assert git(release.clone, "tag") == ""  # type: ignore[attr-defined]


def test_the_same_release_is_not_made_twice(release: Release) -> None:
    assert release("0.2.0").returncode == 0
    out = release("0.2.0")
    assert out.returncode == 1
    assert "the tag v0.2.0 exists" in out.stderr
