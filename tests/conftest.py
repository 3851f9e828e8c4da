"""Fixtures that tests of several packages share: a private sshd and the host it makes of us."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

import pytest

from kvgate.spec.inventory import Host, Role
from kvgate.transport.sshd import PrivateSshd


@pytest.fixture(scope="session")
def sshd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrivateSshd]:
    """Return a private sshd on loopback that lasts as long as the tests."""
    if shutil.which("sshd", path="/usr/sbin:/usr/local/sbin:/usr/bin:/sbin") is None:
        pytest.skip("needs openssh-server")
    with PrivateSshd(tmp_path_factory.mktemp("sshd")) as running:
        yield running


@pytest.fixture
def ssh_host(sshd: PrivateSshd) -> Host:
    """Return the inventory entry that reaches this machine through the private sshd."""
    host = Host.model_validate({"roles": [Role.SERVING, Role.CLIENT], **sshd.host_entry()})
    return host.model_copy(update={"name": "here"})
