"""The simulated devices of a rehearsal: started together, with their entries of an inventory."""

from __future__ import annotations

import contextlib
import hashlib
import secrets
import shlex
import ssl
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from kvgate.simulate import array, redfish, state
from kvgate.simulate import switch as switch_program
from kvgate.simulate.certificate import ADDRESS
from kvgate.simulate.web import USER, WebDevice
from kvgate.transport.sshd import PrivateSshd

ARRAY, SWITCH, BMC = "sim-array", "sim-switch", "sim-bmc"
"""The names of the devices in the inventory."""

Entry = dict[str, Any]
Ports = Mapping[str, int]


@contextlib.contextmanager
def simulated(folder: Path, *, of: str, ports: Ports | None = None) -> Iterator[dict[str, Entry]]:
    """Yield name → inventory entry of a switch, an array and the BMC of host `of`, all answering.

    Their files are in `folder`, their states healthy when it begins. `ports`: those of a run that
    goes on. Raises HarnessError where sshd is missing or a port is taken.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    wanted = ports or {}
    files = {kind: state.write(folder, kind, state.healthy(kind)) for kind in _KINDS}
    _password(folder)
    command = shlex.join(
        [sys.executable, "-I", "-S", switch_program.__file__, str(files["switch"].resolve())]
    )
    with (
        WebDevice(folder, _read(array.documents, files["array"]), port=wanted.get(ARRAY, 0)) as a,
        WebDevice(folder, _read(redfish.documents, files["bmc"]), port=wanted.get(BMC, 0)) as b,
        PrivateSshd(folder / "sshd", port=wanted.get(SWITCH, 0), command=command) as s,
    ):
        yield {
            SWITCH: _entry("switch", "sonic-switch-ssh") | s.host_entry() | _switch_declared(),
            ARRAY: _entry("array", "array-rest-example") | _web(folder, a.port) | _array_declared(),
            BMC: _entry("bmc", "redfish") | {"of": of} | _web(folder, b.port) | _bmc_declared(),
        }


_KINDS = ("switch", "array", "bmc")


def _read(
    documents: Callable[[state.State], Mapping[str, Any]], file: Path
) -> Callable[[], Mapping[str, Any]]:
    return lambda: documents(state.read(file))


def _password(folder: Path) -> Path:
    path = folder / "password"
    if not path.is_file():
        path.touch(mode=0o600)
        path.write_text(secrets.token_hex(16), "utf-8")
    return path


def _entry(role: str, adapter: str) -> Entry:
    return {"roles": [role], "adapter": adapter, "simulated": True}


def _web(folder: Path, port: int) -> Entry:
    certificate = ssl.PEM_cert_to_DER_cert((folder / "certificate.pem").read_text("ascii"))
    return {
        "transport": "https",
        "address": ADDRESS,
        "port": port,
        "user": USER,
        "password": {"file": str(folder / "password")},
        "tls": {"fingerprint": f"sha256:{hashlib.sha256(certificate).hexdigest()}"},
    }


def _switch_declared() -> Entry:
    have = state.healthy("switch")
    ports = [
        {
            "name": name,
            "speed": f"{port['speed'].removesuffix('G')} Gbit/s",
            "mtu": f"{port['mtu']} B",
            "pfc": port["pfc"],
            "neighbour": " ".join(port["neighbour"]),
        }
        for name, port in have["ports"].items()
    ]
    return {"declared": {**_who(have), "ecn": have["ecn"], "ports": ports}}


def _array_declared() -> Entry:
    have = state.healthy("array")
    drive = next(iter(have["drives"].values()))
    return {
        "declared": {
            **_who(have),
            "controllers": list(have["controllers"]),
            "drives": {
                "count": len(have["drives"]),
                "model": drive["model"],
                "firmware": drive["firmware"],
            },
            "pools": [
                {"name": name, "layout": pool["layout"], "capacity": f"{pool['bytes']} B"}
                for name, pool in have["pools"].items()
            ],
            "ports": [
                {"name": name, "speed": f"{port['speed'].removesuffix('G')} Gbit/s"}
                for name, port in have["ports"].items()
            ],
            "capacity": f"{have['capacity']['physical']} B",
        }
    }


def _bmc_declared() -> Entry:
    have = state.healthy("bmc")
    counts = {"psus": len(have["psus"]), "fans": len(have["fans"])}
    return {"declared": {**_who(have), "bios": have["bios"], **counts}}


def _who(have: state.State) -> Entry:
    return {key: have[key] for key in ("model", "serial", "firmware")}
