"""faults (see ARCHITECTURE.md)."""
