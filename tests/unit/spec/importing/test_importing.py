"""Inventories of other tools come over with roles and ways to hosts; secrets and doubts do not."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvgate.errors import SpecError, UsageError
from kvgate.spec import yamlfile
from kvgate.spec.importing import FORMS, Imported, import_inventory
from kvgate.spec.inventory import Inventory
from kvgate.spec.load import inventory_of

ROLES = ("gpu=serving", "load=client")

YAML = """\
all:
  vars:
    ansible_user: ops
  children:
    gpu:
      hosts:
        Node[01:03].example.com:
        node9:
          ansible_host: 192.0.2.9
          ansible_port: 2222
          ansible_user: root
      vars:
        ansible_ssh_private_key_file: ~/.ssh/gpu
        rack: 7
    load:
      hosts:
        client1:
          ansible_ssh_common_args: -o ProxyJump=node9
    other:
      hosts: {db1: null}
"""

INI = """\
# the same site
[gpu]
Node[01:03].example.com
node9 ansible_host=192.0.2.9 ansible_port=2222 ansible_user='root'  # the odd one

[load]
client1 ansible_ssh_common_args="-o ProxyJump=node9"

[other]
db1

[gpu:vars]
ansible_ssh_private_key_file = ~/.ssh/gpu
rack=7

[all:vars]
ansible_user=ops
"""

CSV = """\
name,address,port,user,key_file,roles,jump
Node[01-03].example.com,,,ops,~/.ssh/gpu,gpu,
node9,192.0.2.9,2222,root,~/.ssh/gpu,gpu,
client1,,,ops,,load,node9
db1,,,,,other,
"""
SAME = {"ansible-yaml": YAML, "ansible-ini": INI, "csv": CSV}


def made(text: str, form: str, *roles: str) -> Imported:
    return import_inventory(text.encode(), "site", form=form, roles=roles, name="site-a")


def read(imported: Imported) -> Inventory:
    return inventory_of(yamlfile.parse(imported.text.encode(), "made")).value


def refused(text: str, form: str, *roles: str) -> SpecError:
    with pytest.raises(SpecError) as caught:
        made(text, form, *roles)
    return caught.value


def test_the_same_site_in_three_forms_is_the_same_inventory() -> None:
    found = {form: read(made(text, form, *ROLES)) for form, text in SAME.items()}
    assert found["ansible-yaml"] == found["ansible-ini"] == found["csv"]
    hosts = found["csv"].hosts
    assert list(hosts) == [*(f"node0{n}.example.com" for n in (1, 2, 3)), "node9", "client1"]
    node, odd, client = hosts["node01.example.com"], hosts["node9"], hosts["client1"]
    assert (node.address, node.port, node.user) == ("Node01.example.com", 22, "ops")
    assert (odd.address, odd.port, odd.user) == ("192.0.2.9", 2222, "root")
    assert odd.key is not None
    assert odd.key.file == "~/.ssh/gpu"
    assert client.jump == "node9"
    assert client.roles == ["client"]


@pytest.mark.parametrize("form", SAME)
def test_what_is_left_out_is_said(form: str) -> None:
    remarks = made(SAME[form], form, *ROLES).remarks
    assert "no role, left out: db1" in remarks
    if form != "csv":
        assert "not taken over: rack" in remarks


def test_inner_groups_win_over_outer_ones_and_a_hosts_own_over_all() -> None:
    site = read(
        made(
            "[serving:children]\nb\na\n[a]\nx\ny ansible_user=own\n[b]\nx\n"
            "[serving:vars]\nansible_user=outer\nansible_port=1\n"
            "[a:vars]\nansible_user=from_a\n[b:vars]\nansible_user=from_b\n",
            "ansible-ini",
        )
    )
    assert {name: host.user for name, host in site.hosts.items()} == {"y": "own", "x": "from_b"}
    assert {host.port for host in site.hosts.values()} == {1}


@pytest.mark.parametrize(
    ("form", "text", "line"),
    [
        ("ansible-yaml", "serving:\n  hosts:\n    a:\n      ansible_password: hunter2\n", 4),
        ("ansible-yaml", "serving:\n  vars: {ansible_become_pass: hunter2}\n", 2),
        ("ansible-yaml", "serving:\n  vars:\n    x: !vault |\n      hunter2\n", 3),
        ("ansible-ini", "[serving]\na ansible_ssh_pass=hunter2\n", 2),
        ("ansible-ini", "[serving]\na\n[all:vars]\nansible_sudo_pass = hunter2\n", 4),
        ("ansible-ini", "[serving]\na ansible_ssh_private_key=hunter2\n", 2),
        ("csv", "name,password\na,hunter2\n", 1),
    ],
)
def test_secrets_are_refused_with_their_line_and_never_repeated(
    form: str, text: str, line: int
) -> None:
    error = refused(text, form)
    assert error.message.startswith(f"site:{line}: ")
    assert "secret" in error.message
    assert error.hint
    assert "hunter2" not in str(error)


@pytest.mark.parametrize(
    ("form", "text", "told"),
    [
        ("ansible-yaml", "serving:\n  host: {a: }\n", "site:2: .*did you mean 'hosts'"),
        ("ansible-yaml", "serving: [a]\n", "site:1: serving: is not a mapping"),
        ("ansible-yaml", "serving:\n  hosts:\n    a: 7\n", "site:3: .*is not a mapping"),
        ("ansible-yaml", "serving: {hosts: {'n[2:1]': }}\n", "site:1: .*counts down"),
        (
            "ansible-yaml",
            "serving:\n  hosts:\n    a:\n      ansible_host: '{{ ip }}'\n",
            "site:4: .*template",
        ),
        (
            "ansible-yaml",
            "serving: {hosts: {a: {ansible_connection: winrm}}}\n",
            "site:1: .*neither ssh nor local",
        ),
        ("ansible-ini", "[serving\na\n", "site:1: .*without its other half"),
        ("ansible-ini", "[serving:var]\n", "site:1: .*a section is of"),
        ("ansible-ini", "[serving]\na b\n", "site:2: 'b' is not key=value"),
        ("ansible-ini", "[serving]\na x='1\n", "site:2: its quotes"),
        ("ansible-ini", "[a:children]\nserving\n", "site:2: 'serving' is no group here"),
        ("ansible-ini", "[a:children]\nb\n[b:children]\na\n", "group 'a' lies in itself"),
        ("ansible-ini", "[serving]\na ansible_port=x\n", "site:2: a: 'x' is no port"),
        ("ansible-ini", "[serving]\na ansible_port=1\n[b]\na ansible_port=2\n", "site:4: .*line 2"),
        ("ansible-ini", "[serving]\nA\na\n", "site:3: host 'a' stands in line 2 too"),
        ("ansible-ini", "[serving]\nä\n", "site:2: 'ä' can't be a host's name"),
        ("ansible-ini", "[serving]\na ansible_port=70000\n", "port"),
        ("ansible-ini", "[web]\na\n", "no host has a role"),
        ("csv", "name;role\n", "site:1: 'role' is no column here; did you mean 'roles'"),
        ("csv", "address\n1\n", "site:1: no column 'name'"),
        ("csv", "name,name\n", "site:1: column 'name' stands twice"),
        ("csv", "name,roles\na\n", "site:2: has 1 cells; the header has 2"),
        ("csv", "name,roles\n\n,serving\n", "site:3: has no name"),
        ("csv", 'name,roles\na,"serv\n', "site:2: is no sound CSV"),
        (
            "csv",
            "name,address,roles\nn[1-3],10.0.0.[1-2],serving\n",
            "site:2: address: 2 values for the 3 hosts",
        ),
        ("csv", "name,sudo,roles\na,always,serving\n", "sudo"),
        ("csv", "", "no column 'name'"),
    ],
)
def test_mistakes_are_named_with_file_and_line(form: str, text: str, told: str) -> None:
    assert re.search(told, str(refused(text, form)), re.DOTALL)


def test_ranges_in_cells_of_a_table_go_along_with_those_of_the_name() -> None:
    text = "name;address;roles\nn[08-10];10.0.0.[8-10];serving client\n"
    site = read(made(text, "csv"))
    assert {name: host.address for name, host in site.hosts.items()} == {
        "n08": "10.0.0.8",
        "n09": "10.0.0.9",
        "n10": "10.0.0.10",
    }
    assert all(host.roles == ["serving", "client"] for host in site.hosts.values())


def test_a_port_may_stand_behind_a_hosts_name() -> None:
    site = read(made("[serving]\nn[1:2].example.com:2222\n", "ansible-ini"))
    assert {(h.address, h.port) for h in site.hosts.values()} == {
        ("n1.example.com", 2222),
        ("n2.example.com", 2222),
    }


def test_a_local_host_has_no_address() -> None:
    site = read(made("[serving]\nhere ansible_connection=local\n", "ansible-ini"))
    assert site.hosts["here"].transport == "local"


@pytest.mark.parametrize("role", ["gpu", "=serving", "gpu=boss", "nodes=serving"])
def test_a_mapping_that_says_nothing_is_a_usage_error(role: str) -> None:
    with pytest.raises(UsageError):
        made(INI, "ansible-ini", role)


@settings(deadline=None, max_examples=60)
@given(
    st.sampled_from(sorted(FORMS)),
    st.text(alphabet="[]:=,;'\"\n \tabn01{}-#äservingho", max_size=60),
)
def test_any_text_is_an_inventory_or_is_refused_by_our_errors(form: str, text: str) -> None:
    try:
        found = made(text, form)
    except (SpecError, UsageError):
        return
    assert read(found).hosts
