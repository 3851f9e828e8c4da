"""judge (see ARCHITECTURE.md)."""
