"""The suites of tasks, a file each, imported when a task of theirs is made."""
