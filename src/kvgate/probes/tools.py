"""The tools on a host that workloads and probes run: which versions they are."""

from __future__ import annotations

import dataclasses

from kvgate.parse import versions
from kvgate.probes.base import NOT_FOUND, PLAIN, SHORT_S, Command, Probe, answer, reading
from kvgate.spec.inventory import Host
from kvgate.witness import Answer, Witness


@dataclasses.dataclass(frozen=True, slots=True)
class Tool:
    """A tool, how it is asked for its version, and the package that has it."""

    name: str
    argv: tuple[str, ...]
    package: str

    def ask(self, witness: Witness) -> Answer:
        """Return tool.NAME.version; a tool that is missing is a problem that names its package."""
        measure = f"tool.{self.name}.version"
        asked = witness.ask(self.command(witness.host), timeout_s=SHORT_S, env=PLAIN)
        if asked.result.exit_status == NOT_FOUND:
            missing = f"'{asked.result.argv[0]}' is not there: install the package '{self.package}'"
            return answer([reading(measure, None, missing)], asked)
        return answer([reading(measure, versions.version(asked.stdout, self.name))], asked)

    def command(self, host: Host) -> tuple[str, ...]:
        """Return the command; Debian and Ubuntu have no plain ``python`` of their own."""
        if self.name == "python" and "python" not in host.tools:
            return ("python3", *self.argv[1:])
        return self.argv

    def commands(self, host: Host) -> tuple[Command, ...]:
        """Return the command as a probe declares it."""
        return (Command(argv=self.command(host)),)


TOOLS: tuple[Tool, ...] = (
    Tool("fio", ("fio", "--version"), "fio"),
    Tool("nvme", ("nvme", "version"), "nvme-cli"),
    Tool("python", ("python", "--version"), "python3"),
    Tool("lsblk", ("lsblk", "--version"), "util-linux"),
    Tool("lspci", ("lspci", "--version"), "pciutils"),
    Tool("ethtool", ("ethtool", "--version"), "ethtool"),
    Tool("smartctl", ("smartctl", "--version"), "smartmontools"),
    Tool("dmidecode", ("dmidecode", "--version"), "dmidecode"),
    Tool("dcb", ("dcb", "-V"), "iproute2"),
    Tool("chronyc", ("chronyc", "--version"), "chrony"),
    Tool("lldpcli", ("lldpcli", "-v"), "lldpd"),
)

PROBES: tuple[Probe, ...] = tuple(
    Probe(
        name=f"tool {tool.name}",
        measures=(f"tool.{tool.name}.version",),
        ask=tool.ask,
        commands=tool.commands,
        tools=(tool.name,),
    )
    for tool in TOOLS
)
