"""A run as a directory: what its files are called, how they are written and read, what state it
is in.
"""
