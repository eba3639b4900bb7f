"""The loop: act, learn, and now and then log, evaluate and write a checkpoint."""

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path

from dualac.errors import DataError, DualacError, Interrupted, RunFailedError, TryAgainError
from dualac.machine.disk import is_disk_trouble
from dualac.machine.messages import Report
from dualac.machine.signals import handling
from dualac.runs.lock import owned
from dualac.training.evaluation import StopRequested
from dualac.training.learner import Learner
from dualac.training.rollout import Rollout
from dualac.training.run import USUAL, Flags
from dualac.training.session import MakeLearner, MakeRollout, Session

TICK = 0.5  # seconds between signs of life


def train(
    paths: list[Path],
    report: Report,
    flags: Flags = USUAL,
    make_learner: MakeLearner = Learner,
    make_rollout: MakeRollout = Rollout,
) -> None:
    """Take runs, one or a pack of seeds, from wherever they are to their last step."""
    signals: list[int] = []
    with contextlib.ExitStack() as stack:
        for path in paths:
            stack.enter_context(owned(path))
        try:
            session = Session(
                paths, report, flags, make_learner, make_rollout, stopping=lambda: bool(signals)
            )
        except OSError as error:
            if not is_disk_trouble(error):
                raise
            raise TryAgainError(
                f"{paths[0]} could not be begun ({error.strerror}); free space and start again"
            ) from None
        stack.callback(session.close)
        try:
            session.start(allow_inexact=flags.allow_inexact)
            # Not before: a start has nothing to lose, and a signal is to end it at once.
            with _noting(signals):
                go_on(session, signals)
        except Exception as error:
            # Whatever it is: the runs are a later attempt's now, and nothing is said in them.
            session.require_attempts()
            if isinstance(error, OSError) and is_disk_trouble(error):
                raise TryAgainError(
                    f"step {session.step} could not be written down ({error.strerror}); free "
                    f"space, then: {session.resumption()}"
                ) from None
            # Bad data fails a run that was going on; before that it only refuses it.
            spoilt = session.running and isinstance(error, DataError)
            if spoilt or isinstance(error, RunFailedError) or not isinstance(error, DualacError):
                session.fail(error)
            raise
        session.done()
        for error in session.failures.values():
            raise error


def go_on(session: Session, signals: list[int]) -> None:
    """Take a session to its last step, or to where one of these signals has come."""
    try:
        for step in steps(session):
            if signals and step < session.run.steps:
                raise StopRequested
    except StopRequested:
        saved = ", checkpoint written" if session.stop() else ""
        raise Interrupted(
            f"stopped at step {session.step}{saved}; continue with: {session.resumption()}",
            signals[0],
        ) from None


def steps(session: Session) -> Iterator[int]:
    """Take a session to its last step; yield after each, when it can be stopped."""
    run, last_sign = session.run, time.monotonic()
    for step in range(session.step + 1, run.steps + 1):
        session.renew_agents()
        returns = session.act(step)
        if step >= run.warmup:
            session.learn(step)
        # Last: an episode's last updates are still of its own attitude.
        session.observe_returns(returns, step)
        session.step = step
        if step % run.log_every == 0:
            session.log()
        if step % run.eval_every == 0 or step == run.steps:
            session.evaluate()
        if step % run.checkpoint_every == 0 or step == run.steps:
            session.checkpoint()
        if time.monotonic() - last_sign > TICK:
            last_sign = time.monotonic()
            session.report_progress("progress")
            session.collect_evaluations(wait=False)
        yield step


@contextlib.contextmanager
def _noting(signals: list[int]) -> Iterator[None]:
    """Collect the signals that ask to stop; a second one is obeyed at once."""

    def note(number: int, frame: object) -> None:
        signals.append(number)
        restore()

    with handling(note) as restore:
        yield
