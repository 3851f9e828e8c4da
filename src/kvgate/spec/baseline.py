"""Baseline files: required versions and settings, by name, that hosts of the inventory cite."""

from __future__ import annotations

import pydantic

from kvgate.spec.base import Slug, Strict, Text, exactly_one_of
from kvgate.spec.gate import Scalar


class Setting(Strict):
    """What one measured text must be: exactly, one of, or at least (compared as versions)."""

    model_config = exactly_one_of("equals", "one_of", "version_at_least")

    equals: Scalar | None = None
    one_of: list[Text] | None = None
    version_at_least: Text | None = None

    @pydantic.model_validator(mode="after")
    def _one_form(self) -> Setting:
        if sum(form is not None for form in (self.equals, self.one_of, self.version_at_least)) != 1:
            raise ValueError("a setting has exactly one of equals, one_of, version_at_least")
        return self


class BaselineEntry(Strict):
    """A named set of settings: measure name (``kernel.release``) → what it must be."""

    title: Text
    settings: dict[str, Setting]


class Baseline(Strict):
    """All named sets of one baseline file."""

    baselines: dict[Slug, BaselineEntry]
