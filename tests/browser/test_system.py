# SPDX-License-Identifier: Apache-2.0
"""A user at the page *System* of a booted board: backup, restore, support bundle and certificate.

The tests are the steps of one visit. They run in order, and each continues where the previous one ended.
"""

from __future__ import annotations

import json
import re
import sys
import tarfile
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

TOP = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(TOP / "tests"), str(TOP / "tests/browser")]

from boards import Board, until  # noqa: E402
from evenkeel_panel.testing import Authority  # noqa: E402
from pages import PASSWORD, check, logged_in  # noqa: E402


def backup(page: Page, folder: Path) -> Path:
    """Download a backup into FOLDER."""
    page.goto("/system")
    page.locator("#password").fill(PASSWORD)
    with page.expect_download() as download:
        page.get_by_role("button", name="Download a backup").click()
    file = folder / download.value.suggested_filename
    download.value.save_as(file)
    return file


def test_a_wrong_password_gives_no_backup(page: Page) -> None:
    page.goto("/system")
    page.locator("#password").fill("not the password")
    page.get_by_role("button", name="Download a backup").click()
    expect(page.get_by_role("alert")).to_contain_text("password")
    check(page, "backup-refused")


@pytest.mark.posts("/system/backup", "/system/backup/check", "/system/restore")
def test_a_restore_shows_its_changes_and_makes_them(page: Page, board: Board, tmp_path: Path) -> None:
    before = board.run("ekctl weight player")
    channel = "/etc/ek-recorder/channels.d/hook.conf"
    board.run(rf"printf 'record_size = 64\nretain = 2MiB\nread_mode = all\n' > {channel}")
    page.goto("/account")
    page.locator("#token-name").fill("ci")
    page.get_by_role("button", name="Make a token").click()
    expect(page.get_by_role("status").first).to_contain_text("ek_")
    file = backup(page, tmp_path)
    assert re.fullmatch(r"evenkeel-backup-.*\.json", file.name)
    assert json.loads(file.read_text())["content"]["users"]
    board.run(f"ekctl weight player 77; rm {channel}")
    page.goto("/account")
    page.get_by_role("button", name="Remove the token ci").click()
    expect(page.get_by_role("button", name="Remove the token ci")).to_have_count(0)
    page.goto("/system")
    page.locator("#file").set_input_files(file)
    page.get_by_role("button", name="Check the backup").click()
    expect(page.locator("main")).to_contain_text("player")
    expect(page.locator("main")).to_contain_text("The channel hook of the recorder is added")
    expect(page.locator("main")).to_contain_text("The API token ci of admin comes back")
    assert board.run("ekctl weight player") != before, "the check changes nothing"
    check(page, "restore")
    page.get_by_role("button", name="Restore the settings").click()
    expect(page.locator(".banner.ok")).to_be_visible()
    assert board.run("ekctl weight player") == before
    until("the channel records", lambda: "hook" in board.run("ek-recorder status | grep recording || :"))
    page.goto("/account")
    page.get_by_role("button", name="Remove the token ci").click()
    expect(page.get_by_role("button", name="Remove the token ci")).to_have_count(0)
    board.run(f"rm {channel} && systemctl reload-or-restart ek-recorder.service && rm -r /recorder/hook")


def test_a_backup_of_ekctl_has_the_settings_of_the_board(board: Board) -> None:
    """With the real helpers, polkit and sandboxes. Only root may read the file."""
    board.run("rm -f /run/backup.json; ekctl backup /run/backup.json")
    assert board.run("stat -c %a:%U /run/backup.json") == "600:root"
    assert "nothing" in board.run("ekctl restore /run/backup.json --check")
    status, text = board.try_run("ekctl backup /run/backup.json")
    assert (status, "File exists" in text) == (1, True)
    board.run("rm /run/backup.json")


def test_a_file_that_is_no_backup_is_refused(page: Page, tmp_path: Path) -> None:
    (tmp_path / "photo.json").write_text("no backup")
    page.goto("/system")
    page.locator("#file").set_input_files(tmp_path / "photo.json")
    page.get_by_role("button", name="Check the backup").click()
    expect(page.get_by_role("alert")).to_be_visible()


@pytest.mark.posts("/system/support")
def test_the_support_bundle_is_complete_and_has_no_secret(page: Page, tmp_path: Path) -> None:
    page.goto("/system")
    with page.expect_download() as download:
        page.get_by_role("button", name="Download the support bundle").click()
    file = tmp_path / "support.tar.gz"
    download.value.save_as(file)
    with tarfile.open(file) as bundle:
        names = {Path(name).name for name in bundle.getnames()}
        texts = [bundle.extractfile(member) for member in bundle.getmembers() if member.isfile()]
        content = b"".join(text.read() for text in texts if text)
    assert {"README.txt", "journal.txt", "status.json", "apps.json"} <= names
    assert PASSWORD.encode() not in content
    assert b"$argon2id$" not in content


def test_without_javascript_a_backup_is_downloaded(browser: Browser, board: Board, tmp_path: Path) -> None:
    with logged_in(browser, board, script=False) as page:
        assert json.loads(backup(page, tmp_path).read_text())["checksum"]


@pytest.mark.posts("/system/certificate", "/system/certificate/new")
def test_the_certificate_is_shown_and_can_be_replaced(page: Page, board: Board, tmp_path: Path) -> None:
    """Last, because the browser connects again with another certificate."""
    page.goto("/system")
    fingerprint = page.locator("[data-field=fingerprint]")
    shown = fingerprint.inner_text()
    assert shown == json.loads(board.run("ekctl certificate --json"))["fingerprint"]
    for name, text in zip(("board.pem", "board.key"), Authority(tmp_path / "authority").board(), strict=True):
        (tmp_path / name).write_text(text)
    # The clock of an emulated board is slow: for it, a certificate of this moment would not be valid yet.
    board.catch_up()

    # without its key
    page.get_by_label("Certificate (PEM)").set_input_files(tmp_path / "board.pem")
    page.get_by_role("button", name="Install the certificate").click()
    expect(page.get_by_role("alert").first).to_be_visible()
    check(page, "certificate-refused")
    assert fingerprint.inner_text() == shown

    page.get_by_label("Certificate (PEM)").set_input_files(tmp_path / "board.pem")
    page.get_by_label("Its key (PEM)").set_input_files(tmp_path / "board.key")
    page.get_by_role("button", name="Install the certificate").click()
    expect(page.locator(".banner.ok")).to_contain_text("The certificate is installed")
    expect(page.locator("[data-field=issuer]")).to_contain_text("middle")
    installed = fingerprint.inner_text()
    assert installed != shown

    # Browsers remember that the board has a certificate of an authority, so the page asks.
    page.goto("/system")
    page.get_by_role("checkbox", name="Browsers that know the present certificate").check()
    page.get_by_role("button", name="Make a new self-signed certificate").click()
    expect(page.locator(".banner.ok")).to_contain_text("new self-signed certificate")
    assert fingerprint.inner_text() not in (shown, installed)
    page.goto("/system")
    check(page, "certificate")
