"""Writes dist/kvgate-VERSION-bundle.tar: kvgate for a machine without network, in one archive.

It holds the wheels of kvgate (with its workspace inside) and of all it needs, for this Python and
platform; the list of system packages; install.sh; and SHA256SUMS over all of it. Made on a machine
with network (`make bundle`); the same wheels give the same bytes.
"""

from __future__ import annotations

import hashlib
import io
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
INSTALLER = Path(__file__).resolve().parent / "install.sh"
_PAIR = re.compile(r"\b([a-z-]+):([a-z0-9-]+)\b")


def system_packages() -> str:
    """Return lines ``command package`` from tools/setup.sh, which knows what the suites use."""
    text = (ROOT / "tools" / "setup.sh").read_text("utf-8")
    listed = re.search(r"for pair in (.*?); do", text, re.DOTALL)
    if not listed:
        raise SystemExit("tools/setup.sh: its list of commands and packages was not found")
    pairs = _PAIR.findall(listed[1])
    head = "# command, and the Debian package that has it\n"
    return head + "".join(f"{command} {package}\n" for command, package in pairs)


def wheels(folder: Path) -> None:
    """Put kvgate's wheel, all it needs, and pip into `folder`."""
    command = ["-m", "pip", "wheel", "-q", "--disable-pip-version-check", "--wheel-dir"]
    subprocess.run([sys.executable, *command, str(folder), str(ROOT), "pip"], check=True)


def target() -> str:
    """Return what the wheels are for, as install.sh asks it from a Python."""
    return f"{sys.version_info[0]}.{sys.version_info[1]} {sysconfig.get_platform()}"


def contents(folder: Path) -> dict[str, bytes]:
    """Return name → content of the archive's files, SHA256SUMS last."""
    found = {f"wheels/{path.name}": path.read_bytes() for path in sorted(folder.glob("*.whl"))}
    found["install.sh"] = INSTALLER.read_bytes()
    found["PYTHON"] = f"{target()}\n".encode()
    found["SYSTEM-PACKAGES"] = system_packages().encode()
    for name in ("LICENSE", "README.md", "CHANGELOG.md"):
        found[name] = (ROOT / name).read_bytes()
    sums = "".join(
        f"{hashlib.sha256(content).hexdigest()}  {name}\n"
        for name, content in sorted(found.items())
    )
    return found | {"SHA256SUMS": sums.encode()}


def pack(path: Path, top: str, files: dict[str, bytes]) -> None:
    """Write `files` below `top` into the tar archive `path`, of nobody and no time."""
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as archive:
        for name, content in sorted(files.items()):
            entry = tarfile.TarInfo(f"{top}/{name}")
            entry.size = len(content)
            entry.mode = 0o755 if name.endswith(".sh") else 0o644
            archive.addfile(entry, io.BytesIO(content))


def main() -> int:
    """Make the bundle and say where it is."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    top = f"kvgate-{version}"
    path = ROOT / "dist" / f"{top}-bundle.tar"
    path.parent.mkdir(exist_ok=True)
    folder = Path(tempfile.mkdtemp())
    try:
        wheels(folder)
        files = contents(folder)
    finally:
        shutil.rmtree(folder)
    pack(path.with_suffix(".part"), top, files)
    path.with_suffix(".part").replace(path)
    size = path.stat().st_size / 1e6
    count = sum(name.startswith("wheels/") for name in files)
    print(f"{path.relative_to(ROOT)}: {size:.1f} MB, {count} wheels for Python {target()}")
    print(f"there: tar xf {path.name} && sh {top}/install.sh /opt/kvgate")
    return 0


if __name__ == "__main__":
    sys.exit(main())
