"""suite (see ARCHITECTURE.md)."""
