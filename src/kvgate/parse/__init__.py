"""parse (see ARCHITECTURE.md)."""
