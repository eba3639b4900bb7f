"""Pictures of the numbers."""
