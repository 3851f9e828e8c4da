"""cli (see ARCHITECTURE.md)."""
