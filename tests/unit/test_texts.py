# SPDX-License-Identifier: Apache-2.0
"""Checks of text: sentences of documents, commit messages, links between documents."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from urllib.parse import unquote

import pytest
from project import TOP, clean_environment, load

sentences = load(TOP / "tests/sentences")


def test_what_counts_as_a_sentence() -> None:
    text = """# A heading

One sentence. `make` starts another one, e.g. this.
It goes on. [A link](x.md) is text!

| a | table |
- an item
- a second one: It has two parts.

```sh
not this
```
<!-- generated: x -->
Nor this.
<!-- end -->
"""
    assert sentences.sentences(text) == [
        "One sentence.",
        "Code starts another one, e.g\u2024 this.",
        "It goes on.",
        "A link is text!",
        "an item",
        "a second one:",
        "It has two parts.",
    ]


@pytest.mark.parametrize(("words", "status"), [(35, 0), (36, 1)])
def test_a_sentence_that_is_too_long_fails(tmp_path: Path, words: int, status: int) -> None:
    page = tmp_path / "page.md"
    page.write_text(" ".join(["word"] * words) + ".\n\n" + "Short. " * 40)
    out = subprocess.run(
        [TOP / "tests/sentences", "--check", page], capture_output=True, text=True, check=False
    )
    assert out.returncode == status
    assert ("36 words, at most 35" in out.stdout) is bool(status)


def test_a_mean_that_is_too_long_fails(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text((" ".join(["word"] * 20) + ". ").replace(". w", ". W"))
    out = subprocess.run(
        [TOP / "tests/sentences", "--check", page], capture_output=True, text=True, check=False
    )
    assert out.returncode == 1
    assert "20.0 words on average" in out.stdout


# --- commits -------------------------------------------------------------------

GOOD = "lab: count requests in a window\n\nWhy.\n"


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    (tmp_path / "tests").mkdir()
    git(tmp_path, "init", "-q", "-b", "main")
    git(
        tmp_path,
        "commit",
        "-q",
        "--allow-empty",
        "-m",
        "An old commit. " * 6,
    )
    (tmp_path / "tests/lint-commits").write_bytes((TOP / "tests/lint-commits").read_bytes())
    (tmp_path / "tests/lint-commits").chmod(0o755)
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-q", "-m", GOOD)
    return tmp_path


def git(top: Path, *args: str) -> None:
    identity = {
        f"GIT_{who}_{what}": "test@example" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
    }
    subprocess.run(
        ["git", *args], cwd=top, env=clean_environment(**identity), check=True, capture_output=True
    )


def lint(top: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([top / "tests/lint-commits"], capture_output=True, text=True, check=False)


def test_old_history_is_not_checked(repository: Path) -> None:
    assert lint(repository).returncode == 0


@pytest.mark.parametrize(
    ("message", "complaint"),
    [
        ("lab: " + "x" * 68 + "\n\nWhy.", "the subject has 73 characters; at most 72"),
        ("Lab: Count requests\n\nWhy.", "is not 'area: imperative subject'"),
        ("count requests\n\nWhy.", "is not 'area: imperative subject'"),
        ("lab: count requests.\n\nWhy.", "ends with a full stop"),
        ("lab: count requests", "there is no body"),
    ],
)
def test_a_bad_message_is_named(repository: Path, message: str, complaint: str) -> None:
    git(repository, "commit", "-q", "--allow-empty", "-m", message)
    out = lint(repository)
    assert out.returncode == 1
    assert complaint in out.stdout


@pytest.mark.parametrize(
    "subject", ["lab: count requests", "recipes/agent: set weights", "docs, webui: say it once"]
)
def test_good_messages_pass(repository: Path, subject: str) -> None:
    git(repository, "commit", "-q", "--allow-empty", "-m", f"{subject}\n\nWhy.")
    assert lint(repository).returncode == 0


# --- links ---------------------------------------------------------------------

LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)|!\[[^\]]*\]\(([^)\s]+)\)")
PAGES = [
    path for path in TOP.rglob("*.md") if not {"build", "LICENSES", ".git"} & set(path.relative_to(TOP).parts)
]


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, by the rules of the sites that show the pages."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    found: set[str] = set()
    for heading in re.findall(r"^#+ (.*)$", text, re.MULTILINE):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").lower()
        found.add(re.sub(r"[^\w\- ]", "", plain).strip().replace(" ", "-"))
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(TOP)))
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    for match in LINK.finditer(text):
        target, _, anchor = unquote(match[1] or match[2]).partition("#")
        if re.match(r"[a-z]+:", target):
            continue
        other = (page.parent / target).resolve() if target else page
        assert other.exists(), f"{page.relative_to(TOP)} links to {target}, which does not exist"
        if anchor and other.suffix == ".md":
            assert anchor in anchors(other), f"{page.relative_to(TOP)}: {target}#{anchor} is no heading there"


def test_every_page_is_in_the_index() -> None:
    index = (TOP / "docs/README.md").read_text()
    missing = [
        str(page.relative_to(TOP / "docs"))
        for page in (TOP / "docs").rglob("*.md")
        if page.name != "README.md" and f"({page.relative_to(TOP / 'docs')})" not in index
    ]
    assert not missing, f"docs/README.md does not link {missing}"


def test_the_glossary_is_short() -> None:
    terms = re.findall(r"^(?:\*\*|\| \*\*|### |- \*\*)", (TOP / "docs/glossary.md").read_text(), re.MULTILINE)
    assert 20 <= len(terms) <= 60


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(TOP)))
def test_each_table_begins_with_a_heading_row(page: Path) -> None:
    """A blank line ends a table, so rows after it would be shown as text."""
    lines = re.sub(r"(?ms)^```.*?^```", "", page.read_text()).splitlines()
    for before, line, after in zip(["", *lines], lines, [*lines[1:], ""], strict=False):
        if line.startswith("|") and not before.startswith("|"):
            assert re.fullmatch(r"\|[-:| ]+\|", after), line
