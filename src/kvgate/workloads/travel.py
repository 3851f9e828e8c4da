"""Sends one self-contained Python program to a host, for as long as a block of work takes.

The program is a file of ours (`program_of` makes one of several modules): it needs Python 3.8 and
nothing else there. What arrived is compared with what was sent before it is run.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import io
import re
import zipfile
from collections.abc import Iterator, Mapping

from kvgate.errors import CommandError, NotRunError, ParseError
from kvgate.model.record import EvidenceRef
from kvgate.untrusted import plain
from kvgate.witness import Witness
from kvgate.workloads.base import scratch_folder

OLDEST = (3, 8)
"""The oldest Python that programs of ours must run on."""

_ASK_S = 60.0
_NAMES = "python3 python3.13 python3.12 python3.11 python3.10 python3.9 python3.8 python"
_MADE_AT = (1980, 1, 1, 0, 0, 0)  # a zip's earliest time: the same modules are the same bytes

# Says "VERSION PATH" of the first Python that is new enough, else of each there is instead.
# Stops at the first that is new enough (`OLDEST`).
_FIND = f"""\
for name in "$1" {_NAMES} /usr/libexec/platform-python; do
  path=$(command -v "$name" 2>/dev/null) || continue
  version=$("$path" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null) || continue
  echo "$version $path"
  case $version in 2.* | 3.[0-7]) ;; *) exit 0 ;; esac
done
"""
_DIGEST = """\
import hashlib, sys
print(hashlib.sha256(open(sys.argv[1], 'rb').read()).hexdigest())
"""


@dataclasses.dataclass(frozen=True, slots=True)
class Travelled:
    """A program on a host: start it as ``[python, path, …]``; it may use ``folder`` as it likes.

    ``version`` is the Python's ("3.11"), ``free_bytes`` what the folder's file system has left.
    """

    path: str
    python: str
    version: str
    folder: str
    free_bytes: int
    evidence: tuple[EvidenceRef, ...]


@contextlib.contextmanager
def travelled(
    witness: Witness, program: bytes, *, name: str, purpose: str, needs_bytes: int = 0
) -> Iterator[Travelled]:
    """Place `program` as `name` in a marked folder of the host's scratch, and remove it after.

    1. a Python that is new enough is looked for; 2. a guarded folder is made, with room for
    `needs_bytes` beside the program; 3. the program is written there; 4. its SHA-256 there must be
    the one here. Raises NotRunError (no scratch, no room, no Python), TransportError, ParseError.
    """
    python, version, found = _python(witness)  # 1.
    with scratch_folder(
        witness, purpose, needs_bytes=needs_bytes + 2 * len(program)
    ) as folder:  # 2.
        path = f"{folder.path}/{name}"
        witness.transport.write_file(path, program)  # 3.
        asked = witness.ask([python, "-c", _DIGEST, path], timeout_s=_ASK_S)  # 4.
        told, sent = asked.stdout.strip().decode("ascii", "replace"), hashlib.sha256(program)
        if told != sent.hexdigest() and witness.host.transport != "recorded":
            raise CommandError(
                witness.host.name,
                f"{path} arrived as SHA-256 {told[:64]}, was sent as {sent.hexdigest()}",
                hint="the way to the host or its scratch folder alters data",
            )
        refs = (found, *folder.evidence, asked.ref)
        yield Travelled(path, python, version, folder.path, folder.free_bytes, refs)


_TOLD = re.compile(r"(\d{1,2})\.(\d{1,3}) (/[^\n]{1,4000})")


def _python(witness: Witness) -> tuple[str, str, EvidenceRef]:
    """Return path and version of a Python on the host that is new enough; raises NotRunError."""
    tools = witness.host.tools
    chosen = tools.get("python3") or tools.get("python") or "python3"
    asked = witness.ask(["sh", "-c", _FIND, "sh", chosen], timeout_s=_ASK_S)
    said = asked.result.stdout.decode("utf-8", "replace").splitlines()
    old = []
    for line in said:
        match = _TOLD.fullmatch(line)
        if match is None:
            raise ParseError(
                f"{witness.host.name}: '{plain(line[:80])}' is no Python's version and path"
            )
        version, path = f"{match[1]}.{match[2]}", match[3]
        if (int(match[1]), int(match[2])) >= OLDEST:
            return path, version, asked.ref
        old.append(f"{path} is {version}")
    needed = ".".join(map(str, OLDEST))
    why = f"; {', '.join(dict.fromkeys(old))}" if old else ""
    raise NotRunError(
        (f"{witness.host.name}: no Python of {needed} or newer{why}",),
        hint=f"install package 'python3' ({needed} or newer) there, or name one in the inventory: "
        "'tools: {python3: /a/path}'",
    )


def program_of(modules: Mapping[str, bytes], main: str) -> bytes:
    """Return one file that Python runs: `modules` by their dotted names, started by ``main()``.

    Its bytes depend on nothing but the modules. `main` is the module whose ``main`` is called.
    """
    files = {"__main__.py": f"import sys\nfrom {main} import main\nsys.exit(main())\n".encode()}
    for name, source in modules.items():
        parts = name.split(".")
        for depth in range(1, len(parts)):
            files.setdefault("/".join((*parts[:depth], "__init__.py")), b"")
        files["/".join(parts) + ".py"] = source
    into = io.BytesIO()
    with zipfile.ZipFile(into, "w", zipfile.ZIP_DEFLATED) as packed:
        for path in sorted(files):
            packed.writestr(zipfile.ZipInfo(path, _MADE_AT), files[path], zipfile.ZIP_DEFLATED)
    return into.getvalue()
