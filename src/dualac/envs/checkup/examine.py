"""An examination of an environment by playing it: a finding a line, with what to do about it."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator

import gymnasium
from gymnasium.utils.env_checker import check_env

from dualac.envs import THE_PAPERS, Protocol, canonical, make
from dualac.envs.adapter import Adapted
from dualac.envs.checkup import checks
from dualac.envs.checkup.declared import Witness
from dualac.envs.checkup.plays import USUAL, FailedError, Limits, one_line, play_all, quietly
from dualac.envs.foreign import ignoring_errors, is_ctrl_c
from dualac.errors import DualacError
from dualac.machine.children import open_answers
from dualac.machine.messages import Finding, Finished

# What Gymnasium's checker says and this library takes care of, by a phrase of it.
UNUSED_BOUNDS = "it would have finite bounds; no matter here: those of observations are not used"
MENDED = {
    "symmetric and normalized space": (
        "it would have actions in [-1, 1]; no matter here: they are scaled to your box"
    ),
    "probably too low": UNUSED_BOUNDS,
    "probably too high": UNUSED_BOUNDS,
}
# What it says of this library's doing, not of the user's.
OURS = "different from the unwrapped version"


def checkup(
    task: str, protocol: Protocol = THE_PAPERS, limits: Limits = USUAL
) -> Iterator[Finding]:
    """Examine a task; yield the findings in the order of the checks."""
    name = canonical(task)
    notices: list[str] = []

    def make_one() -> Adapted:
        return make(name, protocol=protocol)

    try:
        env = quietly(make_one, notices)
    except DualacError as error:
        yield Finding("wrong", "made", one_line(error))
        return
    yield checks.check_sizes(env)
    if name.startswith("gym/"):
        yield from check_as_gymnasium(make_one)
    witness = env.env = Witness(env.env)
    try:
        record = quietly(lambda: play_all(env, make_one, limits), notices)
    except FailedError as error:
        yield Finding("wrong", "played", str(error))
        return
    finally:
        with ignoring_errors():
            quietly(env.close)
    yield checks.check_ends(env, record.plays, witness.old_limit)
    yield checks.check_seeding(record)
    yield checks.check_resume(record)
    yield from checks.check_actions(record)
    yield from checks.check_observations(env, record.plays, list(witness.findings))
    yield checks.check_rewards(record.plays)
    yield checks.check_success(record.plays)
    yield checks.check_speed(record.elsewhere)
    for text in list(dict.fromkeys(notices))[: checks.MOST]:
        yield Finding("note", "says", text)


def check_as_gymnasium(make_one: Callable[[], Adapted]) -> Iterator[Finding]:
    """Run Gymnasium's checker, whose findings are warnings, on an environment of its own."""
    notices: list[str] = []
    stopped = False
    try:
        env = quietly(make_one)
        as_written = _without_ours(env)
        quietly(
            lambda: check_env(as_written, skip_render_check=True, skip_close_check=True), notices
        )
        with ignoring_errors():
            quietly(env.close)
    except BaseException as error:  # mostly assertions, but foreign code may raise anything
        if is_ctrl_c(error):
            raise
        stopped = True
        reason = one_line(error) or type(error).__name__
        yield Finding("warning", "gymnasium", f"its checker stops: {reason}")
    texts = list(dict.fromkeys(_in_our_words(text) for text in notices if OURS not in text))
    for text in texts:
        yield Finding("note", "gymnasium", text)
    if not stopped and not texts:
        yield Finding("ok", "gymnasium", "its checker has nothing to say")


def _without_ours(env: Adapted) -> gymnasium.Env:
    """Return the environment as its user wrote it, with the user's own wrappers."""
    inner = env.env
    return env.unwrapped if getattr(inner, "env", None) is env.unwrapped else inner


def _in_our_words(text: str) -> str:
    return next((ours for phrase, ours in MENDED.items() if phrase in text), text)


def main() -> None:
    """Send the findings to the parent: the environment may hang or crash this process."""
    send = open_answers()
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # a KeyboardInterrupt is the environment's own
    for finding in checkup(sys.argv[1], Protocol(time_limit=int(sys.argv[2]))):
        send(finding)
    send(Finished())


if __name__ == "__main__":
    main()
