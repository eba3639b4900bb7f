"""What is wrong with an environment, found by playing it."""
