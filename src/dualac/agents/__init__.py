"""What learns. Pure JAX: no numpy, no gymnasium, no files."""
