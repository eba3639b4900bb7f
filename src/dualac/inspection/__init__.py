"""A trained agent, looked at: the figures of the theory, coverage, saturation, films."""
