"""Touching hosts: run a command, start a long one, move a small file. Nothing else knows how."""
