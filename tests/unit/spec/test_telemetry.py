"""What an inventory may say of a host's telemetry, and what it may not."""

from __future__ import annotations

from typing import Any

import pytest

from kvgate.errors import SpecError
from kvgate.spec import load, yamlfile
from kvgate.telemetry.channel import Settings

HEAD = """\
inventory: site
hosts:
  a:
    roles: [serving]
    transport: local
"""


def test_all_of_it_becomes_settings() -> None:
    said = (
        HEAD
        + """\
    telemetry:
      metrics: {vllm: "http://127.0.0.1:8000/metrics"}
      tools:
        - {name: raid, command: [sudo, -n, storcli64, /c0, show, J]}
        - {name: port, command: [cat, /proc/x], form: lines}
      gpu: amd-smi
      slow_every: 120 s
"""
    )
    host = load.inventory_of(yamlfile.parse(said.encode(), "i.yaml")).value.hosts["a"]
    found = Settings(every_s=0.5, deadline_s=9).of(host)
    assert found == Settings(
        every_s=0.5,
        deadline_s=9,
        slow_s=120,
        metrics={"vllm": "http://127.0.0.1:8000/metrics"},
        tools=(
            ("tool.raid", ["sudo", "-n", "storcli64", "/c0", "show", "J"], "json"),
            ("tool.port", ["cat", "/proc/x"], "lines"),
        ),
        gpu="amd-smi",
    )
    plain = load.inventory_of(yamlfile.parse(HEAD.encode(), "i.yaml")).value.hosts["a"]
    assert Settings().of(plain) == Settings()
    assert Settings().of(plain.model_copy(update={"sudo": "passwordless"})) == Settings(sudo=True)


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("metrics: {vllm: 127.0.0.1:8000}", "is no address of metrics"),
        ("metrics: {vllm: 'file:///etc/passwd'}", "is no address of metrics"),
        ("metrics: {vllm: 'http://me:secret@h/'}", "no name and password"),
        ("metrics: {vllm: 'http://h/a b'}", "no blank"),
        ("tools: [{name: x, command: [sh, -c, 'rm -rf /']}]", "is not a word of safe characters"),
        ("tools: [{name: x, command: []}]", "at least 1"),
        ("tools: [{name: x, command: [a]}, {name: x, command: [b]}]", "each name once"),
        ("gpu: rocm-smi", "'sysfs' or 'amd-smi'"),
        ("slow_every: 1 s", "is not within"),
        ("every: 1 s", "every"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(said: str, why: str) -> None:
    text = HEAD + f"    telemetry:\n      {said}\n"
    with pytest.raises(SpecError) as got:
        load.inventory_of(yamlfile.parse(text.encode(), "i.yaml"))
    told: Any = got.value
    assert why in str(told), str(told)
    assert "i.yaml:7" in str(told)


def test_a_device_has_none() -> None:
    said = """\
inventory: site
hosts:
  fx: {roles: [array], adapter: a, address: fx1, telemetry: {gpu: amd-smi}}
"""
    with pytest.raises(SpecError, match="telemetry: a device has none"):
        load.inventory_of(yamlfile.parse(said.encode(), "i.yaml"))
