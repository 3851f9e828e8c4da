"""The workspace: the folders of people's content, and the inputs of one run loaded from them."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterator
from pathlib import Path

from kvgate.engine.adapters import adapter_input, frozen_adapters, load_adapters
from kvgate.engine.content import shipped_templates
from kvgate.errors import SpecError, UsageError
from kvgate.spec import load
from kvgate.spec.adapter import Adapter
from kvgate.spec.baseline import Baseline
from kvgate.spec.bom import Bom
from kvgate.spec.expect import Expectations, expectations
from kvgate.spec.gate import Gate
from kvgate.spec.inventory import Host, Inventory
from kvgate.spec.load import Loaded
from kvgate.spec.load_adapter import Adapters
from kvgate.spec.load_bom import bom_of, load_bom
from kvgate.spec.plan import Plan, PlannedGate
from kvgate.spec.yamlfile import YamlFile, parse
from kvgate.store.reader import RunReader
from kvgate.transport import recording

FOLDERS = ("gates", "suites", "inventory")
LOCAL_PLAN = "gates/plans/local/rehearsal.yaml"
LOCAL_INVENTORY = "inventory/local/this-machine.yaml"
RECORDED_SITES = "inventory/recorded"
"""Where `kvgate record` writes sites best: each with its plan."""
BOM_INPUT = "bom.yaml"
"""The bill of materials in a run's inputs/."""


@dataclasses.dataclass(frozen=True, slots=True)
class Workspace:
    """A folder that holds gates/, suites/ and inventory/ (and runs/, templates/)."""

    root: Path

    @classmethod
    def find(cls, start: Path) -> Workspace:
        """Return the workspace that `start` lies in; raises UsageError if it lies in none."""
        for folder in (start.resolve(), *start.resolve().parents):
            if all((folder / name).is_dir() for name in FOLDERS):
                return cls(folder)
        raise UsageError(
            f"{start}: lies in no workspace (a folder with {', '.join(FOLDERS)}/)",
            hint="cd into the workspace, name it with --workspace DIR, or make one with "
            "`kvgate init DIR`",
        )

    @property
    def runs(self) -> Path:
        """Return the folder of runs."""
        return self.root / "runs"

    @property
    def templates(self) -> Path:
        """Return the folder of report templates: the workspace's own, else the shipped ones."""
        own = self.root / "templates"
        return own if own.is_dir() else shipped_templates()

    def name(self, path: Path) -> str:
        """Return `path` as people would write it: below the workspace where it is."""
        full = path.resolve()
        return str(full.relative_to(self.root)) if full.is_relative_to(self.root) else str(path)


@dataclasses.dataclass(frozen=True, slots=True)
class Setup:
    """Everything that people wrote about one run, loaded and checked."""

    plan: Loaded[Plan]
    inventory: Loaded[Inventory]
    baseline: Loaded[Baseline] | None
    gates: dict[str, Loaded[Gate]]
    recordings: dict[str, bytes] = dataclasses.field(default_factory=dict)  # host → its recording
    bom: Loaded[Bom] | None = None
    adapters: Adapters = dataclasses.field(default_factory=dict)

    @property
    def expected(self) -> Expectations:
        """Return what every host is expected to answer."""
        return expectations(
            self.inventory.value,
            self.baseline.value if self.baseline else None,
            self.bom.value if self.bom else None,
        )

    def adapter(self, host: Host) -> Adapter | None:
        """Return the adapter that `host` is asked by: None where it is a computer."""
        return self.adapters[host.adapter].value if host.adapter else None

    @property
    def identified(self) -> tuple[Host, ...]:
        """Return the hosts that a gate must find again: all computers, and arrays that can tell.

        Switches and BMCs are no part of what is accepted.
        """
        inventory = self.inventory.value
        arrays = [
            host
            for host in inventory.with_role("array")
            if (adapter := self.adapter(host)) is not None and adapter.identity
        ]
        return (*inventory.with_role("all"), *arrays)

    def planned(self, gate: str) -> PlannedGate:
        """Return the plan's entry for `gate`; raises UsageError if the plan has none."""
        for entry in self.plan.value.gates:
            if entry.gate == gate:
                return entry
        known = load.nearest(gate, (entry.gate for entry in self.plan.value.gates))
        raise UsageError(f"plan '{self.plan.value.plan}' has no gate {gate}{known}")

    def files(self) -> Iterator[tuple[str, YamlFile]]:
        """Yield (name in the run's inputs/, file) for every file a run was told by."""
        yield "plan.yaml", self.plan.files[0]
        if len(self.plan.files) > 1:
            yield "plan-base.yaml", self.plan.files[1]
        yield "inventory.yaml", self.inventory.files[0]
        if self.baseline:
            yield "baseline.yaml", self.baseline.files[0]
        if self.bom:
            yield BOM_INPUT, self.bom.files[0]
        for name, adapter in self.adapters.items():
            yield adapter_input(name), adapter.files[0]
        for gate in self.gates.values():
            yield f"gates/{Path(gate.files[0].name).name}", gate.files[0]

    def criteria_digest(self) -> str:
        """Return a SHA-256 over what is judged by: gates, plan, inventory, baseline and BOM."""
        whole = hashlib.sha256()
        for name, file in sorted(self.files()):
            whole.update(f"{name}\0{file.sha256}\n".encode())
        return whole.hexdigest()


def default_plan(workspace: Workspace, inventory: Path) -> Path:
    """Return the plan to use when none is named: what was drafted with `inventory`, if it was.

    A recorded site has the plan it was recorded by beside its inventory. A drafted plan scopes out
    what that one machine lacks; no other inventory may get it unasked.
    """
    beside = inventory.resolve().parent / "plan.yaml"
    recorded = (workspace.root / RECORDED_SITES).resolve()
    if beside.is_file() and beside.is_relative_to(recorded):
        return beside
    local = workspace.root / LOCAL_PLAN
    drafted = inventory.resolve().parent == (workspace.root / LOCAL_INVENTORY).parent
    return local if drafted and local.is_file() else workspace.root / "gates/plans/rehearsal.yaml"


def default_inventory(workspace: Workspace) -> Path:
    """Return the inventory to use when none is named; raises UsageError if there is none."""
    local = workspace.root / LOCAL_INVENTORY
    if local.is_file():
        return local
    raise UsageError(
        "no inventory was named (--inventory FILE), and none was drafted for this machine",
        hint="draft one with `kvgate draft`, or see inventory/examples/",
    )


def load_setup(workspace: Workspace, plan: Path, inventory: Path) -> Setup:
    """Load and check the inputs of a run; raises SpecError with file and line."""
    loaded_plan = load.load_plan(plan, root=workspace.root, name=workspace.name(plan))
    loaded_inventory = load.load_inventory(inventory, name=workspace.name(inventory))
    baseline = None
    if cited := loaded_inventory.value.baseline:
        path = cited_path(workspace, inventory, "baseline", cited)
        baseline = load.load_baseline(path, loaded_inventory, name=workspace.name(path))
    bom = None
    if cited := loaded_inventory.value.bom:
        path = cited_path(workspace, inventory, "bom", cited)
        bom = load_bom(path, loaded_inventory, name=workspace.name(path))
    gates = load.load_gates(workspace.root / "gates")
    recordings = load_recordings(loaded_inventory.value, inventory.parent)
    adapters = adapters_for(workspace, loaded_inventory, inventory)
    return Setup(loaded_plan, loaded_inventory, baseline, gates, recordings, bom, adapters)


def adapters_for(workspace: Workspace, inventory: Loaded[Inventory], path: Path) -> Adapters:
    """Return the adapters of `inventory`, which lies at `path`; raises SpecError."""
    folders = (path.parent, workspace.root / "inventory")
    return load_adapters(inventory, folders, workspace.name)


def load_recordings(inventory: Inventory, folder: Path) -> dict[str, bytes]:
    """Return host → the bytes of its recording, which lies below `folder`; raises SpecError."""
    found = {}
    for host in inventory.hosts.values():
        if host.recording:
            path = folder / host.recording
            path = path / f"{host.name}.jsonl" if path.is_dir() else path
            try:
                found[host.name] = path.read_bytes()
            except OSError as err:
                raise SpecError(
                    f"{host.name}: recording {path}: {err.strerror or err}",
                    hint="`kvgate record RUN --out DIR` writes inventory and recordings together",
                ) from err
            recording.of_bytes(found[host.name], str(path))
    return found


def cited_path(workspace: Workspace, inventory: Path, key: str, cited: str) -> Path:
    """Return the file that an inventory cites: beside it, else in the workspace's inventory/."""
    for folder in (inventory.parent, workspace.root / "inventory"):
        if (folder / cited).is_file():
            return folder / cited
    raise SpecError(f"{inventory}: {key} '{cited}' is neither beside it nor in inventory/")


def frozen_setup(reader: RunReader, gates: Path | None = None) -> Setup:
    """Return the setup that a run was made with; `gates` replaces its gate files.

    Raises SpecError where a frozen file is not sound any more.
    """
    names = [str(name) for name in reader.manifest["inputs"]]

    def frozen(name: str) -> YamlFile:
        return parse(reader.input(name), f"inputs/{name}")

    base = frozen("plan-base.yaml") if "plan-base.yaml" in names else None
    plan = load.plan_of(frozen("plan.yaml"), base)
    inventory = load.inventory_of(frozen("inventory.yaml"))
    baseline = (
        load.baseline_of(frozen("baseline.yaml"), inventory) if "baseline.yaml" in names else None
    )
    bom = bom_of(frozen(BOM_INPUT), inventory) if BOM_INPUT in names else None
    if gates is not None:
        found = load.load_gates(gates, name=str(gates))
    else:
        parts = [load.gate_of(frozen(name)) for name in names if name.startswith("gates/")]
        found = {part.value.gate: part for part in parts}
    recordings = {
        host: reader.input(recording_input(host))
        for host in inventory.value.hosts
        if recording_input(host) in names
    }
    adapters = frozen_adapters(inventory, names, frozen)
    return Setup(plan, inventory, baseline, found, recordings, bom, adapters)


def recording_input(host: str) -> str:
    """Return the name in a run's inputs/ of the recording of `host`."""
    return f"recordings/{host}.jsonl"
