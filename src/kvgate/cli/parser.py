"""The verbs and their options; each verb's help ends with an example."""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, NoReturn, TypeAlias

Verb = Callable[[argparse.Namespace, list[str]], int]

if TYPE_CHECKING:
    Verbs: TypeAlias = "argparse._SubParsersAction[_Parser]"

FORMATS = ("html", "md", "json", "junit")
IMPORTS = ("ansible-yaml", "ansible-ini", "csv")


class _Parser(argparse.ArgumentParser):
    """argparse, but usage errors exit 64: argparse's 2 would look like a verdict."""

    def error(self, message: str) -> NoReturn:
        """Say what is wrong with the command line, and how to see what is right."""
        self.exit(64, f"{self.prog}: {message}\n  hint: see `{self.prog} --help`\n")


def _verb(module: str, name: str) -> Verb:
    """Return a verb that imports its module when it is called."""

    def call(arguments: argparse.Namespace, command: list[str]) -> int:
        code: int = getattr(importlib.import_module(f"kvgate.cli.{module}"), name)(
            arguments, command
        )
        return code

    return call


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command line."""
    parser = _Parser(
        prog="kvgate",
        description="Decide, gate by gate, whether a KV-cache storage tier may be accepted.",
        epilog="Exit codes: 0 pass, 1 fail, 2 inconclusive or not run, 3 harness broke, 64 usage.",
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="print the version and exit")
    parser.add_argument(
        "--workspace",
        metavar="DIR",
        default=".",
        help="the folder with gates/, suites/, inventory/ (default: found upwards)",
    )
    from kvgate.cli.parser_acts import add_acts
    from kvgate.cli.parser_assess import add_assess, add_capture
    from kvgate.cli.parser_lab import add_lab
    from kvgate.cli.parser_load import add_load
    from kvgate.cli.parser_predict import add_claims, add_predict
    from kvgate.cli.parser_replay import add_replay
    from kvgate.cli.parser_scan import add_scan
    from kvgate.cli.parser_serve import add_serve
    from kvgate.cli.parser_sign import add_sign
    from kvgate.cli.parser_telemetry import add_telemetry

    verbs = parser.add_subparsers(
        title="verbs", metavar="VERB", required=True, parser_class=_Parser
    )
    for add in (
        *(_init, _import, _bom, _check, _plan, _run, _rehearse, _draft, _hosts, _probe),
        *(_judge, _report, _noise, _seal, _record, _parse, _models),
    ):
        add(verbs)
    for more in (
        *(add_acts, add_predict, add_replay, add_claims, add_assess),
        *(add_capture, add_scan, add_telemetry, add_lab, add_load, add_serve, add_sign),
    ):
        more(verbs, _add, _verb)
    return parser


class _Version(argparse.Action):
    """Prints the version without importing anything at start-up."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        """Print and exit."""
        import importlib.metadata

        print(f"kvgate {importlib.metadata.version('kvgate')}")
        parser.exit(0)


def _add(verbs: Verbs, name: str, text: str, example: str) -> argparse.ArgumentParser:
    added: argparse.ArgumentParser = verbs.add_parser(
        name,
        help=text,
        description=text[:1].upper() + text[1:] + ".",
        epilog=f"example: {example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    return added


def _inputs(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--plan",
        metavar="FILE",
        help="what to do (default: the drafted rehearsal, else gates/plans/rehearsal.yaml)",
    )
    parser.add_argument(
        "--inventory", metavar="FILE", help="the hosts (default: the one drafted for this machine)"
    )


def _destroys(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--yes-destroy",
        metavar="SERIAL",
        action="append",
        default=[],
        help="let this device, declared destructive, be written over; may be given several times",
    )


def _init(verbs: Verbs) -> None:
    parser = _add(
        verbs,
        "init",
        "lay out a workspace: gates, suites, templates, inventories to copy; overwrites nothing",
        "kvgate init site-a && cd site-a && kvgate draft && kvgate check",
    )
    parser.add_argument("dir", metavar="DIR", help="the folder; made where it is not there")
    parser.set_defaults(verb=_verb("prepare", "init_verb"))


def _import(verbs: Verbs) -> None:
    parser = _add(
        verbs,
        "import",
        "make an inventory from an Ansible inventory or a table of hosts",
        "kvgate import hosts.ini --format ansible-ini --role gpu_nodes=serving "
        "--role loadgen=client --out inventory/site-a.yaml",
    )
    parser.add_argument("file", metavar="FILE", help="what to read; '-' is standard input")
    parser.add_argument(
        "--format", required=True, choices=IMPORTS, metavar="F", help=f"of {', '.join(IMPORTS)}"
    )
    parser.add_argument(
        "--role",
        metavar="GROUP=ROLE",
        action="append",
        default=[],
        help="hosts of this group have this role (serving or client); may be given several times",
    )
    parser.add_argument(
        "--name", metavar="NAME", help="the inventory's name (default: that of --out, else FILE)"
    )
    parser.add_argument(
        "--out", metavar="FILE", help="where to write it, never over a file (default: print it)"
    )
    parser.set_defaults(verb=_verb("prepare", "import_verb"))


def _bom(verbs: Verbs) -> None:
    from kvgate.cli.parser_bom import add_bom

    parser = _add(
        verbs,
        "bom",
        "bills of materials: import, draft, compare and check what was ordered",
        "kvgate bom draft --out inventory/bom-site-a.yaml",
    )
    add_bom(parser, _add, _verb)


def _check(verbs: Verbs) -> None:
    parser = _add(
        verbs,
        "check",
        "validate plan, inventory, gates and suites; touch no host (1: refused)",
        "kvgate check --plan gates/plans/rehearsal.yaml --inventory inventory/site-a.yaml",
    )
    _inputs(parser)
    _destroys(parser)
    parser.set_defaults(verb=_verb("prepare", "check_verb"))


def _plan(verbs: Verbs) -> None:
    parser = _add(
        verbs,
        "plan",
        "print what a run would do: gates, tests, hosts, criteria, writes, time",
        "kvgate plan --plan gates/plans/site-a.yaml --inventory inventory/site-a.yaml",
    )
    _inputs(parser)
    _destroys(parser)
    parser.set_defaults(verb=_verb("prepare", "plan_verb"))


def _run(verbs: Verbs) -> None:
    parser = _add(
        verbs,
        "run",
        "run a plan's gates in order, judge, seal and report",
        "kvgate run --plan gates/plans/site-a.yaml --inventory inventory/site-a.yaml --gate G2",
    )
    _inputs(parser)
    _destroys(parser)
    parser.add_argument(
        "--gate", metavar="G", help="only this gate; opens if those before it were accepted"
    )
    parser.add_argument(
        "--force-gate",
        metavar="REASON",
        default="",
        help="open --gate for diagnosis; bars the run from acceptance",
    )
    parser.add_argument(
        "--resume", metavar="RUN", help="go on with this run; repeats nothing finished"
    )
    parser.add_argument(
        "--controller-key",
        metavar="FILE",
        default="",
        help="countersigns the journal unattended (default: KVGATE_CONTROLLER_KEY)",
    )
    parser.add_argument(
        "--timing", action="store_true", help="let recorded hosts take as long as they took"
    )
    parser.set_defaults(verb=_verb("act", "run_verb"))


def _rehearse(verbs: Verbs) -> None:
    parser = _add(
        verbs,
        "rehearse",
        "rehearse G1 to G4 on this machine over real SSH (what `make run` does)",
        "kvgate rehearse",
    )
    parser.add_argument(
        "--plan",
        metavar="FILE",
        default="gates/plans/rehearsal.yaml",
        help="the plan to rehearse (default: %(default)s)",
    )
    parser.add_argument("--resume", metavar="RUN", help="go on with this rehearsal")
    parser.set_defaults(verb=_verb("act", "rehearse_verb"))


def _draft(verbs: Verbs) -> None:
    parser = _add(
        verbs,
        "draft",
        "draft inventory and site plan of this machine, to be corrected by hand",
        "kvgate draft && kvgate run --gate G1",
    )
    parser.add_argument(
        "--plan",
        metavar="FILE",
        default="gates/plans/rehearsal.yaml",
        help="the plan to scope for this machine (default: %(default)s)",
    )
    parser.set_defaults(verb=_verb("prepare", "draft_verb"))


def _hosts(verbs: Verbs) -> None:
    parser = _add(
        verbs,
        "hosts",
        "ask every host, in parallel, if it answers and what tools it lacks (2: some don't answer)",
        "kvgate hosts --inventory inventory/site-a.yaml",
    )
    _inputs(parser)
    parser.set_defaults(verb=_verb("prepare", "hosts_verb"))


def _probe(verbs: Verbs) -> None:
    parser = _add(
        verbs,
        "probe",
        "ask one host one question, and print what was read from which command (2: some untold)",
        "kvgate probe gpu-node-1 kernel log --raw",
    )
    parser.add_argument("host", metavar="HOST", nargs="?", help="its name in the inventory")
    parser.add_argument("probe", metavar="PROBE", nargs="*", help="the question; see --list")
    parser.add_argument(
        "--inventory", metavar="FILE", help="default: inventory/local/this-machine.yaml"
    )
    parser.add_argument("--raw", action="store_true", help="print what the commands printed, too")
    parser.add_argument("--list", action="store_true", help="name the probes and what they measure")
    parser.set_defaults(verb=_verb("probe", "probe_verb"))


def _of_run(
    verbs: Verbs, name: str, text: str, example: str, module: str
) -> argparse.ArgumentParser:
    parser = _add(verbs, name, text, example)
    parser.add_argument("run", metavar="RUN", help="the run's folder, or its name in runs/")
    parser.set_defaults(verb=_verb(module, f"{name}_verb"))
    return parser


def _judge(verbs: Verbs) -> None:
    parser = _of_run(
        verbs,
        "judge",
        "judge a stored run again, without hardware",
        "kvgate judge runs/20260512T081500Z-rehearsal-1a2b --gates gates",
        "review",
    )
    parser.add_argument(
        "--gates", metavar="DIR", help="judge by these gate files instead of the run's own"
    )


def _report(verbs: Verbs) -> None:
    parser = _of_run(
        verbs, "report", "write a run's report", "kvgate report RUN --format html,junit", "review"
    )
    parser.add_argument(
        "--format",
        metavar="F,…",
        default=",".join(FORMATS),
        help="of html, md, json, junit (default: all)",
    )
    parser.add_argument(
        "--gates", metavar="DIR", help="report on the judgement by these gate files"
    )


def _noise(verbs: Verbs) -> None:
    _of_run(
        verbs,
        "noise",
        "print how noisy a run's bench was (its A/A rounds), and the margin to propose (2: none)",
        "kvgate noise runs/20260512T081500Z-rehearsal-1a2b",
        "review",
    )


def _seal(verbs: Verbs) -> None:
    _of_run(
        verbs,
        "seal",
        "seal a run, or what was added to it since its last seal",
        "kvgate seal RUN",
        "review",
    )


def _record(verbs: Verbs) -> None:
    parser = _of_run(
        verbs,
        "record",
        "record what a run's hosts answered, as an inventory that replays anywhere",
        "kvgate record RUN --out inventory/recorded/site-a",
        "record",
    )
    parser.add_argument(
        "--out", metavar="DIR", required=True, help="a new folder, best below inventory/recorded/"
    )


def _parse(verbs: Verbs) -> None:
    parser = _add(
        verbs,
        "parse",
        "print as JSON what kvgate reads from a tool's saved output (3: it is refused)",
        "nvme list -o json | kvgate parse nvme_list",
    )
    parser.add_argument("tool", metavar="TOOL", nargs="?", help="whose output it is; see --list")
    parser.add_argument(
        "file", metavar="FILE", nargs="?", default="-", help="the saved output (default: -, stdin)"
    )
    parser.add_argument(
        "--exit-code", metavar="N", type=int, help="how the command ended, where that is known"
    )
    parser.add_argument("--list", action="store_true", help="name the tools and exit")
    parser.set_defaults(verb=_verb("parse", "parse_verb"))


def _models(verbs: Verbs) -> None:
    parser = _add(
        verbs,
        "models",
        "tell how many bytes of KV a token is: known models, or one from its config.json",
        "kvgate models qwen3-coder-480b-a35b --tokens 30208\n"
        "         kvgate models my-model --config config.json --out inventory/models/my-model.yaml",
    )
    parser.add_argument("model", metavar="MODEL", nargs="?", help="one in detail (default: list)")
    parser.add_argument("--config", metavar="FILE", help="read it from a Hugging Face config.json")
    parser.add_argument("--source", metavar="TEXT", help="where the config.json came from")
    parser.add_argument("--tokens", metavar="N", type=int, help="also tell the KV of N tokens")
    parser.add_argument(
        "--chunk", metavar="N", type=int, default=256, help="tokens a chunk (default: %(default)s)"
    )
    parser.add_argument("--out", metavar="FILE", help="keep it there, never over a file")
    parser.set_defaults(verb=_verb("models", "models_verb"))
