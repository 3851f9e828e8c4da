"""The verb `hosts`: whether every host answers, what it is, and which tools of ours it has.

One command a host, all hosts at once; a dead one delays only itself.
"""

from __future__ import annotations

import dataclasses
import re
import time
from collections.abc import Callable, Iterator, Mapping

from kvgate.engine.fanout import Tell, asked_again, fan_out
from kvgate.errors import KvgateError, ParseError
from kvgate.probes import devices
from kvgate.spec.adapter import Adapter
from kvgate.spec.inventory import Host, Inventory
from kvgate.transport.base import CommandResult, Transport
from kvgate.transport.connect import Connections
from kvgate.untrusted import plain
from kvgate.witness import Witness

ASK_S = 30.0
"""How long a host may take to answer, once it is connected."""

PACKAGES = {
    "fio": ("fio", "fio"),
    "nvme": ("nvme-cli", "nvme-cli"),
    "lspci": ("pciutils", "pciutils"),
    "smartctl": ("smartmontools", "smartmontools"),
    "ethtool": ("ethtool", "ethtool"),
    "ip": ("iproute2", "iproute"),
    "python3": ("python3", "python3"),
}
"""Tool → the package that brings it on Debian and Ubuntu, and on RHEL and its kin."""

_VERSION_WORD = {"nvme": "version", "ip": "-V"}  # the others: --version

# $1: sudo as declared; then three words a tool: name, declared path or '', what asks its version.
# The clock is read first and last, so that the host's midpoint can be set against ours.
SCRIPT = r"""
say() { printf '%s\t' "$@" | tr -d '\r\n'; echo; }
first() { head -n 1 | cut -c 1-200 | tr '\t' ' '; }
release() { sed -n "s/^$1=//p" /etc/os-release 2>/dev/null | tr -d "\"'" | first; }
say begun "$(date +%s.%N)"
say kernel "$(uname -r | first)"
say os "$(release PRETTY_NAME)"
say like "$(release ID) $(release ID_LIKE)"
if [ "$1" = passwordless ]; then
  if sudo -n true >/dev/null 2>&1; then say sudo works; else say sudo refused; fi
else
  say sudo unused
fi
shift
while [ "$#" -ge 3 ]; do
  found=path
  if [ -n "$2" ]; then
    path=$(command -v "$2")
  else
    path=$(command -v "$1") || {
      found=sbin; path=$(PATH=/usr/local/sbin:/usr/sbin:/sbin command -v "$1"); }
  fi
  case $path in
    /*) say tool "$1" "$found" "$path" "$("$path" "$3" 2>&1 </dev/null | first)" ;;
    *) say tool "$1" none '' '' ;;
  esac
  shift 3
done
say ended "$(date +%s.%N)"
"""

_SECONDS = re.compile(r"\d{1,12}\.\d{1,9}", re.ASCII)
_SUDO = {"works": "passwordless", "refused": "refused", "unused": "never"}


@dataclasses.dataclass(frozen=True, slots=True)
class Tool:
    """A tool on a host: where it is and the first line it says of its version; '' if absent.

    ``found`` is `path` (the login's PATH, or declared), `sbin` (there, but not in that PATH) or
    `none`.
    """

    name: str
    found: str
    path: str
    version: str


@dataclasses.dataclass(frozen=True, slots=True)
class Facts:
    """What a host said of itself.

    ``sudo`` is `never` (not declared), `passwordless` (declared, works) or `refused`. The clock
    offset is the host's less the controller's; None where the host's date knows no fractions.
    """

    os: str
    like: tuple[str, ...]
    kernel: str
    sudo: str
    tools: tuple[Tool, ...]
    clock_offset_ms: float | None
    clock_uncertainty_ms: float | None

    def tool(self, name: str) -> Tool:
        """Return one of the tools asked for; raises KeyError for another."""
        return {tool.name: tool for tool in self.tools}[name]


@dataclasses.dataclass(frozen=True, slots=True)
class HostReport:
    """One host's answer: ``facts``, or ``error`` and ``hint``, and how long connecting took.

    Of a device: ``device``, what its adapter names as telling who it is.
    """

    name: str
    roles: tuple[str, ...]
    connect_s: float
    facts: Facts | None = None
    error: str = ""
    hint: str = ""
    device: str = ""

    @property
    def ok(self) -> bool:
        """Tell whether the host was reached and told its facts, whatever it lacks."""
        return self.facts is not None or bool(self.device)

    @property
    def missing(self) -> tuple[tuple[str, str], ...]:
        """Return the tools it lacks, each with the package that brings it on that system."""
        if self.facts is None:
            return ()
        red_hat = bool({"rhel", "fedora", "centos"} & set(self.facts.like))
        return tuple(
            (tool.name, PACKAGES[tool.name][red_hat] if tool.name in PACKAGES else "")
            for tool in self.facts.tools
            if not tool.path
        )

    def problem(self) -> str:
        """Return what is wrong and what to do, or '' of a host that is ok."""
        return f"{self.error}\n  hint: {self.hint}" if self.hint else self.error

    def row(self) -> tuple[str, str, str, str, str, str, str]:
        """Return the cells host, roles, state, system, clock, tools, missing."""
        facts = self.facts
        if self.device:
            asked = f"answered in {self.connect_s * 1000:.0f} ms"
            return self.name, ", ".join(self.roles), asked, self.device, "", "", ""
        if facts is None:
            return self.name, ", ".join(self.roles), "not reached", "", "", "", ""
        refused = "; sudo is declared and refused" if facts.sudo == "refused" else ""
        clock = (
            "unknown"
            if facts.clock_offset_ms is None
            else f"{facts.clock_offset_ms:+.1f} ms (± {facts.clock_uncertainty_ms:.1f})"
        )
        return (
            self.name,
            ", ".join(self.roles),
            f"connected in {self.connect_s * 1000:.0f} ms{refused}",
            f"{facts.os}, kernel {facts.kernel}",
            clock,
            "\n".join(
                f"{tool.path}: {tool.version}"
                + (" (not in the PATH: declare it under tools)" if tool.found == "sbin" else "")
                for tool in facts.tools
                if tool.path
            ),
            "\n".join(
                f"{name} (package {package})" if package else f"{name} (declared path)"
                for name, package in self.missing
            ),
        )


def survey_hosts(
    inventory: Inventory,
    connections: Connections,
    adapters: Mapping[str, Adapter] | None = None,
    *,
    tell: Tell | None = None,
) -> tuple[HostReport, ...]:
    """Return a report of every host, in the inventory's order; no host's failure is raised.

    `adapters` are those that its devices are asked by.
    """
    hosts = tuple(inventory.hosts.values())
    known = adapters or {}

    def survey(host: Host) -> HostReport:
        adapter = known.get(host.adapter or "")
        try:
            if adapter:
                return _survey_device(host, connections.to, adapter)
            return _survey(host, connections.to)
        finally:
            connections.rest(host)

    answers = fan_out(
        hosts,
        survey,
        at_once=connections.at_once,
        name=lambda host: host.name,
        tell=tell or (lambda _text, _awaits: None),
    )
    reports = {host.name: report for group in answers for host, report in group}
    return tuple(reports[host.name] for host in hosts)


def _survey_device(
    host: Host, connect: Callable[[Host], Transport], adapter: Adapter
) -> HostReport:
    """Ask a device who it is; one that tells nothing of that does not count as reached."""
    roles = (host.role.value,)
    begun = time.monotonic()
    try:
        witness = Witness(host, connect(host), lambda _: "", adapter)
        told = devices.about(witness).readings
    except KvgateError as err:
        return HostReport(
            host.name, roles, time.monotonic() - begun, error=err.message, hint=err.hint
        )
    took_s = time.monotonic() - begun
    said = [f"{each.name.partition('.')[2]} {each.value}" for each in told if each.value]
    if not said:
        why = "; ".join(dict.fromkeys(each.problem for each in told)) or "it tells nothing"
        return HostReport(host.name, roles, took_s, error=f"{host.name}: {why}")
    shown = f"{'simulated, ' if host.simulated else ''}{', '.join(said)} ({adapter.adapter})"
    return HostReport(host.name, roles, took_s, device=plain(shown, lines=False))


def _survey(host: Host, connect: Callable[[Host], Transport]) -> HostReport:
    roles = tuple(role.value for role in host.roles)
    begun = time.monotonic()
    try:
        result = asked_again(lambda: connect(host).run(question(host), timeout_s=ASK_S))
        connect_s = max(0.0, time.monotonic() - begun - result.elapsed_s)
        facts = read_answer(host, result.expect_ok())
    except KvgateError as err:
        return HostReport(
            host.name, roles, time.monotonic() - begun, error=err.message, hint=err.hint
        )
    return HostReport(host.name, roles, connect_s, facts)


def question(host: Host) -> list[str]:
    """Return the one command that asks `host` everything: what suites use and what it declares."""
    words = ["sh", "-c", SCRIPT, "kvgate-hosts", host.sudo]
    for name in _tool_names(host):
        words += [name, host.tools.get(name, ""), _VERSION_WORD.get(name, "--version")]
    return words


def _tool_names(host: Host) -> tuple[str, ...]:
    return (*PACKAGES, *(name for name in host.tools if name not in PACKAGES))


def read_answer(host: Host, result: CommandResult) -> Facts:
    """Return the facts in the answer to `question`; raises ParseError for any other answer."""
    lines = tuple(_lines(host, result.stdout))
    wanted = ["begun", "kernel", "os", "like", "sudo", *["tool"] * len(_tool_names(host)), "ended"]
    if [kind for kind, *_ in lines] != wanted:
        raise _unknown(host, "lines are missing or more than asked for")
    values = {kind: words for kind, *words in lines if kind != "tool"}
    tools = tuple(Tool(*words) for kind, *words in lines if kind == "tool" and len(words) == 4)
    if [tool.name for tool in tools] != list(_tool_names(host)):
        raise _unknown(host, "the tools are not those asked for")
    try:
        texts = {kind: "".join(words) for kind, words in values.items()}
        sudo = _SUDO[texts["sudo"]]
    except KeyError as err:
        raise _unknown(host, f"sudo: {err}") from err
    if not texts["kernel"]:
        raise _unknown(host, "no kernel release")
    offset, uncertainty = _clock(host, texts["begun"], texts["ended"], result)
    return Facts(
        os=texts["os"] or "unknown system",
        like=tuple(texts["like"].split()),
        kernel=texts["kernel"],
        sudo=sudo,
        tools=tools,
        clock_offset_ms=offset,
        clock_uncertainty_ms=uncertainty,
    )


def _lines(host: Host, answer: bytes) -> Iterator[list[str]]:
    """Yield each line's words; characters that could act on a terminal become '?'."""
    for line in answer.decode("utf-8", "replace").split("\n")[:-1]:
        words = line.split("\t")
        if words.pop() != "" or not words:
            raise _unknown(host, f"{line[:80]!r} is no line of it")
        yield ["".join(c if c.isprintable() else "?" for c in word) for word in words]


def _clock(
    host: Host, begun: str, ended: str, result: CommandResult
) -> tuple[float | None, float | None]:
    """Return offset and uncertainty in ms: both midpoints compared, and half of what differs.

    As NTP does (RFC 5905, section 8): with equal ways there and back the midpoints coincide, and
    the error is at most half of the round trip less the time the host spent.
    """
    if not _SECONDS.fullmatch(begun) or not _SECONDS.fullmatch(ended):
        if all(re.fullmatch(r"\d{1,12}(\.%?N)?", text, re.ASCII) for text in (begun, ended)):
            return None, None  # a date that knows no nanoseconds
        raise _unknown(host, f"date: {begun[:40]!r}, {ended[:40]!r}")
    first, last = float(begun), float(ended)
    ours = result.started_at.timestamp() + result.elapsed_s / 2
    offset = (first + last) / 2 - ours
    uncertainty = abs(result.elapsed_s - (last - first)) / 2
    return offset * 1000, uncertainty * 1000


def _unknown(host: Host, what: str) -> ParseError:
    return ParseError(
        f"{host.name}: the answer to the survey is not understood: {what}",
        hint="see that the login shell's start-up files print nothing",
    )
