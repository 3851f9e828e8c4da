"""Gives the folders that several processes of one run made for one purpose one name."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from kvgate.model.record import Evidence
from kvgate.workloads.base import made_folder

Asked = tuple[str, Evidence]
"""A piece of evidence and the scope it was asked in (`engine.scope`)."""


def as_one(asked: Sequence[Asked]) -> list[Asked]:
    """Return `asked`, of one host, with the folders of each purpose under the name of the last.

    A run that was killed and went on has made its scratch folder twice, and measured some blocks
    in each. Names differ only in their eight random characters, so that no length changes.
    """
    made: dict[tuple[str, str], list[str]] = {}
    for scope, piece in asked:
        if found := made_folder(piece.command, piece.stdout):
            made.setdefault((scope, found[0]), []).append(found[1])
    renamed = {
        earlier: paths[-1]
        for paths in made.values()
        for earlier in paths[:-1]
        if earlier != paths[-1]
    }
    return [(scope, _renamed(piece, renamed)) for scope, piece in asked] if renamed else [*asked]


def _renamed(piece: Evidence, names: Mapping[str, str]) -> Evidence:
    command, stdout, stderr = piece.command, piece.stdout, piece.stderr
    for old, new in names.items():
        command = tuple(word.replace(old, new) for word in command)
        stdout = stdout.replace(old.encode(), new.encode())
        stderr = stderr.replace(old.encode(), new.encode())
    if (command, stdout, stderr) == (piece.command, piece.stdout, piece.stderr):
        return piece
    return dataclasses.replace(piece, command=command, stdout=stdout, stderr=stderr)
