"""Read-only questions to a host: one command, one parser, one typed answer each."""
