"""Read-only questions to a host: one command, one parser, one typed answer each."""

from kvgate.probes import clock, drives, identity, network, pci, system, tools

__all__ = ["clock", "drives", "identity", "network", "pci", "system", "tools"]

ALL = (
    system.PROBES
    + tools.PROBES
    + clock.PROBES
    + drives.PROBES
    + network.PROBES
    + pci.PROBES
    + identity.PROBES
)
"""Every probe there is."""
