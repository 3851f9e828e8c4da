"""A suite as a run freezes it; the golden run's answers are made up (tools/golden.py)."""
