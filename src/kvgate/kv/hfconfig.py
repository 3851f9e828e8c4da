"""A Hugging Face config.json → the model's KV geometry; what it can't tell is refused, not guessed.

What it leaves to the model's code by convention (a missing head_dim or num_key_value_heads) is
filled in as that code does, and said in the notes.
"""

from __future__ import annotations

import json
import re
from typing import Any

from kvgate.kv.geometry import Geometry, GeometryError
from kvgate.kv.models import MOST
from kvgate.parse.text import no_constant, unique_keys
from kvgate.untrusted import plain

MOST_BYTES = 2**20
"""A config.json is a few KiB."""

_FULL, _WINDOWED = "full_attention", "sliding_attention"
_ALL_WINDOWED = ("mistral", "mixtral", "starcoder2", "phi3")
"""Model types whose code gives every layer the window, where the file names no layer types."""

_OTHER_STATE = {
    "layers_block_type": "layers of several kinds",
    "hybrid_override_pattern": "layers of several kinds",
    "attn_layer_period": "attention in some layers only",
    "full_attention_interval": "attention in some layers only",
    "cross_attention_layers": "cross attention",
    "num_kv_shared_layers": "layers that share their KV",
    "multi_query": "attention told in another way",
    "cla_share_factor": "layers that share their KV",
    "is_encoder_decoder": "an encoder, whose KV is another matter",
}
"""Keys that mean KV which the two formulas don't cover; a false, null, 0 or empty value is none."""


def geometry_of(content: bytes, *, name: str, source: str) -> Geometry:
    """Return the geometry that a config.json's bytes describe; raises GeometryError.

    `name` is what the model is called from now on, `source` where the file came from.
    """
    config = _parsed(content)
    notes: list[str] = []
    if isinstance(inner := config.get("text_config"), dict):
        notes.append("of its text_config: what images or sound add is not in it")
        config = inner
    for key, what in _OTHER_STATE.items():
        if config.get(key):
            raise GeometryError(
                f"config.json: {key}: {what}: its KV can't be told from this file",
                hint="write its geometry by hand into inventory/models/, with its source",
            )
    layers = _number(config, "num_hidden_layers")
    shape = _latent(config) if config.get("kv_lora_rank") else _grouped(config, notes)
    windowed, window = _windows(config, layers)
    if config.get("num_nextn_predict_layers"):
        notes.append("without the KV of its multi-token prediction layers")
    if config.get("quantization_config"):
        notes.append("its weights are quantized, which does not say that its KV is")
    return Geometry(
        name=_slug(name),
        layers=layers,
        source=source,
        window_layers=windowed,
        window=window,
        notes=tuple(notes),
        **shape,
    )


def _parsed(content: bytes) -> dict[str, Any]:
    if len(content) > MOST_BYTES:
        raise GeometryError(f"config.json: {len(content)} bytes, more than {MOST_BYTES}")
    try:
        value = json.loads(content, parse_constant=no_constant, object_pairs_hook=unique_keys)
    except (ValueError, RecursionError) as err:
        raise GeometryError(f"config.json: is no JSON: {plain(str(err))}") from err
    if not isinstance(value, dict):
        raise GeometryError("config.json: is no table of keys and values")
    return value


def _number(config: dict[str, Any], key: str) -> int:
    """Return a whole number that is there; raises GeometryError."""
    if key not in config:
        raise GeometryError(
            f"config.json: '{key}' is missing",
            hint="older or other models have other keys: write its geometry by hand",
        )
    value = config[key]
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= MOST:
        shown = plain(json.dumps(value))[:60]
        raise GeometryError(f"config.json: {key}: {shown} is no whole number from 1 to {MOST}")
    return value


def _latent(config: dict[str, Any]) -> dict[str, int]:
    return {
        "latent": _number(config, "kv_lora_rank"),
        "rope": _number(config, "qk_rope_head_dim"),
    }


def _grouped(config: dict[str, Any], notes: list[str]) -> dict[str, int]:
    heads = _number(config, "num_attention_heads")
    if config.get("num_key_value_heads") is None:
        kv_heads = heads
        notes.append("no num_key_value_heads: as many KV heads as heads, as its code has it")
    else:
        kv_heads = _number(config, "num_key_value_heads")
    if kv_heads > heads or heads % kv_heads:
        raise GeometryError(f"config.json: {heads} heads don't share {kv_heads} KV heads evenly")
    if config.get("head_dim") is not None:
        return {"kv_heads": kv_heads, "head_dim": _number(config, "head_dim")}
    hidden = _number(config, "hidden_size")
    if hidden % heads:
        raise GeometryError(
            f"config.json: no head_dim, and hidden_size {hidden} is no multiple of {heads} heads"
        )
    notes.append("no head_dim: hidden_size / num_attention_heads, as its code has it")
    return {"kv_heads": kv_heads, "head_dim": hidden // heads}


def _windows(config: dict[str, Any], layers: int) -> tuple[int, int]:
    """Return how many layers keep only a window, and its tokens; (0, 0) where none does."""
    kinds = config.get("layer_types")
    if kinds is not None:
        return _by_kind(config, kinds, layers)
    if config.get("sliding_window") is None or config.get("use_sliding_window") is False:
        return 0, 0
    if config.get("model_type") not in _ALL_WINDOWED:
        raise GeometryError(
            "config.json: a sliding_window without layer_types: which layers have it is not said",
            hint="write its geometry by hand into inventory/models/, with its source",
        )
    return layers, _number(config, "sliding_window")


def _by_kind(config: dict[str, Any], kinds: Any, layers: int) -> tuple[int, int]:
    if not isinstance(kinds, list) or len(kinds) != layers:
        raise GeometryError(f"config.json: layer_types does not name {layers} layers")
    other = [each for each in kinds if each not in (_FULL, _WINDOWED)]
    if other:
        shown = plain(json.dumps(other[0]))[:60]
        raise GeometryError(f"config.json: layer_types: {shown}: its KV can't be told from here")
    windowed = kinds.count(_WINDOWED)
    return (windowed, _number(config, "sliding_window")) if windowed else (0, 0)


def _slug(name: str) -> str:
    """Return a name as models have it: small letters, digits, '.', '_' and '-'."""
    slug = re.sub(r"[^a-z0-9._-]+", "-", name.lower()).strip("._-")[:64]
    if not slug:
        raise GeometryError(f"'{plain(name)}' can't name a model", hint="give one with --name")
    return slug
