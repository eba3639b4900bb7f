"""What tests of several folders share. Tests import it as `tests.support.NAME`."""
