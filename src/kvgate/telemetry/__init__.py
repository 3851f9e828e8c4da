"""Samples hosts over one channel each, keeps it in a log, then in columns with a pyramid."""
