# SPDX-License-Identifier: Apache-2.0
"""make-keys, and RAUC's configuration: which bundles a board with these keys accepts."""

import configparser
import os
import subprocess
from pathlib import Path

import pytest

COMPONENT = Path(__file__).resolve().parents[1]
MAKE_KEYS = COMPONENT / "src/make-keys"


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
    succeed(MAKE_KEYS, out)
    return out


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
    done = info(made, keys / "ca.cert.pem", tmp_path)
    assert done.returncode == 0, done.stderr
    assert "9.9.9" in done.stdout


def test_a_board_refuses_other_keys(keys: Path, tmp_path: Path) -> None:
    succeed(MAKE_KEYS, tmp_path / "other")
    made = bundle(tmp_path, tmp_path / "other/sign.key.pem", tmp_path / "other/sign.cert.pem")
    done = info(made, keys / "ca.cert.pem", tmp_path)
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
    assert info(made, keys / "ca.cert.pem", tmp_path).returncode != 0


def test_keys_are_private_and_never_overwritten(keys: Path) -> None:
    before = {path.name: path.read_bytes() for path in keys.iterdir()}
    assert set(before) == {"ca.key.pem", "ca.cert.pem", "sign.key.pem", "sign.cert.pem"}
    assert all(path.stat().st_mode & 0o077 == 0 for path in keys.iterdir())
    done = run(MAKE_KEYS, keys)
    assert done.returncode == 1
    assert "exists" in done.stderr
    assert {path.name: path.read_bytes() for path in keys.iterdir()} == before


def test_without_a_folder_the_command_says_what_is_missing() -> None:
    done = run(MAKE_KEYS, "")
    assert done.returncode == 1
    assert "make keys OUT=" in done.stderr


def test_the_configuration_refuses_old_formats_and_old_versions() -> None:
    found = configuration()
    assert found["system"]["bundle-formats"] == "-plain"
    assert found["system"]["min-bundle-version"] == "@version@"
    assert found["keyring"]["check-purpose"] == "codesign"
    assert {found[f"slot.rootfs.{i}"]["bootname"] for i in (0, 1)} == {"A", "B"}
