"""Environments that may break, hang or crash without taking the run with them."""
