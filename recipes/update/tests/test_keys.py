# SPDX-License-Identifier: Apache-2.0
"""The program `keys`, and RAUC's configuration: which bundles a board with these keys accepts."""

import configparser
import os
import shutil
import subprocess
from pathlib import Path

import pytest

COMPONENT = Path(__file__).resolve().parents[1]
KEYS = COMPONENT / "src/keys"


def run(*argv: str | Path, **more: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "EVENKEEL_INSIDE": "yes", **more}
    return subprocess.run(
        [str(word) for word in argv], capture_output=True, text=True, env=environment, check=False
    )


def succeed(*argv: str | Path) -> str:
    done = run(*argv)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("keys") / "new"
    succeed(KEYS, "new", out)
    return out


@pytest.fixture
def changed(keys: Path, tmp_path: Path) -> Path:
    """A copy of the keys, which a test may change."""
    return Path(shutil.copytree(keys, tmp_path / "changed"))


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def bundle(folder: Path, key: Path, cert: Path) -> Path:
    """A small signed bundle."""
    content = folder / "content"
    content.mkdir()
    (content / "root.ext4").write_bytes(os.urandom(1 << 16))
    (content / "manifest.raucm").write_text(
        "[update]\ncompatible=evenkeel-x86_64\nversion=9.9.9\n[bundle]\nformat=verity\n[image.rootfs]\nfilename=root.ext4\n"
    )
    succeed("rauc", "bundle", f"--key={key}", f"--cert={cert}", content, folder / "x.raucb")
    return folder / "x.raucb"


def configuration() -> configparser.ConfigParser:
    text = (COMPONENT / "data/system.conf.in").read_text()
    parser = configparser.ConfigParser(interpolation=None)
    parser.read_string(text)
    return parser


def info(file: Path, keyring: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    """What RAUC says about a bundle, with the purpose that the board's configuration demands."""
    conf = folder / "system.conf"
    found = configuration()
    found["system"] = {"compatible": "evenkeel-x86_64", "bootloader": "noop", "bundle-formats": "-plain"}
    found["keyring"]["path"] = str(keyring)
    for section in [name for name in found.sections() if name.startswith("slot.")]:
        found.remove_section(section)
    with conf.open("w") as out:
        found.write(out, space_around_delimiters=False)
    return run("rauc", f"--conf={conf}", "info", file)


def test_a_board_accepts_what_the_keys_sign(keys: Path, tmp_path: Path) -> None:
    made = bundle(tmp_path, keys / "sign.key.pem", keys / "sign.cert.pem")
    done = info(made, keys / "keyring.pem", tmp_path)
    assert done.returncode == 0, done.stderr
    assert "9.9.9" in done.stdout


def test_a_board_refuses_other_keys(keys: Path, tmp_path: Path) -> None:
    succeed(KEYS, "new", tmp_path / "other")
    made = bundle(tmp_path, tmp_path / "other/sign.key.pem", tmp_path / "other/sign.cert.pem")
    done = info(made, keys / "keyring.pem", tmp_path)
    assert done.returncode != 0
    assert "signature verification failed" in done.stderr.lower() or "verify error" in done.stderr.lower()


def test_a_certificate_for_another_purpose_signs_no_bundle(tmp_path: Path) -> None:
    """For example the certificate of a web server, issued by the same authority."""
    cert, key = tmp_path / "web.pem", tmp_path / "web.key"
    usage = "extendedKeyUsage=serverAuth"
    succeed(
        "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
        "-subj", "/CN=web", "-addext", usage, "-keyout", key, "-out", cert,
    )  # fmt: skip
    made = bundle(tmp_path, key, cert)
    done = info(made, cert, tmp_path)
    assert done.returncode != 0
    assert "purpose" in done.stderr


def test_a_flipped_byte_is_refused(keys: Path, tmp_path: Path) -> None:
    made = bundle(tmp_path, keys / "sign.key.pem", keys / "sign.cert.pem")
    data = bytearray(made.read_bytes())
    data[-100] ^= 1
    made.write_bytes(data)
    assert info(made, keys / "keyring.pem", tmp_path).returncode != 0


def test_keys_are_private_and_never_overwritten(keys: Path) -> None:
    before = contents(keys)
    assert {"ca.key.pem", "ca.cert.pem", "sign.key.pem", "sign.cert.pem", "keyring.pem"} <= set(before)
    assert all(path.stat().st_mode & 0o077 == 0 for path in keys.iterdir())
    done = run(KEYS, "new", keys)
    assert done.returncode == 1
    assert "exists" in done.stderr
    assert contents(keys) == before


def test_without_a_folder_the_command_says_what_is_missing() -> None:
    for action in ("new", "show", "revoke"):
        done = run(KEYS, action, "")
        assert done.returncode == 1
        assert "make keys OUT=" in done.stderr


def accepted(keys: Path, keyring: Path, folder: Path, signer: str = "sign") -> str:
    """Empty if a board with this keyring accepts what a signer of KEYS signs, else RAUC's reason."""
    folder.mkdir()
    made = bundle(folder, keys / f"{signer}.key.pem", keys / f"{signer}.cert.pem")
    done = info(made, keyring, folder)
    return "" if done.returncode == 0 else done.stderr


def test_a_new_signing_key_needs_no_new_keyring(keys: Path, changed: Path, tmp_path: Path) -> None:
    shown = succeed(KEYS, "signer", changed)
    assert "earlier/sign-1.cert.pem    valid, until " in shown
    assert (changed / "sign.key.pem").read_bytes() != (keys / "sign.key.pem").read_bytes()
    assert (changed / "earlier/sign-1.key.pem").read_bytes() == (keys / "sign.key.pem").read_bytes()
    assert accepted(changed, keys / "keyring.pem", tmp_path / "a") == ""
    assert accepted(changed, changed / "keyring.pem", tmp_path / "b", "earlier/sign-1") == ""


def test_a_revoked_key_signs_nothing_more(keys: Path, changed: Path, tmp_path: Path) -> None:
    succeed(KEYS, "signer", changed)
    shown = succeed(KEYS, "revoke", changed, changed / "earlier/sign-1.cert.pem")
    assert "earlier/sign-1.cert.pem    certificate revoked, until " in shown
    assert "certificate revoked" in accepted(
        changed, changed / "keyring.pem", tmp_path / "a", "earlier/sign-1"
    )
    assert accepted(changed, changed / "keyring.pem", tmp_path / "b") == ""
    # a board whose image has not been updated yet
    assert accepted(changed, keys / "keyring.pem", tmp_path / "c", "earlier/sign-1") == ""
    before = contents(changed)
    done = run(KEYS, "revoke", changed, changed / "earlier/sign-1.cert.pem")
    assert done.returncode == 1
    assert "is revoked already" in done.stderr
    assert contents(changed) == before
    # a second one joins the first
    succeed(KEYS, "revoke", changed, changed / "sign.cert.pem")
    for number, signer in enumerate(("sign", "earlier/sign-1")):
        assert "certificate revoked" in accepted(
            changed, changed / "keyring.pem", tmp_path / f"d{number}", signer
        )


def test_boards_go_to_a_new_authority_in_two_steps(keys: Path, changed: Path, tmp_path: Path) -> None:
    succeed(KEYS, "authority", changed)
    both = tmp_path / "both.pem"
    shutil.copy(changed / "keyring.pem", both)
    # Old boards accept only the old key. An image with the new keyring accepts both.
    assert accepted(changed, keys / "keyring.pem", tmp_path / "a") != ""
    assert accepted(changed, keys / "keyring.pem", tmp_path / "b", "earlier/sign-1") == ""
    assert accepted(changed, both, tmp_path / "c") == ""
    assert accepted(changed, both, tmp_path / "d", "earlier/sign-1") == ""
    # a key of the old authority can be revoked as long as the authority is there
    shown = succeed(KEYS, "revoke", changed, changed / "earlier/sign-1.cert.pem")
    assert "earlier/ca-1.cert.pem      valid, until " in shown
    assert "certificate revoked" in accepted(
        changed, changed / "keyring.pem", tmp_path / "e", "earlier/sign-1"
    )
    assert accepted(changed, changed / "keyring.pem", tmp_path / "f") == ""
    for file in (changed / "earlier").glob("ca-1.*"):
        file.unlink()
    succeed(KEYS, "show", changed)
    assert accepted(changed, changed / "keyring.pem", tmp_path / "g", "earlier/sign-1") != ""
    assert accepted(changed, changed / "keyring.pem", tmp_path / "h") == ""


def test_keys_that_were_made_without_a_list_get_one(keys: Path, changed: Path, tmp_path: Path) -> None:
    for name in ("keyring.pem", "ca.crl.pem", "ca.index", "ca.crlnumber"):
        (changed / name).unlink()
    assert accepted(keys, keys / "ca.cert.pem", tmp_path / "a") != "", (
        "a board without a list refuses all bundles"
    )
    succeed(KEYS, "show", changed)
    assert accepted(keys, changed / "keyring.pem", tmp_path / "b") == ""


@pytest.mark.parametrize("gone", [["ca.index", "ca.crl.pem", "ca.crlnumber"], ["ca.index"]])
def test_a_revocation_is_never_lost(changed: Path, gone: list[str]) -> None:
    """Somebody may restore only the files that he knows."""
    succeed(KEYS, "signer", changed)
    succeed(KEYS, "revoke", changed, changed / "earlier/sign-1.cert.pem")
    for name in gone:
        (changed / name).unlink()
    before = contents(changed)
    order = ["show"] if len(gone) > 1 else ["revoke", str(changed / "sign.cert.pem")]
    done = run(KEYS, order[0], changed, *order[1:])
    assert done.returncode == 1
    assert "Copy its files crl.pem and index from a backup" in done.stderr
    assert contents(changed) == before


def test_an_authority_is_not_revoked(changed: Path) -> None:
    """No board would accept a bundle any more."""
    shutil.copy(changed / "ca.cert.pem", changed / "copy.pem")
    done = run(KEYS, "revoke", changed, changed / "copy.pem")
    assert done.returncode == 1
    assert "RENEW=authority" in done.stderr


def test_two_calls_at_once_follow_each_other(changed: Path) -> None:
    environment = {**os.environ, "EVENKEEL_INSIDE": "yes"}
    running = [
        subprocess.Popen([KEYS, "signer", changed], env=environment, stdout=subprocess.DEVNULL)
        for _ in range(4)
    ]
    assert [process.wait(60) for process in running] == [0] * 4
    assert len(list((changed / "earlier").glob("sign-*.cert.pem"))) == 4
    assert {path.name for path in changed.parent.iterdir()} == {"changed"}


def test_the_guide_works_with_a_certificate_in_the_folder(tmp_path: Path) -> None:
    """As `make keys` calls it: through the build root, which shows the folder. The path has a space."""
    top = COMPONENT.parents[1]
    folder = top / "build/test keys"
    shutil.rmtree(folder, ignore_errors=True)
    environment = {name: value for name, value in os.environ.items() if name != "EVENKEEL_INSIDE"}
    environment["EVENKEEL_INSIDE"] = ""

    def call(*arguments: str | Path) -> None:
        argv = [str(word) for word in (KEYS, *arguments)]
        done = subprocess.run(argv, capture_output=True, text=True, env=environment, check=False)
        assert (done.returncode, done.stderr) == (0, "")

    try:
        call("new", folder)
        call("signer", folder)
        call("revoke", folder, folder / "earlier/sign-1.cert.pem")
        assert {path.name for path in folder.parent.glob("test keys*")} == {"test keys"}
    finally:
        shutil.rmtree(folder)


def test_a_key_on_a_smart_card_gets_a_certificate(keys: Path, changed: Path, tmp_path: Path) -> None:
    card, request = tmp_path / "card.key.pem", tmp_path / "card.csr"
    succeed("openssl", "req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
            "-subj", "/CN=card", "-keyout", card, "-out", request)  # fmt: skip
    succeed(KEYS, "signer", changed, request)
    assert not (changed / "sign.key.pem").exists()
    made = bundle(tmp_path, card, changed / "sign.cert.pem")
    done = info(made, keys / "keyring.pem", tmp_path)
    assert done.returncode == 0, done.stderr
    succeed(KEYS, "signer", changed)
    assert (changed / "sign.key.pem").exists()


def with_dates(keys: Path, folder: Path, begin: str, end: str) -> Path:
    """A certificate of the signing key that is valid from BEGIN to END (YYYYMMDDHHMMSSZ)."""
    request, made, extensions = folder / "csr", folder / "dated.pem", folder / "ext"
    extensions.write_text(
        "basicConstraints=critical,CA:FALSE\nkeyUsage=critical,digitalSignature\n"
        "extendedKeyUsage=critical,codeSigning\n"
    )
    succeed("openssl", "req", "-new", "-key", keys / "sign.key.pem", "-subj", "/CN=x", "-out", request)
    succeed("openssl", "x509", "-req", "-in", request, "-CA", keys / "ca.cert.pem", "-CAkey", keys / "ca.key.pem",
            "-not_before", begin, "-not_after", end, "-extfile", extensions, "-out", made)  # fmt: skip
    return made


@pytest.mark.parametrize(
    ("begin", "end", "reason"),
    [
        ("20200101000000Z", "20210101000000Z", "certificate has expired"),
        ("20900101000000Z", "20910101000000Z", "certificate is not yet valid"),
    ],
)
def test_a_certificate_counts_only_in_its_time(
    keys: Path, tmp_path: Path, begin: str, end: str, reason: str
) -> None:
    made = bundle(tmp_path, keys / "sign.key.pem", with_dates(keys, tmp_path, begin, end))
    done = info(made, keys / "keyring.pem", tmp_path)
    assert done.returncode != 0
    assert reason in done.stderr


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["dance"], "the actions are"),
        (["revoke"], "which certificate?"),
        (["revoke", "missing.pem"], "there is no file"),
        (["revoke", "stranger.pem"], "no authority in"),
        (["signer", "stranger.pem"], "openssl failed"),
    ],
)
def test_an_error_says_what_to_do_and_changes_nothing(
    changed: Path, tmp_path: Path, arguments: list[str], complaint: str
) -> None:
    succeed("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
            "-subj", "/CN=stranger", "-keyout", tmp_path / "k", "-out", tmp_path / "stranger.pem")  # fmt: skip
    before = contents(changed)
    done = run(KEYS, arguments[0], changed, *(tmp_path / name for name in arguments[1:]))
    assert done.returncode == 1
    assert complaint.lower() in done.stderr.lower()
    assert contents(changed) == before
    assert {path.name for path in tmp_path.iterdir()} == {"changed", "k", "stranger.pem"}


def test_a_folder_without_an_authority_is_named(tmp_path: Path) -> None:
    done = run(KEYS, "signer", tmp_path / "nothing")
    assert done.returncode == 1
    assert "nothing has no authority" in done.stderr


def test_the_configuration_refuses_old_formats_and_old_versions() -> None:
    found = configuration()
    assert found["system"]["bundle-formats"] == "-plain"
    assert found["system"]["min-bundle-version"] == "@version@"
    assert found["keyring"]["check-purpose"] == "codesign"
    assert found["keyring"]["check-crl"] == "true"
    assert {found[f"slot.rootfs.{i}"]["bootname"] for i in (0, 1)} == {"A", "B"}
