"""One policy a file."""
