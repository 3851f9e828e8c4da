"""Calculates: geometry of KV caches, ceilings of paths, predictions, claims. No host is touched."""
