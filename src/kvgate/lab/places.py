"""Where a lab keeps what: the image and the keys once a user, the machines' state once a lab."""

from __future__ import annotations

import dataclasses
import os
import re
from pathlib import Path

from kvgate.errors import UsageError

_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,31}")
DEFAULT = "default"


@dataclasses.dataclass(frozen=True, slots=True)
class Places:
    """The folders of the lab called `name`, all below the user's `cache` folder."""

    cache: Path
    name: str = DEFAULT

    @property
    def image(self) -> Path:
        """Return the folder of the finished image: kernel, initrd, root.img, manifest.txt."""
        return self.cache / "image"

    @property
    def keys(self) -> Path:
        """Return the folder of the key that logs in, and of the key that the guests show."""
        return self.cache / "keys"

    @property
    def state(self) -> Path:
        """Return the folder of this lab's machines: drives, consoles, pids, inventory."""
        return self.cache / "labs" / self.name

    @property
    def inventory(self) -> Path:
        """Return the inventory that `up` writes, with the ports that the machines have."""
        return self.state / "inventory.yaml"

    def of(self, vm: str) -> Path:
        """Return the folder of one machine."""
        return self.state / vm


def places(name: str = "") -> Places:
    """Return the places of the lab `name` (else of $KVGATE_LAB, else the default one).

    Raises UsageError where the name is none. The folder is $XDG_CACHE_HOME/kvgate/lab.
    """
    wanted = name or os.environ.get("KVGATE_LAB", "") or DEFAULT
    if not _NAME.fullmatch(wanted):
        raise UsageError(
            f"'{wanted}' is no name of a lab", hint="small letters, digits and '-', at most 32"
        )
    home = os.environ.get("XDG_CACHE_HOME", "")
    base = Path(home) if home.startswith("/") else Path.home() / ".cache"
    return Places(base / "kvgate" / "lab", wanted)
