"""Errors of the disk, as opposed to errors of whoever asked it for something."""

import errno

from dualac.errors import DualacError, TryAgainError, UsageError


def is_disk_trouble(error: OSError) -> bool:
    """Tell whether the disk refused: it is full, over quota, failing or read-only."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS)


def refusal(place: object, error: OSError, instead: str = "choose another --out") -> DualacError:
    """Make the error to raise where the system does not let a place be used: `TryAgainError` where
    that is the disk's fault, else `UsageError`.
    """
    cause = f"{place} cannot be used ({error.strerror})"
    if is_disk_trouble(error):
        return TryAgainError(f"{cause}; free space and start it again: it goes on")
    return UsageError(f"{cause}; {instead}")
