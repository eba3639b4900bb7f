"""Trees of frozen dataclasses: checked, written as JSON and as Python, read from text and from
files of a user's own.
"""
