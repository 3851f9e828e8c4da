"""What people write, checked once and strictly before any host is touched."""
