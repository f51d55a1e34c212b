"""The defences, one idea a file."""
