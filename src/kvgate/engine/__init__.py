"""engine (see ARCHITECTURE.md)."""
