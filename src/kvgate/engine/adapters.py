"""The adapters of a run's devices: found beside the inventory or in the workspace, and frozen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from kvgate.errors import SpecError
from kvgate.parse import registry
from kvgate.spec import yamlfile
from kvgate.spec.adapter import Adapter
from kvgate.spec.inventory import Inventory
from kvgate.spec.load import Loaded, nearest
from kvgate.spec.load_adapter import Adapters, adapter_of, check_fit
from kvgate.spec.yamlfile import YamlFile

FOLDER = "adapters"
"""The folder of adapters: beside an inventory, in the workspace's inventory/, in a run's inputs."""


def load_adapters(
    inventory: Loaded[Inventory], folders: Sequence[Path], name: Callable[[Path], str]
) -> Adapters:
    """Return the adapters that the devices of `inventory` cite, from the first folder with each.

    `name` says a path as people would write it. Raises SpecError, also where one does not fit.
    """
    found: dict[str, Loaded[Adapter]] = {}
    for host in inventory.value.devices:
        cited = host.adapter or ""
        if cited in found:
            continue
        paths = [folder / FOLDER / f"{cited}.yaml" for folder in folders]
        path = next((each for each in paths if each.is_file()), None)
        if path is None:
            known = {each.stem for folder in folders for each in (folder / FOLDER).glob("*.yaml")}
            raise inventory.files[0].error(
                ("hosts", host.name, "adapter"),
                f"there is no adapter '{cited}' (adapters/{cited}.yaml){nearest(cited, known)}",
            )
        found[cited] = _checked(adapter_of(yamlfile.read(path, name=name(path))), cited)
    check_fit(inventory, found)
    return found


def frozen_adapters(
    inventory: Loaded[Inventory], names: Sequence[str], frozen: Callable[[str], YamlFile]
) -> Adapters:
    """Return the adapters among a run's inputs `names`; raises SpecError."""
    found = {}
    for host in inventory.value.devices:
        name = adapter_input(host.adapter or "")
        if name not in names:
            raise SpecError(f"inputs/{name}: is missing, and {host.name} is asked by it")
        found[host.adapter or ""] = adapter_of(frozen(name))
    check_fit(inventory, found)
    return found


def adapter_input(adapter: str) -> str:
    """Return the name in a run's inputs/ of an adapter."""
    return f"{FOLDER}/{adapter}.yaml"


def _checked(loaded: Loaded[Adapter], cited: str) -> Loaded[Adapter]:
    """Raise SpecError for an adapter of another name than its file, or with an unknown parser."""
    file, adapter = loaded.files[0], loaded.value
    if adapter.adapter != cited:
        raise file.error(
            ("adapter",), f"'{adapter.adapter}' is not '{cited}', as its file is named"
        )
    for index, question in enumerate(adapter.questions):
        named = question.form.named
        if named is not None and named not in registry.tools():
            raise file.error(
                ("questions", index, "form", "named"),
                f"kvgate has no parser '{named}'{nearest(named, registry.tools())}",
            )
    return loaded
