"""What people attest: an answer to one question, who gave it, when, and the photos of it."""

from __future__ import annotations

import dataclasses
import datetime


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Photo:
    """A picture that was filed with an answer: what it was called, and the SHA-256 of its bytes.

    ``stripped`` tells that metadata (EXIF, where it was taken) was taken out before.
    """

    name: str
    sha256: str
    stripped: bool = False


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One thing that people look at: which criterion it settles, where, and what is asked."""

    key: str  # "G1.141/gpu-1": names it in sheets and records
    criterion: str
    where: str  # a host, a line of the packing list, or "all"
    host: str  # a host of the inventory, or ALL_HOSTS
    text: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One person's answer; a later one to the same question counts instead, and both stay.

    ``ok``: it is as it should be. ``at`` is UTC by the clock of the machine that took it down;
    ``typed_by`` is that machine's user, ``by`` the name the person gave. ``sha256`` is that of the
    stored record, which is the evidence of it.
    """

    key: str
    criterion: str
    asked: str
    ok: bool
    by: str
    at: datetime.datetime
    typed_by: str
    note: str = ""
    photos: tuple[Photo, ...] = ()
    number: int = 0
    sha256: str = ""
