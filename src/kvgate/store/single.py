"""Makes the single-file verifier out of the modules that `kvgate verify` itself runs.

Only what its main can reach is taken, word for word but for what Python 3.8 does not know, so that
a sceptic reads no more than is run, and both can't come to differ.
"""

from __future__ import annotations

import ast
import functools
import importlib.util
from collections.abc import Iterator
from pathlib import Path

from kvgate.errors import HarnessError
from kvgate.store import disk
from kvgate.store.canonical import sha256

VERIFIER = "verify.py"
"""The file's name in a run folder."""

_ROOT = ("kvgate.store.verify_alone", "main")
_OLDER = (  # as Python 3.8 spells it; nothing but this is changed
    ("(slots=True)", ""),
    (", slots=True", ""),
    ("datetime.UTC", "datetime.timezone.utc"),
)
_INSTEAD = {
    # Secrets are masked where they are captured; a verifier meets none.
    ("kvgate.untrusted", "mask"): 'def mask(text: str) -> str:\n    """Return `text`."""\n'
    "    return text",
}
_HEAD = '''\
#!/usr/bin/env python3
"""Verifies a run of kvgate without kvgate: Python 3.8 or later, and ssh-keygen for signatures.

    python3 -I verify.py [RUN | ARCHIVE] [--allowed-signers FILE] [--require ROLE]

It reads and never writes, but for an archive, which is unpacked into a temporary folder.
Made of kvgate's own modules (version {version}): whoever doubts the copy inside a run takes the
one of a kvgate he trusts, `kvgate verify --script FILE`, and compares.
"""

import sys

sys.path[:] = [place for place in sys.path if place not in ("", sys.path[0])]  # no module of a run

import os
import types

SOURCES = {{}}
'''
_TAIL = """
for _name, _source in SOURCES.items():
    _module = sys.modules[_name] = types.ModuleType(_name)
    _above, _, _leaf = _name.rpartition(".")
    if _above:
        setattr(sys.modules[_above], _leaf, _module)
    exec(compile(_source, _name, "exec"), _module.__dict__)

if __name__ == "__main__":
    _main = sys.modules["kvgate.store.verify_alone"].main
    sys.exit(_main(sys.argv[1:], os.path.dirname(os.path.abspath(__file__))))
"""


@functools.cache
def single_file(version: str) -> bytes:
    """Return the verifier's bytes: the same for the same kvgate, whose `version` it names."""
    kept = _reach()
    parts = [_HEAD.format(version=version)]
    packages = sorted({".".join(name.split(".")[:n]) for name in kept for n in (1, 2)} - set(kept))
    for package in packages:
        parts.append(f'SOURCES["{package}"] = ""\n')
    for name in _in_order(kept):
        source = _module_text(name, kept[name])
        if "'''" in source or source.endswith("\\"):
            raise HarnessError(f"{name}: can't be put into the single-file verifier")
        parts.append(f"\nSOURCES[\"{name}\"] = r'''\n{source}\n'''\n")
    return "".join([*parts, _TAIL]).encode("utf-8")


def write_verifier(run: Path, version: str) -> None:
    """Put the verifier into the folder `run`, where there is none yet, before it is sealed."""
    if not (run / VERIFIER).exists():
        disk.replace(run / VERIFIER, single_file(version))


def digest(version: str) -> str:
    """Return the SHA-256 of the verifier that this kvgate makes."""
    return sha256(single_file(version))


@functools.cache
def _tree(module: str) -> tuple[str, ast.Module]:
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None:
        raise HarnessError(f"{module}: its source is not here, and a verifier is made of it")
    text = Path(spec.origin).read_text("utf-8")
    return text, ast.parse(text)


def _defined(module: str) -> dict[str, ast.stmt]:
    """Return what the top level of `module` defines, by name."""
    found: dict[str, ast.stmt] = {}
    for node in _tree(module)[1].body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found[node.name] = node
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for each in (name for target in targets for name in ast.walk(target)):
                if isinstance(each, ast.Name):
                    found[each.id] = node
    return found


def _imported(module: str) -> dict[str, tuple[str, str]]:
    """Return the names that `module` imports → (module, name in it), "" for a module itself."""
    found: dict[str, tuple[str, str]] = {}
    for node in _tree(module)[1].body:
        if isinstance(node, ast.Import):
            found |= {(a.asname or a.name).partition(".")[0]: (a.name, "") for a in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                is_module = node.module.startswith("kvgate") and _is_module(whole)
                target = (whole, "") if is_module else (node.module, alias.name)
                found[alias.asname or alias.name] = target
    return found


def _is_module(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False


def _reach() -> dict[str, set[str]]:
    """Return module → the top-level names in it that the verifier's main can reach."""
    kept: dict[str, set[str]] = {}
    left = [_ROOT]
    while left:
        module, name = left.pop()
        if name in kept.setdefault(module, set()):
            continue
        kept[module].add(name)
        if (module, name) not in _INSTEAD:
            left += _used(module, _defined(module).get(name))
    return kept


def _used(module: str, node: ast.stmt | None) -> Iterator[tuple[str, str]]:
    """Yield (module of ours, name) of all that `node` uses."""
    if node is None:
        return
    defined, imported = _defined(module), _imported(module)
    for each in ast.walk(node):
        if isinstance(each, ast.Name) and each.id in defined:
            yield module, each.id
        elif isinstance(each, ast.Name) and each.id in imported:
            origin, name = imported[each.id]
            if name and origin.startswith("kvgate."):
                yield origin, name
        elif isinstance(each, ast.Attribute) and isinstance(each.value, ast.Name):
            origin, name = imported.get(each.value.id, ("", "-"))
            if not name and origin.startswith("kvgate."):
                yield origin, each.attr


def _in_order(kept: dict[str, set[str]]) -> Iterator[str]:
    """Yield the modules, each behind those that it imports."""
    done: set[str] = set()

    def visit(module: str) -> Iterator[str]:
        if module in done or module not in kept:
            return
        done.add(module)
        for origin, _ in sorted(_imported(module).values()):
            yield from visit(origin)
        yield module

    for module in sorted(kept):
        yield from visit(module)


def _module_text(module: str, names: set[str]) -> str:
    """Return the source of `module` with only `names` in it, and the imports that they need."""
    text, tree = _tree(module)
    defined = _defined(module)
    nodes = sorted({defined[name] for name in names if name in defined}, key=lambda n: n.lineno)
    lines = text.splitlines()
    bodies = [
        _INSTEAD.get((module, getattr(node, "name", ""))) or _source(lines, node) for node in nodes
    ]
    used = {each.id for node in nodes for each in ast.walk(node) if isinstance(each, ast.Name)}
    imports = [
        _import(name, *origin) for name, origin in sorted(_imported(module).items()) if name in used
    ]
    doc = ast.get_docstring(tree, clean=False)
    head = f'"""{doc}"""\n\nfrom __future__ import annotations\n' + "\n".join(["", *imports])
    whole = "\n\n\n".join([head, *bodies])
    for ours, older in _OLDER:
        whole = whole.replace(ours, older)
    return whole


def _import(name: str, origin: str, attribute: str) -> str:
    if attribute:
        return f"from {origin} import {attribute}" + (f" as {name}" if name != attribute else "")
    above, _, leaf = origin.rpartition(".")
    if not above or name != leaf:
        return f"import {origin}" + (f" as {name}" if name != origin.partition(".")[0] else "")
    return f"from {above} import {leaf}"


def _source(lines: list[str], node: ast.stmt) -> str:
    """Return the lines of a top-level statement, with its decorators and comments above it."""
    decorators = getattr(node, "decorator_list", [])
    first = min([node.lineno, *(each.lineno for each in decorators)]) - 1
    while first and lines[first - 1].startswith("#"):
        first -= 1
    return "\n".join(lines[first : node.end_lineno])
