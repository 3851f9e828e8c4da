"""load (see ARCHITECTURE.md)."""
