# SPDX-License-Identifier: Apache-2.0
"""A user at the page *Updates* of a booted board: sees both slots, gets a reason for each refused bundle, and installs one.

The board never starts the installed version: tests/boot/test_update.py does that. The tests are the steps of one visit. They
run in order, and each continues where the previous one ended.
"""

from __future__ import annotations

import http.server
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

TOP = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(TOP / "tests"), str(TOP / "tests/browser")]

import posts  # noqa: E402
from boards import Board  # noqa: E402
from pages import check, logged_in, tab_to  # noqa: E402
from ranges import Server  # noqa: E402
from sample import DEEP  # noqa: E402

NEWER = "99.0.0"
KEYRING = "/usr/lib/rauc/keyring.pem"


@pytest.fixture(scope="module")
def bundle(board: Board, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A small bundle, which the board trusts while the fixture lasts. It has no file system, so it would not start."""
    folder = tmp_path_factory.mktemp("update")
    keys, root, made = folder / "keys", folder / "root.ext4", folder / "small.raucb"

    def run(*argv: str | Path, **environment: str) -> None:
        subprocess.run(argv, check=True, env={**os.environ, **environment}, stdout=subprocess.DEVNULL)

    run(TOP / "recipes/update/src/keys", "new", keys)
    root.write_bytes(os.urandom(1 << 20))
    signer = {"RAUC_KEY_FILE": str(keys / "sign.key.pem"), "RAUC_CERT_FILE": str(keys / "sign.cert.pem")}
    run(TOP / "recipes/image/src/bundle", root, NEWER, made, EVENKEEL_BUNDLE_LEVEL="1", **signer)
    authority = (keys / "keyring.pem").read_text()
    # The clock of an emulated board is slow: for it, certificates of this moment would not be valid yet.
    board.catch_up()
    board.run(f"cat > /run/authority.pem <<'END'\n{authority}END")
    board.run(f"mount --bind /run/authority.pem {KEYRING} && systemctl try-restart rauc.service")
    yield made
    board.run(f"umount {KEYRING} && systemctl try-restart rauc.service")


def test_the_slots_are_shown(page: Page) -> None:
    page.goto("/update")
    expect(page.get_by_role("heading", level=1)).to_have_text("Updates")
    expect(page.locator("[data-slot]")).to_have_count(2)
    expect(page.locator('[data-slot="A"]')).to_contain_text("runs")
    data = page.request.get("/update.json").json()
    assert page.locator('[data-field="version"]').inner_text() == data["version"]
    check(page, "update")


def test_a_file_that_is_no_bundle_is_refused_with_a_reason(page: Page, tmp_path: Path) -> None:
    file = tmp_path / "photo.raucb"
    file.write_bytes(b"no bundle" * 1000)
    page.locator("#bundle").set_input_files(file)
    page.get_by_role("button", name="Upload and check").click()
    message = page.locator("#upload-message")
    expect(message).to_have_class("message bad")
    expect(message).not_to_be_empty()
    expect(page.locator("#install-upload")).to_be_hidden()
    check(page, "update-refused")


def test_a_url_that_does_not_answer_is_refused_with_a_reason(page: Page) -> None:
    page.goto("/update")
    page.locator("#source").fill("https://127.0.0.1:9/evenkeel.raucb")
    page.get_by_role("button", name="Check", exact=True).click()
    expect(page.get_by_role("alert").first).not_to_be_empty()
    # nothing is installed, and the page offers to try again
    expect(page.locator("#source")).to_be_visible()
    assert page.request.get("/update.json").json()["state"] != "installing"
    check(page, "update-url-refused")


def test_the_keyboard_is_enough(page: Page) -> None:
    page.goto("/update")
    page.locator("#source").focus()
    page.keyboard.type("https://127.0.0.1:9/evenkeel.raucb")
    tab_to(page, "Check")
    page.keyboard.press("Enter")
    expect(page.get_by_role("alert").first).not_to_be_empty()
    tab_to(page, "Restart the board")


def test_the_page_without_javascript_installs_from_a_url(browser: Browser, board: Board) -> None:
    with logged_in(browser, board, script=False) as page:
        page.goto("/update")
        # an upload needs JavaScript; Chromium does not show <noscript>, which says so, if Playwright switches scripts off
        expect(page.locator("#bundle")).to_be_disabled()
        page.locator("#source").fill("https://127.0.0.1:9/evenkeel.raucb")
        page.get_by_role("button", name="Check", exact=True).click()
        expect(page.get_by_role("alert").first).not_to_be_empty()


def test_the_page_needs_a_log_in(browser: Browser, board: Board) -> None:
    context = browser.new_context(ignore_https_errors=True, base_url=f"https://127.0.0.1:{board.port}")
    stranger = context.new_page()
    stranger.goto("/update")
    expect(stranger.locator("input[name=password]")).to_be_visible()
    context.close()


@pytest.mark.posts("/upload/bundle", "/update/remove")
def test_an_uploaded_bundle_is_stored_until_it_is_removed(page: Page, bundle: Path) -> None:
    page.goto("/update")
    page.locator("#bundle").set_input_files(bundle)
    page.get_by_role("button", name="Upload and check").press("Enter")
    expect(page.locator("#upload-message")).to_contain_text(f"The bundle contains version {NEWER}")
    expect(page.get_by_role("button", name="Install", exact=True)).to_be_focused()
    check(page, "update-uploaded")
    page.goto("/update")
    expect(page.get_by_role("button", name="Install the stored bundle")).to_be_visible()
    remove = page.get_by_role("button", name="Remove it")
    remove.click()
    expect(page.get_by_role("status").first).to_contain_text("was removed")
    expect(remove).to_have_count(0)


@pytest.mark.posts("/update/slot")
def test_the_other_slot_is_chosen_for_the_next_start_and_back(page: Page) -> None:
    page.goto("/update")
    for name in ("B", "A"):
        page.get_by_role("button", name=f"Start slot {name} next time").press("Enter")
        expect(page.get_by_role("status").first).to_contain_text(f"The board starts slot {name} next time.")
        expect(page.locator(f'[data-slot="{name}"]')).to_contain_text("this slot")


@pytest.mark.skipif(not DEEP, reason="RAUC reads both slots, which takes a minute: DEEP=1 runs it")
@pytest.mark.posts("/update/inspect", "/update/install")
def test_a_bundle_from_a_url_is_installed_and_the_running_slot_is_chosen_again(
    page: Page, bundle: Path
) -> None:
    handler = partial(Server, directory=str(bundle.parent))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        page.goto("/update")
        # QEMU's address of this machine, as the board sees it
        page.locator("#source").fill(f"http://10.0.2.2:{server.server_address[1]}/{bundle.name}")
        page.get_by_role("button", name="Check", exact=True).click()
        install = page.get_by_role("button", name=f"Install version {NEWER}")
        expect(install).to_be_visible()
        check(page, "update-inspected")
        install.press("Enter")
        expect(page.get_by_role("status").first).to_contain_text("The installation has begun.")
        # The page renews itself until the end. It must not send the form again.
        expect(page.get_by_role("button", name="Restart now")).to_be_visible()
        expect(page).to_have_url(re.compile("/update$"))
        assert posts.accepted.count("/update/install") == 1
        server.shutdown()
    expect(page.locator('[data-slot="B"]')).to_contain_text(NEWER)
    expect(page.locator('[data-slot="B"]')).to_contain_text("this slot")
    check(page, "update-installed")
    page.get_by_role("button", name="Start slot A next time").click()
    expect(page.get_by_role("status").first).to_contain_text("The board starts slot A next time.")
    expect(page.locator('[data-slot="A"]')).to_contain_text("this slot")
