"""One run: what it is, where it lives, how it goes, how it survives."""
