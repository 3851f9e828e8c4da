"""serving (see ARCHITECTURE.md)."""
