"""Baseline files: required versions and settings, by name, that hosts of the inventory cite."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import pydantic

from kvgate.model.part import PartKind
from kvgate.spec.base import Slug, Strict, Text
from kvgate.spec.gate import Scalar

FORMS = ("equals", "one_of", "version_equals", "version_one_of", "version_at_least")
_GIVEN: list[Any] = [{"required": [form]} for form in FORMS]
_ONLY_SAME: dict[str, Any] = {"required": ["same_on_all_hosts"], "not": {"anyOf": _GIVEN}}


class Setting(Strict):
    """What one measured value must be: at most one of five forms, and the same on all hosts.

    ``equals`` and ``one_of`` compare texts as they are (a firmware such as GDC7302Q has no
    order); the three others compare versions as versions, so that 1.2 is 1.2.0 and never 11.25.
    ``same_on_all_hosts`` asks that all hosts that cite this baseline agree, whatever on.
    """

    model_config = pydantic.ConfigDict(json_schema_extra={"oneOf": [*_GIVEN, _ONLY_SAME]})

    equals: Scalar | None = None
    one_of: list[Text] | None = None
    version_equals: Text | None = None
    version_one_of: list[Text] | None = None
    version_at_least: Text | None = None
    same_on_all_hosts: Literal[True] | None = None

    @pydantic.model_validator(mode="after")
    def _one_form(self) -> Setting:
        given = [form for form in FORMS if getattr(self, form) is not None]
        if len(given) > 1 or not (given or self.same_on_all_hosts):
            raise ValueError(
                f"a setting has exactly one of {', '.join(FORMS)}, or none of them and "
                "same_on_all_hosts"
            )
        if self.one_of == [] or self.version_one_of == []:
            raise ValueError("the list is empty: nothing could ever pass")
        return self

    @property
    def form(self) -> str:
        """Return which of the forms it has; ``same`` where it only asks for agreement."""
        return next((form for form in FORMS if getattr(self, form) is not None), "same")


class ModelSettings(Strict):
    """What holds for one model: the rows of a firmware and driver matrix.

    It applies to what is ordered or declared of that kind and model: disks of the inventory by
    ``model``, its GPUs by PCI ``id``, parts of the bill of materials by ``model`` or
    ``part_number``. Measures of a part (``part.firmware``, ``nvme.firmware``) are asked of each
    such part, others (``host.bios``, ``gpu.vbios``) of the host that has one.
    """

    kind: PartKind
    model: Text | None = None
    part_number: Text | None = None
    id: Annotated[str, pydantic.StringConstraints(pattern=r"^[0-9a-f]{4}:[0-9a-f]{4}$")] | None = (
        None
    )
    settings: Annotated[dict[str, Setting], pydantic.Field(min_length=1)]

    @pydantic.model_validator(mode="after")
    def _known(self) -> ModelSettings:
        if not (self.model or self.part_number or self.id):
            raise ValueError("name the model by model, part_number or id (vvvv:dddd)")
        if self.id and self.kind != "gpu":
            raise ValueError("id is for GPUs; name other parts by model or part_number")
        return self


class BaselineEntry(Strict):
    """A named set of settings: measure name (``kernel.release``) → what it must be.

    A measure of disks, drives, ports or PCIe links (``nic.mtu``) is asked of every declared one.
    ``models`` adds what holds for some models only.
    """

    title: Text
    settings: dict[str, Setting]
    models: list[ModelSettings] = pydantic.Field(default_factory=list)


class Baseline(Strict):
    """All named sets of one baseline file."""

    baselines: dict[Slug, BaselineEntry]
