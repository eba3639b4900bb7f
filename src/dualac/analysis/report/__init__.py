"""The report: one HTML page, Markdown with figures, and tables for other programs."""
