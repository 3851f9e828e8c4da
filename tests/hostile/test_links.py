"""Links that are lost before, in and after a command; hops that fail; names nobody resolves."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kvgate.errors import CommandError, HostKeyError, HostUnreachableError, LoginError
from kvgate.model.quantity import Quantity
from kvgate.spec.inventory import Host, Inventory
from kvgate.transport import dial, hostkeys, pump
from kvgate.transport.connect import Connections
from kvgate.transport.ssh import SshTransport
from kvgate.transport.sshd import PrivateSshd

if TYPE_CHECKING:
    from conftest import Hostile, Proxy

pytestmark = pytest.mark.sshd

T = 30.0
Proxied = Callable[[int], "Proxy"]


def through(sshd: PrivateSshd, port: int, folder: Path, **fields: object) -> Host:
    """Return the private sshd's host as it is reached through a proxy on `port`."""
    key = Path(str(sshd.host_entry()["known_hosts"])).read_text().split(maxsplit=1)[1]
    known = folder / f"known_hosts_{port}"
    known.write_text(f"{hostkeys.host_name('127.0.0.1', port)} {key}")
    entry = {**sshd.host_entry(), "port": port, "known_hosts": str(known)}
    return Host.model_validate({"roles": ["client"], "name": "far", **entry, **fields})


@pytest.fixture
def proxy(sshd: PrivateSshd, proxied: Proxied) -> Proxy:
    """Return a proxy before the private sshd."""
    return proxied(sshd.port)


def add(path: Path) -> list[str]:
    """Return a command whose every run can be counted."""
    return ["sh", "-c", 'echo ran >>"$1"; sleep "$2"', "sh", str(path), "0"]


def runs(path: Path) -> int:
    return path.read_text().count("ran") if path.exists() else 0


@pytest.mark.parametrize(
    ("pieces", "passing", "count"),
    [
        (0, False, 1),  # in place of the request for a session: nothing can have begun
        (1, False, 0),  # in place of the command: it can't be known that it did not arrive
        (1, True, 1),  # behind the command
    ],
)
def test_only_what_can_not_have_begun_is_asked_for_again(
    sshd: PrivateSshd, proxy: Proxy, tmp_path: Path, pieces: int, passing: bool, count: int
) -> None:
    transport = SshTransport(through(sshd, proxy.port, tmp_path))
    transport.run(["true"], timeout_s=T).expect_ok()
    time.sleep(0.3)  # the end of the first command is on its way
    mark = tmp_path / "mark"
    proxy.cut_after(pieces, passing=passing)
    if pieces == 0:
        transport.run(add(mark), timeout_s=T).expect_ok()
    else:
        with pytest.raises(HostUnreachableError, match="link was lost"):
            transport.run([*add(mark)[:-1], "2"], timeout_s=T)
        time.sleep(1)
        assert proxy.connections == 1
    assert runs(mark) == count
    transport.run(["true"], timeout_s=T).expect_ok()  # the next one has a connection of its own
    assert proxy.connections == 2
    transport.close()


def test_a_command_that_was_cut_off_in_the_middle_is_not_run_again(
    sshd: PrivateSshd, proxy: Proxy, tmp_path: Path
) -> None:
    transport = SshTransport(through(sshd, proxy.port, tmp_path))
    mark = tmp_path / "mark"
    timer = threading.Timer(1.0, proxy.cut)
    timer.start()
    with pytest.raises(HostUnreachableError, match="link was lost while a command ran"):
        transport.run([*add(mark)[:-1], "20"], timeout_s=T)
    assert transport.run(["cat", str(mark)], timeout_s=T).stdout == b"ran\n"
    assert proxy.connections == 2
    transport.close()


def test_a_link_that_is_cut_between_commands_costs_nothing(
    sshd: PrivateSshd, proxy: Proxy, tmp_path: Path
) -> None:
    transport = SshTransport(through(sshd, proxy.port, tmp_path))
    for _ in range(3):
        assert transport.run(["echo", "here"], timeout_s=T).stdout == b"here\n"
        proxy.cut()
    transport.close()


def test_a_host_that_is_gone_for_good_is_tried_once_more_and_named(
    sshd: PrivateSshd, proxy: Proxy, tmp_path: Path
) -> None:
    transport = SshTransport(through(sshd, proxy.port, tmp_path))
    transport.run(["true"], timeout_s=T).expect_ok()
    proxy.close()
    with pytest.raises(HostUnreachableError, match=r"^far: 127.0.0.1 port .*refused"):
        transport.run(["true"], timeout_s=T)


def chain(sshd: PrivateSshd, names: str, **changed: dict[str, object]) -> Inventory:
    """Return hosts each behind the next: of "abc", a is reached through b, and b through c."""
    hosts = {}
    for name, jump in zip(names, [*names[1:], None], strict=True):
        entry = {"roles": ["client"], **sshd.host_entry(), "jump": jump}
        hosts[name] = entry | changed.get(name, {})
    return Inventory.model_validate({"inventory": "site", "hosts": hosts})


def test_a_host_behind_four_jump_hosts(sshd: PrivateSshd) -> None:
    inventory = chain(sshd, "abcde")
    with Connections(inventory) as connections:
        assert connections.to(inventory.hosts["a"]).run(["echo", "x"], timeout_s=T).ok


@pytest.mark.parametrize("hop", ["a", "b", "c", "d"])
def test_every_hop_checks_its_own_key_and_is_named(
    sshd: PrivateSshd, tmp_path: Path, hop: str
) -> None:
    inventory = chain(sshd, "abcd", **{hop: {"known_hosts": str(tmp_path / "none")}})
    with Connections(inventory) as connections, pytest.raises(HostKeyError) as caught:
        connections.to(inventory.hosts["a"]).run(["true"], timeout_s=T)
    because = "" if hop == "a" else f"not reached, because of jump host {hop}: "
    assert caught.value.message.startswith(f"a: {because}the host key is not known")
    assert caught.value.host == "a"


def test_a_hop_that_refuses_the_login_is_named(sshd: PrivateSshd) -> None:
    inventory = chain(sshd, "abcd", c={"user": "nobody-of-that-name"})
    with Connections(inventory) as connections, pytest.raises(LoginError) as caught:
        connections.to(inventory.hosts["a"]).run(["true"], timeout_s=T)
    assert caught.value.message.startswith("a: not reached, because of jump host c: user 'nobody")


@pytest.mark.parametrize("behaviour", ["silent", "slow_banner", "auth_hangs", "open_hangs"])
def test_a_hop_has_its_own_deadline(sshd: PrivateSshd, hostile: Hostile, behaviour: str) -> None:
    """A hostile hop costs its own time, not that of those before and behind it."""
    bad = hostile.entry(behaviour, connect_timeout="1 s", jump="c")
    inventory = chain(sshd, "abc", b=bad)
    begun = time.monotonic()
    a = inventory.hosts["a"].model_copy(update={"connect_timeout": Quantity.of(2, "s")})
    with Connections(inventory) as connections, pytest.raises(HostUnreachableError) as caught:
        connections.to(a).run(["true"], timeout_s=T)
    assert time.monotonic() - begun < 2 + 6
    assert caught.value.message.startswith("a: not reached, because of jump host b: ")


def test_the_time_of_a_hop_is_not_taken_from_the_host_behind_it(
    sshd: PrivateSshd, monkeypatch: pytest.MonkeyPatch
) -> None:
    inventory = chain(sshd, "ab", a={"connect_timeout": "2 s"})
    checked = dial.check_key

    def slowly(host: Host, key: Any) -> None:
        if host.name == "b":
            time.sleep(2.2)
        checked(host, key)

    monkeypatch.setattr(dial, "check_key", slowly)
    with Connections(inventory) as connections:
        assert connections.to(inventory.hosts["a"]).run(["true"], timeout_s=T).ok


def test_a_way_through_a_jump_host_that_was_lost_is_opened_again(
    sshd: PrivateSshd, proxy: Proxy, tmp_path: Path
) -> None:
    inventory = chain(sshd, "ab")
    hop = through(sshd, proxy.port, tmp_path).model_copy(update={"name": "b"})
    inventory = inventory.model_copy(update={"hosts": {**inventory.hosts, "b": hop}})
    with Connections(inventory) as connections:
        far = connections.to(inventory.hosts["a"])
        far.run(["true"], timeout_s=T).expect_ok()
        proxy.cut()
        far.run(["true"], timeout_s=T).expect_ok()
        assert proxy.connections == 2


def test_a_resolver_that_does_not_answer_costs_the_deadline(
    sshd: PrivateSshd, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = threading.Event()

    def hang(*_: object, **__: object) -> list[Any]:
        asked.wait(20)
        return []

    monkeypatch.setattr(socket, "getaddrinfo", hang)
    entry = {**sshd.host_entry(), "address": "kvgate.invalid", "connect_timeout": "1 s"}
    host = Host.model_validate({"roles": ["client"], "name": "far", **entry})
    begun = time.monotonic()
    with pytest.raises(HostUnreachableError, match=r"far: kvgate.invalid .* not resolved within 1"):
        SshTransport(host).open()
    assert time.monotonic() - begun < 4
    asked.set()


@pytest.mark.parametrize("name", ["kvgate.invalid", "a..b", "x" * 300, "ü" * 64])
def test_a_name_that_is_none_is_said(sshd: PrivateSshd, name: str) -> None:
    entry = {**sshd.host_entry(), "address": name, "connect_timeout": "5 s"}
    host = Host.model_validate({"roles": ["client"], "name": "far", **entry})
    with pytest.raises(HostUnreachableError, match=r"^far: "):
        SshTransport(host).open()


def test_the_second_address_of_a_name_is_tried(
    sshd: PrivateSshd, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed = socket.create_server(("127.0.0.1", 0))
    bad = closed.getsockname()
    closed.close()
    good = ("127.0.0.1", sshd.port)
    told = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", address) for address in (bad, good)]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: told)
    SshTransport(through_name(sshd)).run(["true"], timeout_s=T).expect_ok()


def through_name(sshd: PrivateSshd) -> Host:
    return Host.model_validate({"roles": ["client"], "name": "far", **sshd.host_entry()})


def test_a_host_that_hangs_while_a_process_is_started(
    hostile: Hostile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kvgate.transport.leashed.START_TIMEOUT_S", 1.0)
    monkeypatch.setattr(pump, "GIVE_UP_S", 0.3)
    transport = SshTransport(hostile.host("hung"))
    with pytest.raises(CommandError, match="was not started within 1 s"):
        transport.start(["sleep", "1"], deadline_s=30)
    transport.close()
