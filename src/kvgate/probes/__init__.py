"""probes (see ARCHITECTURE.md)."""
