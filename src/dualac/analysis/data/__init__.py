"""From the rows on disk to columns of numbers: read, joined, grouped, scored."""
