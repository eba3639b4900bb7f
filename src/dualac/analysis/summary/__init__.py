"""What the numbers come to: estimates, comparisons, tables, and the words for them."""
