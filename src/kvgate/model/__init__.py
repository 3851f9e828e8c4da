"""The nouns of kvgate: verdicts, quantities, measurements, findings. Standard library only."""
