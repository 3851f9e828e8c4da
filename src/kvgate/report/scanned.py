"""A scan as a sheet: dedup by block size with its error, compressibility, and where it lies."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from kvgate.report.sheet import Line, Part, Sheet, Table
from kvgate.workloads.scan import Scanned


def sheet(found: Sequence[Scanned]) -> Sheet:
    """Return the sheet of what each place gave; a place without a result says why."""
    parts: list[Part] = []
    for each in found:
        if each.document is None:
            parts.append(Part(each.where, notes=(f"not scanned: {each.problem}",)))
        else:
            head = f"{each.where}: " if len(found) > 1 else ""
            parts += _parts(head, each.document)
    return Sheet("How much of what is stored is redundant", "", (), tuple(parts), _NOTES)


_NOTES = (
    "a ratio is logical ÷ unique bytes; zero blocks count once as unique. Fixed blocks begin at "
    "multiples of their size in each file. Windows of 1 MiB of zeros and holes end a "
    "content-defined chunk",
    "blocks are compared by 52 bits of their hash: of n different ones about n ÷ 2⁵³ are taken for "
    "another, below 1 in a million up to 30 TB of them",
)


def _parts(head: str, document: dict[str, Any]) -> Iterator[Part]:
    yield Part(
        f"{head}{', '.join(document['roots'])}",
        facts=tuple(_facts(document)),
        tables=(_levels(document), _compression(document)),
        notes=tuple(_tools(document)),
    )
    yield Part(f"{head}Where it lies", tables=tuple(_places(document)))
    problems = document["problems"]
    if problems["count"]:
        rows = tuple(Line((each["path"], each["what"])) for each in problems["first"])
        count = problems["count"]
        title = (
            f"{head}{count:,} problem{'s' * (count != 1)}: not read, changed, or not what it says"
        )
        first = "the first" if count > len(rows) else "all of them"
        yield Part(title, tables=(Table(first, ("path", "what"), rows),))


def _facts(document: dict[str, Any]) -> Iterator[tuple[str, str]]:
    listed = document["listed"]
    yield "files", f"{listed['files']:,} in {listed['folders']:,} folders"
    yield "logical bytes", size(document["logical_bytes"])
    yield "physical bytes", f"{size(document['physical_bytes'])} by the file system"
    if listed["sparse_files"]:
        holes = size(document["hole_bytes"])
        yield "sparse", f"{listed['sparse_files']:,} files hold less than their size; holes {holes}"
    left = (
        ("hard_links", "names of files counted already"),
        ("links", "symbolic links"),
        ("specials", "devices, pipes and sockets"),
        ("mounts", "on other file systems"),
        ("no_entry", "that could not be looked at"),
    )
    told = [f"{listed[name]:,} {what}" for name, what in left if listed[name]]
    if document["left_out_bytes"]:
        told.append(f"{size(document['left_out_bytes'])} that could not be read as listed")
    yield "left out", ", ".join(told) or "nothing"
    rate = document["logical_bytes"] / max(document["elapsed_s"], 1e-3)
    yield "scanned in", f"{document['elapsed_s']:,.1f} s, {rate / 1e9:.2f} GB/s"


def _levels(document: dict[str, Any]) -> Table:
    lines = []
    for each in document["levels"]:
        low, high = each["unique_bytes_low"], each["unique_bytes_high"]
        part = each["sampled_part"]
        error = "exact" if part == 1 else f"{size(low)} to {size(high)} (1 of {1 / part:,.0f})"
        ratio = "none" if each["ratio"] is None else f"{each['ratio']:.3f}"
        zeros = size(each["zero_bytes"])
        lines.append(
            Line(
                (
                    each["name"],
                    f"{each['blocks']:,}",
                    size(each["unique_bytes"]),
                    error,
                    zeros,
                    ratio,
                )
            )
        )
    head = ("blocks of", "number", "unique", "95 % interval", "zeros", "ratio")
    return Table("Dedup", head, tuple(lines), (1, 2, 4, 5))


def _compression(document: dict[str, Any]) -> Table:
    lines = []
    for each in document["compression"]:
        if each["ratio"] is None:
            cells = (each["codec"], "0", "nothing but zeros, or nothing", "")
        else:
            low, high = each["ratio_low"], each["ratio_high"]
            cells = (
                *(each["codec"], f"{each['blocks']:,}"),
                *(f"{each['ratio']:.3f}", f"{low:.3f} to {high:.3f}"),
            )
        lines.append(Line(cells))
    head = ("by", "sampled blocks", "ratio", "95 % interval")
    return Table("Compression of blocks of 128 KiB", head, tuple(lines), (1, 2, 3))


def _tools(document: dict[str, Any]) -> Iterator[str]:
    tools = document["tools"]
    slower = []
    if tools["hash"] != "xxh3":
        slower.append(f"hashed with {tools['hash']}: xxhash is not installed there")
    if tools["chunker"] is None:
        yield "no content-defined chunks: neither pyfastcdc nor NumPy is installed there"
    elif "pyfastcdc" not in tools["chunker"]:
        slower.append(f"chunks by {tools['chunker']}: pyfastcdc is not installed there")
    if not tools["numpy"]:
        slower.append("without NumPy")
    if slower:
        yield f"slower than it could be: {'; '.join(slower)} (extra kvgate[scan])"
    if document["through_cache_bytes"]:
        told = size(document["through_cache_bytes"])
        yield f"{told} could only be read through the page cache, and were dropped from it after"


def _places(document: dict[str, Any]) -> Iterator[Table]:
    again = document["same_files"]["by_kind"]
    kinds = tuple(
        Line(
            (
                *(each["kind"], f"{each['files']:,}", size(each["listed_bytes"])),
                size(each["again_in_their_folder_bytes"]),
                size(each["also_elsewhere_bytes"]),
                size(again[each["kind"]]["bytes"]) if each["kind"] in again else "0 B",
            )
        )
        for each in document["kinds"]
    )
    head = (
        "files",
        "number",
        "bytes",
        "again in their folder",
        "also elsewhere",
        "whole files again",
    )
    yield Table(f"By kind, blocks of {document['looked_at_by']}", head, kinds, (1, 2, 3, 4, 5))
    folders = document["folders"]
    rows = tuple(
        Line(
            (
                *(each["path"], each["kind"], size(each["logical_bytes"])),
                *(size(each["again_inside_bytes"]), size(each["also_elsewhere_bytes"])),
            )
        )
        for each in folders["first"]
    )
    columns = ("folder", "files", "bytes", "again inside", "also elsewhere")
    yield Table(f"Folders, the first of {folders['count']:,}", columns, rows, (2, 3, 4))
    yield from _equal(document)


def _equal(document: dict[str, Any]) -> Iterator[Table]:
    same = document["same_files"]
    if same["again"]:
        rows = tuple(
            Line((" = ".join(each["paths"]), f"{each['times']:,}", size(each["bytes"])))
            for each in same["first"]
        )
        title = f"Whole files that are there again: {same['again']:,}, {size(same['bytes'])}"
        yield Table(title, ("files", "times", "bytes each"), rows, (1, 2))
    tensors = document["tensors"]
    if tensors["count"]:
        rows = tuple(
            Line(
                (
                    *(each["name"], each["dtype"], size(each["bytes"]), f"{each['times']:,}"),
                    " = ".join(dict.fromkeys(each["paths"])),
                )
            )
            for each in tensors["first"]
        )
        title = (
            f"Tensors: {tensors['count']:,} in {tensors['files']:,} files, "
            f"{tensors['unique']:,} of them different: "
            f"{size(tensors['unique_bytes'])} of {size(tensors['bytes'])}"
        )
        yield Table(title, ("tensor", "type", "bytes", "times", "e.g. in"), rows, (2, 3))


def size(count: int) -> str:
    """Return bytes in decimal units, with three digits."""
    for unit, factor in (("TB", 10**12), ("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= factor:
            value = count / factor
            return f"{value:,.3g} {unit}" if value < 999 else f"{value:,.0f} {unit}"
    return f"{count} B"
