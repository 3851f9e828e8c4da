"""report (see ARCHITECTURE.md)."""
