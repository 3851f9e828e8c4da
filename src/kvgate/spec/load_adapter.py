"""Loads the adapters that an inventory's devices are asked by, and refuses what does not fit."""

from __future__ import annotations

from collections.abc import Mapping

from kvgate.spec.adapter import Adapter
from kvgate.spec.inventory import Host, Inventory
from kvgate.spec.load import Loaded, validate
from kvgate.spec.yamlfile import YamlFile

Adapters = Mapping[str, Loaded[Adapter]]
"""The adapters of a run, by name."""

_WAYS = {"ssh": ("ssh",), "https": ("redfish", "rest"), "http": ("redfish", "rest")}


def adapter_of(file: YamlFile) -> Loaded[Adapter]:
    """Check one adapter file; raises SpecError."""
    return Loaded(validate(Adapter, file), (file,))


def check_fit(inventory: Loaded[Inventory], adapters: Adapters) -> None:
    """Raise SpecError where a device's adapter is for another role or way; adapters are all."""
    for host in inventory.value.devices:
        adapter = adapters[host.adapter or ""].value
        if why := _unfit(host, adapter):
            raise inventory.files[0].error(
                ("hosts", host.name, "adapter"), f"adapter '{adapter.adapter}' {why}"
            )


def _unfit(host: Host, adapter: Adapter) -> str:
    if adapter.role != host.role.value:
        return f"is for the role '{adapter.role}', not for '{host.role.value}'"
    ways = _WAYS.get(host.transport)
    if ways is not None and adapter.way not in ways:
        return f"asks by {adapter.way}, not by {host.transport}"
    if host.transport in ("https", "http") and adapter.login != "none":
        missing = [key for key in ("user", "password") if getattr(host, key) is None]
        if missing:
            return f"logs in ({adapter.login}), and the device has no '{missing[0]}'"
    return ""
