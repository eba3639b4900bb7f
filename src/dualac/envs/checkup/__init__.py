"""A checkup of an environment, by playing it."""
