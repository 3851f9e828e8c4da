"""Answers of made-up servers, command by command, for tests and for the composed site."""
