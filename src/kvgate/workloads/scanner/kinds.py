"""What a file is, by its name: an engine's KV chunk, a checkpoint, a LoRA adapter, or another."""

from __future__ import annotations

import re

KINDS = (
    "other",
    "safetensors",
    "LoRA adapter",
    "LMCache KV",
    "vLLM KV",
    "SGLang KV",
)
"""The kinds, each by its number."""

OTHER, SAFETENSORS, LORA, LMCACHE, VLLM, SGLANG = range(6)

TENSOR_KINDS = frozenset((SAFETENSORS, LORA, VLLM))
"""Kinds whose files may be safetensors."""

_HEX = rb"[0-9a-f]{8,128}"
_LMCACHE = re.compile(
    rb"[^@]+@(?:0x[0-9a-f]+@\d+@" + _HEX + rb"\.data|\d+@\d+@-?[0-9a-f]+(?:@[^@/]*)?\.(?:data|pt))"
)
_SGLANG = re.compile(_HEX + rb"_.+_\d+_\d+\.bin")
_VLLM_LAYER = re.compile(rb"(?:language_)?model\.layers\.\d+\..*attn.*\.safetensors")
_VLLM_BLOCKS = re.compile(rb"(?:.*/)?block_size_\d+[^/]*/.*/" + _HEX + rb"\.bin")


def kind_of(path: bytes) -> int:
    """Return the number of the kind of the file at `path`.

    LMCache: ``model@0x01000100@0@hash.data`` (multi-process) and ``model@1@0@hash@dtype.data`` or
    ``.pt``; SGLang's HiCache: ``hash_model_rank_size.bin``; vLLM: a safetensors file a layer
    (``model.layers.0.self_attn.attn.safetensors``), or blocks below ``block_size_N…/`` (llm-d).
    """
    name = path.rsplit(b"/", 1)[-1]
    if name.endswith(b".safetensors"):
        if _VLLM_LAYER.fullmatch(name):
            return VLLM
        return LORA if name.startswith(b"adapter_") or b"lora" in name.lower() else SAFETENSORS
    if _LMCACHE.fullmatch(name):
        return LMCACHE
    if _SGLANG.fullmatch(name):
        return SGLANG
    return VLLM if _VLLM_BLOCKS.fullmatch(path) else OTHER


def shown(path: bytes) -> str:
    """Return `path` as text: bytes that are no UTF-8, and control characters, as escapes."""
    text = path.decode("utf-8", "backslashreplace")
    return "".join(each if each.isprintable() else f"\\x{ord(each):02x}" for each in text)


def folder_of(path: bytes, depth: int) -> tuple[bytes, ...]:
    """Return the first `depth` folders of a path relative to its root."""
    return tuple(path.split(b"/")[:-1][:depth])
