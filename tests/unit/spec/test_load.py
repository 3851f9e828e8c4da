"""What people write is refused at the border, with file, line and the nearest right word."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kvgate.errors import SpecError
from kvgate.model.quantity import Quantity
from kvgate.spec import load, yamlfile

HOST = "{roles: [serving], address: 192.0.2.1}"

GATE = """\
gate: G1
title: Arrival
question: Did it arrive?
entry: []
criteria:
  - id: G1.1
    text: The kernel is as agreed
    measure: kernel.release
    phase: inspection
    hosts: serving
    basis: baseline file
    limits: {rehearsal: {matches_inventory: true}}
"""

PLAN = """\
plan: small
title: Small
profile: rehearsal
seed: 1
gates: [{gate: G1, suite: suites/g1, give_up_after: 1 min}]
workloads: {}
"""


def inventory(text: str) -> load.Loaded[load.Inventory]:
    return load.inventory_of(yamlfile.parse(text.encode(), "inv.yaml"))


def refusal(text: str) -> str:
    with pytest.raises(SpecError) as caught:
        inventory(text)
    return str(caught.value)


def test_a_sound_inventory_names_its_hosts() -> None:
    loaded = inventory(f"inventory: a\nhosts:\n  n1: {HOST}\n").value
    assert loaded.hosts["n1"].name == "n1"
    assert loaded.with_role("serving") == (loaded.hosts["n1"],)
    assert loaded.with_role("client") == ()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(
            "inventory: a\nhosts:\n  n1:\n    roles: [serving]\n    adress: x\n",
            "inv.yaml:5: hosts.n1.adress: 'adress' is not a key here; did you mean 'address'?",
            id="misspelt-key",
        ),
        pytest.param(
            "inventory: a\nhosts:\n  n1: {roles: [serving], address: x,\n   declared: {disks: "
            "[{serial: s,\n    sise: 1 GB}]}}\n",
            "inv.yaml:5: hosts.n1.declared.disks.0.sise: 'sise' is not a key here; did you mean "
            "'size'?",
            id="misspelt-key-deep-down",
        ),
        pytest.param(
            f"inventory: a\nhosts:\n  n1: {HOST}\n  n1: {HOST}\n",
            "inv.yaml:4: 'n1' stands twice, first in line 3",
            id="duplicate-key",
        ),
        pytest.param(
            f"inventory: a\nhosts:\n  n1: {HOST}\n  n2: {HOST}\n",
            "inv.yaml:4: hosts.n2.address: address '192.0.2.1:22' is also that of n1, line 3",
            id="same-address-twice",
        ),
        pytest.param(
            "inventory: a\nhosts:\n  n1: {roles: [serving], address: a, jump: n2}\n"
            "  n2: {roles: [client], address: b, jump: n1}\n",
            "inv.yaml:4: hosts.n2.jump: jump hosts go in a circle: n1 > n2 > n1",
            id="circle-of-jump-hosts",
        ),
        pytest.param(
            "inventory: a\nhosts:\n  n1: {roles: [serving], address: a, jump: gate-way}\n"
            "  gateway: {roles: [client], address: b}\n",
            "inv.yaml:3: hosts.n1.jump: 'gate-way' is not a host here; did you mean 'gateway'?",
            id="unknown-jump-host",
        ),
        pytest.param(
            "inventory: a\nhosts:\n  n1: {roles: [serving]}\n",
            "inv.yaml:3: hosts.n1: address is missing (transport: ssh)",
            id="no-address",
        ),
        pytest.param(
            "inventory: a\nhosts:\n  n1: {roles: [servin], address: a}\n",
            "inv.yaml:3: hosts.n1.roles: 'servin' is not a role; one of: serving, client",
            id="unknown-role",
        ),
        pytest.param(
            "inventory: a\nhosts:\n  n1: {roles: [array], address: a}\n",
            "hosts.n1: adapter is missing: name how this device is asked",
            id="device-without-adapter",
        ),
        pytest.param("inventory: a\nhosts: {}\n", "hosts is empty", id="no-hosts"),
        pytest.param(
            "inventory: a\nhosts:\n  n1: {roles: [serving], address: a, key: {env: A, file: b}}\n",
            "exactly one of 'env' or 'file'",
            id="two-secrets",
        ),
        pytest.param(
            "inventory: a\nhosts:\n  n1: {roles: [serving], address: a, password: geheim}\n",
            "hosts.n1.password: '[masked]'",
            id="a-secret-in-the-file",
        ),
        pytest.param(
            "inventory: a\nhosts:\n  n1: {roles: [serving], address: a, declared: {disks: "
            "[{name: sda, destructive: true}]}}\n",
            "a device is written to only by serial number or WWN",
            id="destructive-by-name",
        ),
        pytest.param(
            "inventory: a\nhosts:\n  n1: {roles: [serving], address: a,\n"
            "   declared: {memory: 24GiB}}\n",
            "'24GiB' is not a quantity",
            id="quantity-without-space",
        ),
        pytest.param(
            "inventory: a\nhosts:\n  n1: {roles: [serving], address: a,\n"
            "   declared: {memory: 24 s}}\n",
            "'24 s' is no quantity of bytes",
            id="quantity-of-another-dimension",
        ),
        pytest.param("inventory: [\n", "inv.yaml:2:", id="no-yaml"),
        pytest.param("- a\n", "is not a mapping", id="a-list"),
        pytest.param(f"inventory: 0x{'f' * 5000}\n", "inv.yaml:1: a whole number", id="huge"),
        pytest.param(f"a:\n  {'9' * 6000}\n", "inv.yaml:2: '9999", id="too-many-digits"),
        pytest.param("a: !!int 'abc'\n", "inv.yaml:1: 'abc' is no int", id="not-its-type"),
        pytest.param("a: !!float ''\n", "inv.yaml:1: '' is no float", id="empty-of-a-type"),
        pytest.param("a: &x [*x]\n", "an alias that contains itself", id="alias-without-end"),
    ],
)
def test_refusals_name_file_line_and_nearest_key(text: str, expected: str) -> None:
    assert expected in refusal(text)


def test_every_mistake_is_named_at_once() -> None:
    text = "inventory: a\nhosts:\n  n1: {roles: [serving], adress: a, prot: 22}\n"
    assert "'adress'" in refusal(text)
    assert "'prot'" in refusal(text)


def test_a_billion_laughs_are_refused() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 9)]
    assert "too many values" in refusal("\n".join(lines))


@given(st.binary(max_size=200))
def test_any_bytes_give_a_value_or_our_error(content: bytes) -> None:
    try:
        load.inventory_of(yamlfile.parse(content, "inv.yaml"))
    except SpecError as err:
        assert err.message.startswith("inv.yaml")  # noqa: PT017  or a value: both are right


@given(st.integers(0, len(GATE)), st.text(max_size=3))
@settings(max_examples=200)
def test_a_damaged_gate_file_is_loaded_or_refused_by_our_error(at: int, noise: str) -> None:
    text = GATE[:at] + noise + GATE[at:]
    try:
        load.gate_of(yamlfile.parse(text.encode("utf-8", "replace"), "g1.yaml"))
    except SpecError as err:
        assert "g1.yaml" in err.message  # noqa: PT017  ditto


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("{matches_inventory: true}", "{at_most: 1.5ms}", "'1.5ms' is not a quantity"),
        ("{matches_inventory: true}", "{at_most: 1 s, at_least: 1 s}", "exactly one of"),
        ("{matches_inventory: true}", "{}", "here: none"),
        ("{matches_inventory: true}", "{one_of: []}", "nothing could ever pass"),
        ("{matches_inventory: true}", "{within: [2 s, 1 s]}", "2 s is above 1 s"),
        ("{rehearsal: {matches_inventory: true}}", "{}", "limits is empty"),
        ("id: G1.1", "id: G2.1", "is not one of G1"),
        ("    basis: baseline file\n", "", "'basis' is missing"),
        ("hosts: serving", "hosts: servers", "serving"),
    ],
)
def test_gate_refusals(old: str, new: str, expected: str) -> None:
    assert old in GATE
    with pytest.raises(SpecError) as caught:
        load.gate_of(yamlfile.parse(GATE.replace(old, new).encode(), "g1.yaml"))
    assert expected in str(caught.value)
    assert str(caught.value).startswith("g1.yaml:")


def test_a_claim_needs_deployment_and_statistic() -> None:
    text = GATE + "    claim: {value: 8.6 x, by: supplier}\n"
    with pytest.raises(SpecError, match="names its deployment and statistic"):
        load.gate_of(yamlfile.parse(text.encode(), "g1.yaml"))


def test_a_site_plan_narrows_its_base_and_adds_to_its_scope(tmp_path: Path) -> None:
    base = PLAN + "scope_out: [{criteria: [G1.1], reason: none here}]\n"
    (tmp_path / "base.yaml").write_text(base)
    (tmp_path / "site.yaml").write_text(
        "base: base.yaml\ntitle: Site\nscope_out: [{criteria: [G1.2], reason: no DMI}]\n"
    )
    plan = load.load_plan(tmp_path / "site.yaml", root=tmp_path).value
    assert (plan.title, plan.profile) == ("Site", "rehearsal")
    assert plan.scoped_out() == {"G1.1": "none here", "G1.2": "no DMI"}


def test_a_base_on_a_base_is_refused_with_what_to_name_instead(tmp_path: Path) -> None:
    (tmp_path / "base.yaml").write_text(PLAN)
    (tmp_path / "local.yaml").write_text("base: base.yaml\ntitle: Here\n")
    (tmp_path / "site.yaml").write_text("title: Site\nbase: local.yaml\n")
    with pytest.raises(
        SpecError, match=r"site.yaml:2: base: 'local.yaml' has a base itself"
    ) as got:
        load.load_plan(tmp_path / "site.yaml", root=tmp_path)
    assert "name 'base.yaml' as base" in got.value.hint


@pytest.mark.parametrize("base", ["missing.yaml", "../outside.yaml", "/etc/passwd"])
def test_a_base_outside_the_workspace_is_refused(tmp_path: Path, base: str) -> None:
    root = tmp_path / "w"
    root.mkdir()
    (tmp_path / "outside.yaml").write_text(PLAN)
    (root / "site.yaml").write_text(f"base: {base}\n")
    with pytest.raises(SpecError, match="is no plan of this workspace"):
        load.load_plan(root / "site.yaml", root=root)


def test_a_misspelt_key_in_a_site_plan_is_refused_with_its_own_line(tmp_path: Path) -> None:
    (tmp_path / "base.yaml").write_text(PLAN)
    (tmp_path / "site.yaml").write_text("base: base.yaml\nscope_uot: []\n")
    with pytest.raises(SpecError, match=r"site.yaml:2: scope_uot: .*did you mean 'scope_out'"):
        load.load_plan(tmp_path / "site.yaml", root=tmp_path)


def test_dates_stay_as_they_are_written() -> None:
    assert yamlfile.parse(b"a: 2026-05-12\n", "x").value == {"a": "2026-05-12"}


def test_whole_numbers_are_counts() -> None:
    text = GATE.replace("{matches_inventory: true}", "{at_most: 0}")
    gate = load.gate_of(yamlfile.parse(text.encode(), "g1.yaml")).value
    assert gate.criteria[0].limits["rehearsal"].at_most == Quantity.of(0, "")
