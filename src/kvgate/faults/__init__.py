"""Faults: each breaks one thing for the length of a block, and proves that and its repair."""
