"""A site with parties and keys, runs of it without a host, and both verifiers on them."""

from __future__ import annotations

import dataclasses
import datetime
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from kvgate.cli.verify import verdicts_step
from kvgate.engine.countersign import KEY_VARIABLE, countersign
from kvgate.engine.finish import finish_run
from kvgate.engine.sign import Signer, sign_protocol, sign_results
from kvgate.engine.start import create_run
from kvgate.engine.workspace import Setup, Workspace, load_setup
from kvgate.errors import KvgateError
from kvgate.model.quantity import Quantity
from kvgate.model.record import Evidence, Measurement
from kvgate.store.run import RunWriter
from kvgate.store.single import single_file
from kvgate.store.verify_archive import opened
from kvgate.store.verify_steps import add_step

NOON = datetime.datetime(2026, 5, 12, 12, tzinfo=datetime.UTC)

GATE = """\
gate: G1
title: Arrival
question: Did it arrive?
entry: []
criteria:
  - id: G1.1
    text: It answers in time
    measure: a.time
    phase: inspection
    hosts: serving
    basis: agreed on 2026-05-01
    limits: {acceptance: {at_most: 5 ms}, rehearsal: {at_most: 5 s}}
"""
INVENTORY = "inventory: small\nhosts:\n  node1: {roles: [serving], transport: local}\n"
PLAN = """\
plan: small
title: A small site
profile: acceptance
seed: 1
gates: [{gate: G1, suite: suites/g1, give_up_after: 1 min}]
workloads: {}
control:
  project: KV tier
  contract: C-17
  document: {number: KV-017, revision: B, time_zone: Asia/Shanghai}
  parties:
"""
PEOPLE = {"buyer": "Li Wei", "supplier": "Ada Kern", "witness": "Jo Roe"}


@dataclasses.dataclass
class Site:
    """A workspace whose plan names a buyer, a supplier, a witness and a controller's key."""

    root: Path
    keys: Path

    @property
    def workspace(self) -> Workspace:
        return Workspace(self.root)

    def setup(self) -> Setup:
        plan, inventory = self.root / "gates/plans/small.yaml", self.root / "inventory/small.yaml"
        return load_setup(self.workspace, plan, inventory)

    def signer(self, role: str) -> Signer:
        return Signer(role, self.keys / role)

    def approve(self, role: str = "buyer") -> Path:
        return sign_protocol(self.workspace, self.setup(), self.signer(role)).path

    def begin(self, value: str = "3 ms", **more: object) -> Path:
        """Make a run of one gate with one measurement, not ended yet."""
        run = create_run(self.workspace, self.setup(), gates=["G1"], command=["kvgate"], **more)  # type: ignore[arg-type]
        with RunWriter.open(run) as writer:
            countersign(writer, "the opening of G1")
            writer.event("gate_begin", gate="G1")
            ref = writer.evidence(
                Evidence(
                    host="node1",
                    command=("time",),
                    exit_status=0,
                    stdout=value.encode(),
                    stderr=b"",
                    started_at=NOON,
                    ended_at=NOON,
                )
            )
            writer.begin_block("a")
            writer.measure(
                Measurement(
                    name="a.time",
                    value=Quantity.parse(value),
                    host="node1",
                    phase="inspection",
                    taken_at=NOON,
                    evidence=(ref,),
                    block="a",
                )
            )
            writer.end_block("a")
            writer.event("attempt", criterion="G1.1", outcome="ran", reasons=[], test="test_a")
            writer.event("gate_end", gate="G1", outcome="done")
        return run

    def run(self, value: str = "3 ms", **more: object) -> Path:
        """Make a run, ended and sealed."""
        run = self.begin(value, **more)
        finish_run(run, render=None)
        return run

    def signed(self, *roles: str) -> Path:
        run = self.run()
        for role in roles:
            sign_results(run, self.signer(role))
        return run


def make_key(folder: Path, name: str) -> str:
    """Make a key pair and return its public line."""
    command = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", name, "-f", str(folder / name)]
    subprocess.run(command, check=True, timeout=60)
    return (folder / f"{name}.pub").read_text().strip()


@pytest.fixture(scope="session")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("keys")
    for name in (*PEOPLE, "controller", "stranger"):
        make_key(folder, name)
    return folder


def _plan(keys: Path) -> str:
    text = PLAN
    for role, name in PEOPLE.items():
        public = " ".join((keys / f"{role}.pub").read_text().split()[:2])
        text += f"    - role: {role}\n      name: {role.title()} AG\n      signatories:\n"
        good = "valid_after: 2026-01-01, valid_before: '2099-06-01T12:00:00Z'"
        text += (
            f"        - {{name: {name}, principal: {role}@example.com, {good}, key: {public}}}\n"
        )
    public = " ".join((keys / "controller.pub").read_text().split()[:2])
    return f"{text}  controller_key: {{principal: controller, key: {public}}}\n"


def make_site(root: Path, keys: Path) -> Site:
    for name, text in {
        "gates/g1.yaml": GATE,
        "gates/plans/small.yaml": _plan(keys),
        "inventory/small.yaml": INVENTORY,
        "suites/g1/test_a.py": '"""A test."""\n',
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return Site(root, keys)


@pytest.fixture
def site(tmp_path: Path, keys: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    monkeypatch.setenv(KEY_VARIABLE, str(keys / "controller"))
    return make_site(tmp_path / "site", keys)


@dataclasses.dataclass
class Base:
    """Two runs of one site, approved by the buyer; `run` is signed by buyer and supplier."""

    site: Site
    run: Path
    other: Path


@pytest.fixture(scope="session")
def base(tmp_path_factory: pytest.TempPathFactory, keys: Path) -> Base:
    made = make_site(tmp_path_factory.mktemp("base") / "site", keys)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(KEY_VARIABLE, str(keys / "controller"))
        made.approve("buyer")
        return Base(made, made.signed("supplier", "buyer"), made.run("4 ms"))


@pytest.fixture
def run(base: Base, tmp_path: Path) -> Path:
    """Return a copy of the signed run, to be tampered with."""
    return Path(shutil.copytree(base.run, tmp_path / base.run.name))


Verify = Callable[..., tuple[int, str]]


def by_kvgate(
    path: Path, signers: Path | None = None, require: Sequence[str] = ()
) -> tuple[int, str]:
    """Verify as `kvgate verify` does, in this process."""
    try:
        with opened(path, signers, require) as (run, outcome):
            whole = add_step(outcome, verdicts_step(run))
    except KvgateError as err:
        return err.exit_code, err.message
    return whole.exit_code, "\n".join(whole.lines())


@pytest.fixture(scope="session")
def oldest_python() -> str:
    """Return the oldest Python from 3.8 on that is here; this one where no other is."""
    home = Path(os.environ.get("PYENV_ROOT", "~/.pyenv")).expanduser() / "versions"
    found = sorted(home.iterdir()) if home.is_dir() else []
    for minor in range(8, 11):
        for each in found:
            if each.name.startswith(f"3.{minor}."):
                return str(each / "bin/python")
        if named := shutil.which(f"python3.{minor}"):
            return named
    return sys.executable


@pytest.fixture(scope="session")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("script") / "verify.py"
    path.write_bytes(single_file("0"))
    return path


_SERVING = """
import contextlib, io, json, sys
def offline(event, _):
    if event.startswith("socket."):
        raise SystemExit(f"a verifier asks nobody anything: {event}")
sys.addaudithook(offline)
exec(compile(open(sys.argv[1]).read(), sys.argv[1], "exec"), {"__name__": "verifier"})
verify = sys.modules["kvgate.store.verify_alone"].main
for line in sys.stdin:
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        code = verify(json.loads(line), "/")
    print(json.dumps([code, said.getvalue()]), flush=True)
"""


@pytest.fixture(scope="session")
def by_script(script: Path, oldest_python: str) -> Iterator[Verify]:
    """Return what verifies by the single file, kept loaded in a process of the oldest Python."""
    command = [oldest_python, "-I", "-c", _SERVING, str(script)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None

        def ask(
            path: Path,
            signers: Path | None = None,
            require: Sequence[str] = (),
            authority: Path | None = None,
        ) -> tuple[int, str]:
            words = [str(path), *(["--allowed-signers", str(signers)] if signers else [])]
            words += ["--tsa-ca", str(authority)] if authority else []
            for role in require:
                words += ["--require", role]
            child.stdin.write(json.dumps(words) + "\n")  # type: ignore[union-attr]
            child.stdin.flush()  # type: ignore[union-attr]
            code, said = json.loads(child.stdout.readline())  # type: ignore[union-attr]
            return code, said

        yield ask
        child.stdin.close()


# The single file is made of the modules that `kvgate verify` runs: the quick suite runs it alone.
@pytest.fixture(params=["the single file", pytest.param("kvgate verify", marks=pytest.mark.whole)])
def verify(request: pytest.FixtureRequest, by_script: Verify) -> Verify:
    """Return what verifies a run or an archive: (exit code, what was printed)."""
    return by_kvgate if request.param == "kvgate verify" else by_script
