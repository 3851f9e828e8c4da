"""Calculates: geometry of KV caches, ceilings of paths. No host is touched."""
