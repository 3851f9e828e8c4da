"""telemetry (see ARCHITECTURE.md)."""
