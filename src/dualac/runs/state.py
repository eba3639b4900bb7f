"""The state of a run, decided in one place, and the two files that end a run."""

import os
from pathlib import Path
from typing import Any, Literal, NamedTuple

from dualac.errors import DataError, RunFailedError
from dualac.runs.files import (
    Damage,
    Permit,
    read_object,
    sweep_partials,
    unchecked,
    write_json,
)
from dualac.runs.layout import (
    DONE,
    EVALUATIONS,
    EVENTS,
    FAILED,
    LOCK,
    SPEC,
    TRAINING,
    checkpoint_steps,
)
from dualac.runs.lock import is_at_work
from dualac.runs.rows import digest, is_step, last_rows, last_step, read_rows
from dualac.runs.spec import spec_digest

State = Literal["done", "running", "interrupted", "failed", "missing"]
STATES: tuple[State, ...] = ("done", "running", "interrupted", "failed", "missing")

PROGRESS = ("started", "resumed", "interrupted", "done", "failed")  # events
EVENT_KINDS = {
    *PROGRESS,
    *("first_checkpoint", "reset", "explorer_restarted", "bad_transition", "bad_evaluation"),
    *("slow_kernels", "no_time_limit", "inexact_resume", "damaged_checkpoint", "not_replayable"),
}
CHANGED = f"was changed after the run was done: {DONE} was written for another; put the file back"
# What DONE and FAILED hold; a field that is missing was not known to an older version.
VERDICT = {"identity": str, "evaluations": str, "spec": str, "reason": str, "error": str}


class Status(NamedTuple):
    """The state of a run, how far it has come, and why it is not further."""

    state: State
    step: int = 0
    reason: str = ""


def read_status(path: Path, steps: int) -> Status:
    """Decide the state of the run in a directory, which is to have so many `steps`.

    - failed: it was set aside, whatever else is there.
    - done: DONE says that it has reached these steps. A run that was kept without DONE, and
      without the lock that every directory in use has, is done if its rows reach them.
    - running: the process that owns it is there, even if all rows are written.
    - missing: nothing of it was written yet.
    - interrupted: anything else, for example a run that is to go further than it once ended.

    A DONE that cannot be read counts as none: the run goes on from its last checkpoint.
    """
    if not (path / SPEC).exists():
        return Status("missing")
    if os.path.lexists(path / FAILED):
        return _read_failure(path)
    done, damage = _read_done(path)
    if done >= steps:
        return Status("done", done)
    return _read_unfinished(path, steps, done, damage)


def reached_step(path: Path) -> int:
    """Return the last step that a run has written a row of."""
    return max(last_step(path / TRAINING), last_step(path / EVALUATIONS))


def mark_done(path: Path, step: int, identity: str, permit: Permit = unchecked) -> None:
    """Write DONE, with the SHA-256 of the evaluations and of run.json: the run has reached its last
    step.

    The same end twice is one end. Another end is an error: one of the two is wrong, since the same
    run on the same machine gave other numbers. A run that was finished with fewer steps must still
    have the rows that it had then.
    """
    rows = path / EVALUATIONS
    verdict = {"step": step, "identity": identity, "evaluations": digest(rows)}
    if os.path.lexists(path / SPEC):
        verdict["spec"] = spec_digest(read_object(path / SPEC))
    before = _read_verdict(path / DONE)
    if before == verdict:
        return
    if before and _contradicts(before, rows):
        raise DataError(
            f"{path} was finished twice with different results: {path / DONE} tells of other rows "
            f"than {rows}; something in it is not deterministic. Remove {path / DONE} to keep "
            f"those rows, or {path} to begin anew"
        )
    write_json(path / DONE, verdict, permit)
    permit()
    sweep_partials(path)


def is_end_of(path: Path, identity: str) -> bool:
    """Tell whether DONE was written for the run of this identity."""
    verdict = _read_verdict(path / DONE)
    return verdict is not None and verdict.get("identity") == identity


def changes_since_done(path: Path, steps: int) -> list[Damage]:
    """Name the files that are no longer those that DONE was written for.

    A run that goes on to more `steps` may have more rows, and resets that are still to come. What
    an older version did not write into DONE cannot be compared.
    """
    verdict, rows = _read_verdict(path / DONE), path / EVALUATIONS
    if verdict is None or not is_step(verdict.get("step")):
        return []
    damaged = []
    if verdict["step"] < steps:
        changed = _contradicts(verdict, rows)
    else:
        changed = verdict.get("evaluations", "") not in ("", digest(rows))
        if verdict.get("spec", "") not in ("", spec_digest(read_object(path / SPEC))):
            damaged.append(Damage(path / SPEC, CHANGED))
    return [*damaged, Damage(rows, CHANGED)] if changed else damaged


def mark_failed(
    path: Path, step: int | None, reason: str, error: str, permit: Permit = unchecked
) -> None:
    """Write FAILED: the run is set aside, at this step, for this reason."""
    write_json(path / FAILED, {"step": step, "reason": reason, "error": error}, permit)


def clear_failed(path: Path) -> None:
    """Remove FAILED: the run is begun anew."""
    (path / FAILED).unlink(missing_ok=True)


def require_resumable(path: Path) -> None:
    """Refuse a run that failed for a reason that would come again, with that reason."""
    if failed_for_good(path):
        verdict = _read_verdict(path / FAILED) or {}
        raise DataError(
            f"{path} failed at step {verdict.get('step')}: {verdict.get('reason')}; it would "
            f"again. Remove {path / FAILED} to try all the same"
        )


def failed_for_good(path: Path) -> bool:
    """Tell whether a run failed for a reason that would come again."""
    verdict = _read_verdict(path / FAILED)
    return verdict is not None and verdict.get("error") == RunFailedError.__name__


def _read_verdict(file: Path) -> dict[str, Any] | None:
    """Read DONE or FAILED; None where it is not there or cannot be read."""
    try:
        verdict = read_object(file) if os.path.lexists(file) else {}
    except DataError:
        return None
    usable = all(isinstance(verdict.get(name, ""), kind) for name, kind in VERDICT.items())
    return verdict if verdict and usable else None


def _read_done(path: Path) -> tuple[int, str]:
    """Return the step of DONE, or -1, and what is wrong with the file."""
    verdict = _read_verdict(path / DONE)
    if verdict is not None and is_step(verdict.get("step")):
        return int(verdict["step"]), ""
    return -1, f"its {DONE} cannot be read" if os.path.lexists(path / DONE) else ""


def _read_unfinished(path: Path, steps: int, done: int, damage: str) -> Status:
    """Decide the state of a run whose DONE, of step `done`, does not tell of all its steps."""
    reached = max(done, reached_step(path), 0)
    if is_at_work(path):
        return Status("running", reached)
    if reached >= steps and not (path / LOCK).exists():
        return Status("done", reached)
    checkpoints = checkpoint_steps(path)
    written = any((path / name).exists() for name in (DONE, EVENTS, TRAINING, EVALUATIONS))
    if not written and not checkpoints:
        return Status("missing")
    if reached <= done:
        return Status("interrupted", reached, f"the plan goes on to step {steps}")
    return _read_interruption(path, max([reached, *checkpoints]), damage)


def _read_failure(path: Path) -> Status:
    verdict = _read_verdict(path / FAILED)
    if verdict is None:
        return Status("failed", reached_step(path), f"its {FAILED} cannot be read")
    step = verdict.get("step")
    reached = int(step) if step is not None and is_step(step) else reached_step(path)
    return Status("failed", reached, str(verdict.get("reason", "")))


def _read_interruption(path: Path, reached: int, damage: str) -> Status:
    """Tell where a run stopped, and why if it said so."""
    events = (row for row in last_rows(path / EVENTS) if row.get("event") in PROGRESS)
    last = next(events, None)
    if last is None or damage:
        return Status("interrupted", reached, damage)
    if last["event"] == "interrupted":  # after a checkpoint, perhaps before the first row
        step = int(last["step"]) if is_step(last.get("step")) else 0
        return Status("interrupted", max(reached, step), "stopped by a signal")
    return Status("interrupted", reached, "it stopped without a word")


def _contradicts(before: dict[str, Any], rows: Path) -> bool:
    """Tell whether the evaluations are no longer those that an earlier DONE was written for.

    A run that went back behind its former end, to an earlier checkpoint, has no evaluation there:
    what cannot be compared is no contradiction.
    """
    end = before.get("step")
    steps = [row["step"] for row in read_rows(rows, [], needed="step")]
    if not is_step(end) or end not in steps:
        return False
    return before.get("evaluations") != digest(rows, end)
