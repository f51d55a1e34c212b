"""The attacks, one idea a file."""
