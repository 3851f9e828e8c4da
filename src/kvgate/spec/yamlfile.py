"""YAML with the line of every value: duplicates, aliases without end and odd types refused."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import re
from pathlib import Path
from typing import Any

import yaml

from kvgate.errors import SpecError

Where = tuple[str | int, ...]
_NODE_LIMIT = 200_000  # an inventory of 1,000 hosts has about 60,000; aliases count each time
_SIZE_LIMIT_BYTES = 16 * 2**20
_LARGEST = 2**63
_LARGE = 16 * 1024  # characters
_SHALLOW = 32  # levels
_BRACKET = re.compile(r"[\[\]{}]")
_DEEP = re.compile(rf"(?:[-?:][ \t]+){{{_SHALLOW}}}|^ {{{8 * _SHALLOW}}}", re.MULTILINE)
_TEXT_TAGS = ("tag:yaml.org,2002:timestamp",)  # dates stay as they are written


@dataclasses.dataclass(frozen=True, slots=True)
class YamlFile:
    """A YAML file's value, its bytes, and the line on which each part of it stands."""

    name: str
    content: bytes
    value: Any
    lines: dict[Where, int]

    @property
    def sha256(self) -> str:
        """Return the digest of the file's bytes."""
        return hashlib.sha256(self.content).hexdigest()

    def line(self, where: Where) -> int:
        """Return the line of `where`, or of the nearest part around it that has one."""
        for length in range(len(where), -1, -1):
            if where[:length] in self.lines:
                return self.lines[where[:length]]
        return 1

    def error(self, where: Where, what: str, *, hint: str = "") -> SpecError:
        """Return the error for `where`, naming file, line and key."""
        key = ".".join(str(part) for part in where)
        return SpecError(
            f"{self.name}:{self.line(where)}: {key + ': ' if key else ''}{what}", hint=hint
        )


def read(path: Path, *, name: str | None = None, most: int = _NODE_LIMIT) -> YamlFile:
    """Read and parse the file at `path`; raises SpecError if it is absent or no sound YAML."""
    try:
        content = path.read_bytes()
    except OSError as err:
        raise SpecError(f"{name or path}: {err.strerror or err}") from err
    return parse(content, name or str(path), most=most)


def parse(content: bytes, name: str, *, most: int = _NODE_LIMIT) -> YamlFile:
    """Parse YAML bytes of `most` values; errors call the file `name`. Raises SpecError."""
    if len(content) > _SIZE_LIMIT_BYTES:
        raise SpecError(f"{name}: {len(content)} bytes are more than a file of ours ever has")
    try:
        loader, node = _composed(content.decode("utf-8-sig"))
        reader = _Reader(name, loader, most)
        value = reader.build(node, (), ()) if node is not None else None
    except UnicodeDecodeError as err:
        raise SpecError(f"{name}: byte {err.start} is not UTF-8", hint="save it as UTF-8") from err
    except yaml.MarkedYAMLError as err:
        mark = err.problem_mark or err.context_mark
        raise SpecError(f"{name}:{mark.line + 1 if mark else 1}: {err.problem}") from err
    except yaml.YAMLError as err:
        raise SpecError(f"{name}: {err}") from err
    except RecursionError as err:
        raise SpecError(f"{name}: nested too deep") from err
    return YamlFile(name, content, value, reader.lines)


def _composed(text: str) -> tuple[yaml.SafeLoader | yaml.CSafeLoader, yaml.Node | None]:
    """Return the root of a document: a large one by libyaml where there is one, ten times quicker.

    What that refuses is read by PyYAML, whose words are told. It recurses without a limit, so
    that only what is plainly shallow is for it.
    """
    if len(text) >= _LARGE and yaml.__with_libyaml__ and _is_shallow(text):
        with contextlib.suppress(yaml.YAMLError):
            quick = yaml.CSafeLoader(text)
            return quick, quick.get_single_node()
    loader = yaml.SafeLoader(text)
    return loader, loader.get_single_node()


def _is_shallow(text: str) -> bool:
    """Tell whether nothing in `text` can be nested deep, whichever brackets are in quotes."""
    depth = least = rise = 0
    for bracket in _BRACKET.finditer(text):
        depth += 1 if bracket[0] in "[{" else -1
        least = min(least, depth)
        rise = max(rise, depth - least)
    return rise <= _SHALLOW and not _DEEP.search(text)


class _Reader:
    """Builds plain values from YAML nodes and remembers each one's line."""

    def __init__(
        self, name: str, loader: yaml.SafeLoader | yaml.CSafeLoader, most: int = _NODE_LIMIT
    ) -> None:
        self.name = name
        self.most = most
        self.loader = loader
        self.lines: dict[Where, int] = {}
        self.count = 0

    def build(self, node: yaml.Node, where: Where, around: tuple[int, ...]) -> Any:
        self.count += 1
        line = node.start_mark.line + 1
        if id(node) in around or self.count > self.most:
            raise SpecError(
                f"{self.name}:{line}: an alias that contains itself, or too many values"
            )
        self.lines.setdefault(where, line)
        around = (*around, id(node))
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, where, around)
        if isinstance(node, yaml.SequenceNode):
            return [self.build(each, (*where, i), around) for i, each in enumerate(node.value)]
        if node.tag in _TEXT_TAGS:
            return node.value
        return self._scalar(node, line)

    def _scalar(self, node: yaml.Node, line: int) -> Any:
        try:
            value = self.loader.construct_object(node)
        except (ArithmeticError, LookupError, TypeError, ValueError) as err:
            kind = node.tag.rpartition(":")[2]
            raise SpecError(f"{self.name}:{line}: {str(node.value)[:40]!r} is no {kind}") from err
        if isinstance(value, int) and abs(value) > _LARGEST:
            raise SpecError(f"{self.name}:{line}: a whole number of over 64 bits is not read")
        return value

    def _mapping(
        self, node: yaml.MappingNode, where: Where, around: tuple[int, ...]
    ) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1
            if not isinstance(key_node, yaml.ScalarNode):
                raise SpecError(f"{self.name}:{line}: a key has to be a plain text")
            key = str(key_node.value)
            if key == "<<":
                raise SpecError(f"{self.name}:{line}: merge keys (<<) are not read; write it out")
            if key in found:
                first = self.lines[(*where, key)]
                raise SpecError(f"{self.name}:{line}: '{key}' stands twice, first in line {first}")
            self.lines[(*where, key)] = line
            found[key] = self.build(value_node, (*where, key), around)
        return found
