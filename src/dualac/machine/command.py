"""The command that a process was started by, for the records of the runs that it makes."""

COMMAND = "DUALAC_COMMAND"  # the environment variable that holds it
