"""Faults as data: what is done to a path or an array, what undoes it, and what proves both.

Commands are argument lists of safe words, written by people. No answer of a host ever becomes
part of one.
"""

from __future__ import annotations

from typing import Annotated, Literal, get_args

import pydantic

from kvgate.model.quantity import Quantity
from kvgate.spec import words
from kvgate.spec.base import Duration, Slug, Strict, Text, within

PathKind = Literal[
    "link_down",
    "cable_flap",
    "port_off",
    "controller_reset",
    "ana_change",
    "target_restart",
    "both_paths",
]
ArrayKind = Literal["drive_pulled", "controller_takeover", "power_loss"]
Kind = Literal[PathKind, ArrayKind]

PATH_KINDS: tuple[str, ...] = get_args(PathKind)
"""Faults that take paths away: proven by what the initiator sees of its paths."""

_ITEM = "{item}"
Word = Annotated[str, pydantic.AfterValidator(words.safe(_ITEM))]
Words = Annotated[list[Word], pydantic.Field(min_length=1, max_length=64)]
Wait = Annotated[Duration, within("100 ms", "24 h")]
Held = Annotated[Duration, within("0 s", "24 h")]


class FaultWay(Strict):
    """How devices of one kind are made to fail: a template of an adapter, ``{item}`` a thing of it.

    ``prove`` and ``proved_back`` exit 0 where the fault, or its repair, is there now.
    """

    fault: Slug
    kind: Kind
    do: Words
    undo: Words
    prove: Words | None = None
    proved_back: Words | None = None


class PathTaken(Strict):
    """Paths to an address of the array; all its ports and transports unless they are given."""

    address: Text
    port: Annotated[int, pydantic.Field(ge=1, le=65535)] | None = None
    transport: Literal["tcp", "rdma", "fc", "loop"] | None = None


Item = Annotated[str, pydantic.StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._/:-]{0,63}$")]


class FaultTemplate(Strict):
    """One fault of this site: on which host it is done, how, and which paths it takes away.

    Either ``by`` names a template of the adapter that host ``on`` has, ``item`` what it is done to,
    or the commands stand here. ``undo`` must do no harm where nothing was done, and where it was
    run before: a guard on the host runs it if kvgate is killed.

    ``reconnect`` is run on the serving host after the undo, for paths that do not come back by
    themselves (``beyond``: both are lost for longer than ctrl_loss_tmo). ``times`` are the turns
    of a cable_flap, ``between`` how long each of its states lasts. ``hold`` is how long the fault
    lasts where that is not the plan's time; ``within`` what each command may take;
    ``back_within`` when all must be as before after the undo.
    """

    fault: Slug
    kind: Kind
    on: Slug
    by: Slug | None = None
    item: Item | None = None
    do: Words | None = None
    undo: Words | None = None
    prove: Words | None = None
    proved_back: Words | None = None
    reconnect: Words | None = None
    takes: list[PathTaken] = pydantic.Field(default_factory=list)
    beyond: bool = False
    times: Annotated[int, pydantic.Field(ge=1, le=100)] = 1
    between: Held = Quantity.of(1, "s")
    hold: Held | None = None
    within: Wait = Quantity.of(30, "s")
    back_within: Wait = Quantity.of(60, "s")

    @property
    def takes_paths(self) -> bool:
        """Tell whether it is proven by the paths that are lost."""
        return self.kind in PATH_KINDS

    @pydantic.model_validator(mode="after")
    def _commanded(self) -> FaultTemplate:
        own = [self.do, self.undo]
        if self.by is not None and any((*own, self.prove, self.proved_back)):
            raise ValueError("'by' names the adapter's commands: no do, undo or prove beside it")
        if self.by is None and None in own:
            raise ValueError("a fault has 'do' and 'undo', or 'by' a template of its adapter")
        spelt = [*(self.do or ()), *(self.undo or ())]
        if self.by is None and self.item is not None and _ITEM not in " ".join(spelt):
            raise ValueError("item: no word holds '{item}'")
        return self

    @pydantic.model_validator(mode="after")
    def _proven(self) -> FaultTemplate:
        if self.takes_paths and not self.takes:
            raise ValueError(f"takes: {self.kind} names the paths that it takes away")
        if not self.takes_paths and self.takes:
            raise ValueError(f"takes: {self.kind} is proven by the array's own answer")
        if self.by is None and not _answered(self.kind, self.prove, self.proved_back):
            raise ValueError(f"{self.kind} takes 'prove' and 'proved_back': the array's own answer")
        if self.beyond and self.kind != "both_paths":
            raise ValueError("beyond goes with both_paths")
        if self.times > 1 and self.kind != "cable_flap":
            raise ValueError("times goes with cable_flap")
        return self

    @property
    def loss(self) -> str:
        """Return what is lost, as criteria tell faults apart by it.

        ``some`` or ``all`` paths, all ``beyond`` the time-out, ``power``, ``none`` (inside the
        array).
        """
        if self.beyond:
            return "beyond"
        return {"both_paths": "all", "power_loss": "power"}.get(
            self.kind, "some" if self.takes_paths else "none"
        )


def _answered(kind: Kind, prove: Words | None, proved_back: Words | None) -> bool:
    """Tell whether a fault inside the array has the answers that prove it, and its repair.

    A loss of power takes all paths along, which is proof enough of it.
    """
    return kind in PATH_KINDS or bool((prove or kind == "power_loss") and proved_back)


def filled(template: FaultTemplate, way: FaultWay | None) -> FaultTemplate:
    """Return `template` with its commands: those of `way` where it is given by an adapter's.

    Raises ValueError where `way` is of another kind, or proves too little.
    """
    if way is not None:
        if way.kind != template.kind:
            raise ValueError(f"'{way.fault}' is a {way.kind}, not a {template.kind}")
        given = {name: getattr(way, name) for name in ("do", "undo", "prove", "proved_back")}
        template = template.model_copy(update={**given, "by": None})
        if not _answered(way.kind, way.prove, way.proved_back):
            raise ValueError(f"'{way.fault}' has not both prove and proved_back")
    spelt = {
        name: [word.replace(_ITEM, template.item or _ITEM) for word in each]
        for name in ("do", "undo", "prove", "proved_back", "reconnect")
        if (each := getattr(template, name))
    }
    if any(_ITEM in word for each in spelt.values() for word in each):
        raise ValueError("its commands hold '{item}', and no item is given")
    return template.model_copy(update=spelt)
