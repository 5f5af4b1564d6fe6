# SPDX-License-Identifier: Apache-2.0
"""Images, root file systems and signed bundles for tests of updates."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "recipes/image/src"))
from vm import IMAGE, TOP, enter


class Factory:
    """Makes root file systems, images and bundles in FOLDER."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for name in ("keys", "other"):
            self._keys("new", folder / name)
        self._bad_signers()
        table = json.loads(self._output("sfdisk", "--json", IMAGE))["partitiontable"]
        self._slots = [part for part in table["partitions"] if part["name"] in ("root-a", "root-b")]
        assert len(self._slots) == 2
        self.root = folder / "root.ext4"
        start, size = (self._slots[0][key] * 512 for key in ("start", "size"))
        self._dd(IMAGE, self.root, f"skip={start}", f"count={size}", "iflag=skip_bytes,count_bytes")
        self.replace(self.root, "/usr/lib/rauc/keyring.pem", (folder / "keys/keyring.pem").read_bytes())

    def _run(self, *argv: str | Path, **environment: str) -> None:
        done = subprocess.run(
            enter(*map(str, argv)),
            capture_output=True,
            text=True,
            env={**os.environ, **environment},
            check=False,
        )
        assert done.returncode == 0, f"{argv}: {done.stdout}{done.stderr}"

    def _keys(self, *arguments: str | Path) -> None:
        self._run(TOP / "recipes/update/src/keys", *arguments)

    def _bad_signers(self) -> None:
        """In keys/revoked and keys/expired: signing keys of the board's authority that it must not accept any more."""
        keys = self.folder / "keys"
        for bad in ("revoked", "expired"):
            (keys / bad).mkdir()
        self._keys("signer", keys)
        for kind in ("key.pem", "cert.pem"):
            (keys / "earlier" / f"sign-1.{kind}").rename(keys / "revoked" / f"sign.{kind}")
        self._keys("revoke", keys, keys / "revoked/sign.cert.pem")
        key, request, extensions = (keys / "expired" / name for name in ("sign.key.pem", "csr", "extensions"))
        extensions.write_text("keyUsage=critical,digitalSignature\nextendedKeyUsage=critical,codeSigning\n")
        curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
        self._run("openssl", "req", "-new", *curve, "-subj", "/CN=x", "-keyout", key, "-out", request)
        self._run(
            "openssl", "x509", "-req", "-in", request, "-CA", keys / "ca.cert.pem", "-CAkey", keys / "ca.key.pem",
            "-not_before", "20200101000000Z", "-not_after", "20210101000000Z", "-extfile", extensions,
            "-out", keys / "expired/sign.cert.pem",
        )  # fmt: skip

    def _output(self, *argv: str | Path) -> str:
        return subprocess.run(enter(*map(str, argv)), capture_output=True, text=True, check=True).stdout

    def _dd(self, source: Path, target: Path, *operands: str) -> None:
        subprocess.run(
            ["dd", f"if={source}", f"of={target}", "bs=1M", "conv=sparse,notrunc", "status=none", *operands],
            check=True,
        )

    def replace(self, root: Path, path: str, content: bytes | None) -> None:
        """Replace a file of the root file system ROOT. None: remove it."""
        file = self.folder / "file"
        commands = [f"rm {path}"]
        if content is not None:
            file.write_bytes(content)
            commands += [f"cd {path.rpartition('/')[0]}", f"write {file} {path.rpartition('/')[2]}"]
        script = self.folder / "commands"
        script.write_text("\n".join(commands) + "\n")
        self._run("debugfs", "-w", "-f", script, root)

    def image(self) -> Path:
        """An image with this root file system in both slots."""
        image = self.folder / "board.img"
        subprocess.run(["cp", "--sparse=always", IMAGE, image], check=True)
        for slot in self._slots:
            # zeros of the file system are holes of the file, but need not be zeros in the image
            subprocess.run(
                ["dd", f"if={self.root}", f"of={image}", "bs=1M", "conv=notrunc", "status=none",
                 "oflag=seek_bytes", f"seek={slot['start'] * 512}"], check=True,
            )  # fmt: skip
        return image

    def other_root(self, version: str, changes: dict[str, bytes | None] | None = None) -> Path:
        """A root file system of another VERSION, with CHANGES: path → content, or None to remove the file."""
        root = self.folder / f"root-{version}.ext4"
        subprocess.run(["cp", "--sparse=always", self.root, root], check=True)
        release = self._output("debugfs", "-R", "cat /usr/lib/os-release", root)
        release = "".join(
            f"IMAGE_VERSION={version}\n" if line.startswith("IMAGE_VERSION=") else line
            for line in release.splitlines(keepends=True)
        )
        self.replace(root, "/usr/lib/os-release", release.encode())
        for path, content in (changes or {}).items():
            self.replace(root, path, content)
        return root

    def bundle(self, root: Path, version: str, keys: str = "keys") -> Path:
        out = self.folder / f"{keys.replace('/', '-')}-{version}.raucb"
        self._run(
            TOP / "recipes/image/src/bundle", root, version, out,
            EVENKEEL_BUNDLE_LEVEL="1",
            RAUC_KEY_FILE=str(self.folder / keys / "sign.key.pem"),
            RAUC_CERT_FILE=str(self.folder / keys / "sign.cert.pem"),
        )  # fmt: skip
        return out
