"""Samples hosts once a second over one channel each, and turns counters into rates."""
