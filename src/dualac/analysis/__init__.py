"""What the numbers say. Never imports JAX: a figure can be made on a machine without it."""
