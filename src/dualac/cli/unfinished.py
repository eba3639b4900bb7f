"""Which runs can go on, of those that a user names."""

from pathlib import Path

from dualac.errors import DualacError


def is_done(path: Path, steps: int) -> bool:
    """Tell whether a run has reached these steps."""
    from dualac.runs.state import read_status

    return read_status(path, steps).state == "done"


def resumable(packs: list[list[Path]]) -> tuple[list[list[Path]], list[DualacError]]:
    """Part the packs that can go on from those that cannot; of the latter, return the errors.

    A seed that failed does not keep the others of its pack from going on.
    """
    from dualac.training.run import load

    ready, errors = [], []
    for pack in packs:
        unfinished = [path for path in pack if not is_done(path, load(path).steps)]
        refusals = [_refusal_to_resume(path) for path in unfinished]
        known = [error for error in refusals if error is not None]
        if known and len(known) == len(unfinished):
            errors.append(known[0])
        else:
            ready.append(pack)
    return ready, errors


def pass_over_failed(
    packs: list[list[Path]], named: list[Path]
) -> tuple[list[list[Path]], list[DualacError]]:
    """Leave out the packs that failed, but not those that a user named; return why.

    Where there are no others they are kept, to be refused.
    """
    found = [pack for pack in packs if not set(pack) & set(named)]
    _, errors = resumable(found)
    kept = [pack for pack in packs if pack not in found or resumable([pack])[0]]
    return (kept, errors) if kept else (packs, [])


def _refusal_to_resume(path: Path) -> DualacError | None:
    """Return why a run is not to be resumed, if it is not."""
    from dualac.runs.state import require_resumable

    try:
        require_resumable(path)
    except DualacError as error:
        return error
    return None
