"""The models that are known: those shipped, and a workspace's own, as data."""

from __future__ import annotations

import difflib
import importlib.resources
from pathlib import Path
from typing import Annotated

import pydantic

from kvgate.errors import SpecError, UsageError
from kvgate.kv.geometry import Geometry
from kvgate.spec import load, yamlfile
from kvgate.spec.base import Slug, Strict, Text, exactly_one_of
from kvgate.spec.yamlfile import YamlFile

MOST = 100_000
"""Layers, heads or dimensions at most: far above any model."""

Number = Annotated[int, pydantic.Field(ge=1, le=MOST)]


class Gqa(Strict):
    """Grouped-query attention: KV heads of one dimension (all heads, for multi-head attention)."""

    kv_heads: Number
    head_dim: Number


class Mla(Strict):
    """Multi-head latent attention: a latent and a rotary part for all heads together."""

    latent: Number
    rope: Number


class Window(Strict):
    """How many of the layers keep only the last so many tokens."""

    layers: Number
    tokens: Annotated[int, pydantic.Field(ge=1, le=2**31)]


class Model(Strict):
    """One model's KV, and where its numbers were read."""

    model_config = exactly_one_of("gqa", "mla")

    name: Slug
    layers: Number
    gqa: Gqa | None = None
    mla: Mla | None = None
    window: Window | None = None
    source: Text
    notes: list[Text] = pydantic.Field(default_factory=list)

    @pydantic.model_validator(mode="after")
    def _sound(self) -> Model:
        if (self.gqa is None) == (self.mla is None):
            raise ValueError("a model has exactly one of 'gqa' and 'mla'")
        if self.window and self.window.layers > self.layers:
            raise ValueError(f"window: {self.window.layers} of {self.layers} layers")
        return self

    def geometry(self) -> Geometry:
        """Return it to reckon with."""
        return Geometry(
            name=self.name,
            layers=self.layers,
            source=self.source,
            kv_heads=self.gqa.kv_heads if self.gqa else 0,
            head_dim=self.gqa.head_dim if self.gqa else 0,
            latent=self.mla.latent if self.mla else 0,
            rope=self.mla.rope if self.mla else 0,
            window_layers=self.window.layers if self.window else 0,
            window=self.window.tokens if self.window else 0,
            notes=tuple(self.notes),
        )


class Models(Strict):
    """A file of models."""

    models: Annotated[list[Model], pydantic.Field(min_length=1)]


def known(own: Path | None = None) -> dict[str, Geometry]:
    """Return every known model by name: shipped ones, then those of the folder `own`, if there.

    Raises SpecError, with file and line, for what is wrong, and for a name that stands twice.
    """
    shipped = importlib.resources.files("kvgate.kv").joinpath("models.yaml").read_bytes()
    files = [yamlfile.parse(shipped, "models.yaml (shipped)")]
    if own is not None and own.is_dir():
        files += [yamlfile.read(path, name=path.name) for path in sorted(own.glob("*.yaml"))]
    found: dict[str, Geometry] = {}
    stands: dict[str, YamlFile] = {}
    for file in files:
        for place, model in enumerate(load.validate(Models, file).models):
            if model.name in found:
                told = f"'{model.name}' stands in {stands[model.name].name} too"
                raise file.error(("models", place, "name"), told)
            found[model.name], stands[model.name] = model.geometry(), file
    return found


def named(name: str, models: dict[str, Geometry]) -> Geometry:
    """Return the model called `name`; raises UsageError with the nearest one."""
    if name in models:
        return models[name]
    close = difflib.get_close_matches(name.lower(), models, n=1)
    hint = f"did you mean '{close[0]}'?" if close else f"known: {', '.join(models)}"
    raise UsageError(f"'{name}' is no model that is known", hint=hint)


def as_yaml(model: Geometry) -> str:
    """Return `model` as a file of a workspace's inventory/models/, that `known` reads."""
    import yaml

    shape = (
        {"mla": {"latent": model.latent, "rope": model.rope}}
        if model.is_latent
        else {"gqa": {"kv_heads": model.kv_heads, "head_dim": model.head_dim}}
    )
    window = (
        {"window": {"layers": model.window_layers, "tokens": model.window}}
        if model.window_layers
        else {}
    )
    notes = {"notes": list(model.notes)} if model.notes else {}
    one = {"name": model.name, "layers": model.layers, **shape, **window}
    text = yaml.safe_dump(
        {"models": [one | {"source": model.source} | notes]}, sort_keys=False, allow_unicode=True
    )
    try:
        load.validate(Models, yamlfile.parse(text.encode(), model.name))
    except SpecError as err:
        raise UsageError(f"this model can't be kept as data: {err.message}") from err
    return text
