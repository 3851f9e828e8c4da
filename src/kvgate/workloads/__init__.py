"""workloads (see ARCHITECTURE.md)."""
