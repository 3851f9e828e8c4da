"""The content that kvgate ships (gates, suites, templates …) and the workspaces made from it.

In a wheel it lies in the package, in ``_workspace/``; in a checkout it is the checkout's own.
"""

from __future__ import annotations

import dataclasses
import importlib.resources
from collections.abc import Iterator
from importlib.resources.abc import Traversable
from pathlib import Path

from kvgate.errors import HarnessError, StoreError, UsageError

IN_WHEEL = "_workspace"
FOLDERS = ("gates", "inventory", "runs", "suites", "templates")

_NOT_SHIPPED = {"__pycache__", "local"}
_ONLY = {"runs": ("README.md",)}


@dataclasses.dataclass(frozen=True, slots=True)
class Laid:
    """What `lay_out` did: names below the new workspace, written and kept as they were."""

    root: Path
    written: tuple[str, ...]
    kept: tuple[str, ...]  # were there with other content
    same: tuple[str, ...]  # were there already, byte for byte


def shipped() -> Traversable:
    """Return the folder of shipped content; raises HarnessError for a broken installation."""
    package = importlib.resources.files("kvgate")
    if (inside := package / IN_WHEEL).is_dir():
        return inside
    if isinstance(package, Path) and (package.parents[1] / "pyproject.toml").is_file():
        return package.parents[1]
    raise HarnessError(
        f"{package}: this installation of kvgate has no {IN_WHEEL}/",
        hint="install kvgate again, from its wheel or its checkout",
    )


def shipped_templates() -> Path:
    """Return the folder of the shipped report templates; raises HarnessError if there is none."""
    folder = shipped() / "templates"
    if isinstance(folder, Path) and folder.is_dir():
        return folder
    raise HarnessError(f"{folder}: is no folder", hint="install kvgate unpacked, not from a zip")


def files() -> Iterator[tuple[str, Traversable]]:
    """Yield (name below a workspace, file) of everything that is shipped, in order of names."""
    root = shipped()
    for name in FOLDERS:
        for path, file in _below(root / name, name):
            only = _ONLY.get(name)
            if only is None or path.removeprefix(f"{name}/") in only:
                yield path, file


def _below(folder: Traversable, name: str) -> Iterator[tuple[str, Traversable]]:
    for entry in sorted(folder.iterdir(), key=lambda each: each.name):
        path = f"{name}/{entry.name}"
        if entry.name in _NOT_SHIPPED or entry.name.startswith("."):
            continue
        if entry.is_dir():
            yield from _below(entry, path)
        elif entry.is_file():
            yield path, entry


def lay_out(root: Path) -> Laid:
    """Write the shipped content into `root`; files that are there are never overwritten.

    Raises UsageError where `root` is no folder, StoreError where it can't be written.
    """
    if root.exists() and not root.is_dir():
        raise UsageError(f"{root}: is a file, not a folder")
    written: list[str] = []
    kept: list[str] = []
    same: list[str] = []
    for name, file in files():
        target, content = root / name, file.read_bytes()
        try:
            if target.is_symlink() or target.exists():
                unchanged = target.is_file() and target.read_bytes() == content
                (same if unchanged else kept).append(name)
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("xb") as new:  # never follows or replaces what came in between
                new.write(content)
        except OSError as err:
            raise StoreError(
                f"{target}: can't be written: {err.strerror or err}",
                hint="see to the folder, then call it again: what is there stays as it is",
            ) from err
        written.append(name)
    return Laid(root, tuple(written), tuple(kept), tuple(same))
