"""How a command that needs root is written for a host."""

from __future__ import annotations

import pytest

from kvgate.spec.inventory import Host


@pytest.mark.parametrize(
    ("fields", "written"),
    [
        ({}, "nvme list"),
        ({"tools": {"nvme": "/opt/nvme"}}, "/opt/nvme list"),
        ({"sudo": "passwordless"}, "sudo -n nvme list"),
        ({"sudo": "passwordless", "tools": {"nvme": "/opt/nvme"}}, "sudo -n /opt/nvme list"),
    ],
)
def test_by_the_tools_path_and_by_sudo_where_the_inventory_says_so(
    fields: dict[str, object], written: str
) -> None:
    host = Host.model_validate({"roles": ["serving"], "transport": "local", **fields})
    assert " ".join(host.as_root("nvme", "list")) == written


def test_a_devices_command_line_has_no_sudo() -> None:
    entry = {"roles": ["switch"], "adapter": "made", "address": "192.0.2.1", "user": "reader"}
    switch = Host.model_validate({**entry, "key": {"file": "key"}})
    assert switch.as_root("show", "version") == ("show", "version")
