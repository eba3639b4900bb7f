"""A training in several lives, each ended by SIGKILL at an exact place, but for the last.

python -m tests.support.killed [--beside] RUN WHERE:WHEN...

--beside   evaluations go on beside the learner, however short they are

WHERE:WHEN is one of
step:N     as the environment answers to step N
learnt:N   after the update of step N, before anything is written about it
reset:N    as the networks are reset after step N
before:N   before the evaluation at step N
after:N    when the rows of the evaluation at step N are on disk
state:N    when the checkpoint of step N has a state and no replay
commit:N   when all its files are written, but it does not have its name
named:N    when it has its name, and the oldest is not yet deleted
tidy:N     when the checkpoint of step N is about to be deleted
"""

import os
import signal
import sys
from pathlib import Path
from unittest import mock

# Before the fork: imported once for all lives, and the simulator too. No life has started a JAX
# device yet, so each is as good as a fresh process.
from dualac import envs
from dualac.machine.cores import usable_cores
from dualac.training import checkpoint
from dualac.training.evaluation import Evaluator
from dualac.training.learner import Learner
from dualac.training.loop import train
from dualac.training.rollout import Rollout
from dualac.training.run import load
from dualac.training.session import Session


class BesideRollout(Rollout):
    """A rollout whose evaluations go on beside the learner, however short they are."""

    def __init__(self, path, flags, *, together):
        super().__init__(path, flags, together=together)
        self.evaluator = Evaluator(self.eval_env, usable_cores()[-1:], short=-1.0)


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def dying(function, doomed, *, after: bool = False):
    """Return the function, with a kill before (or after) the call for which `doomed` is true."""

    def call(*args, **kwargs):
        if not after and doomed(*args):
            die()
        answer = function(*args, **kwargs)
        if after and doomed(*args):
            die()
        return answer

    return call


def prepare_to_die(where: str, when: int) -> None:
    def patch(owner, name, doomed, **options):
        mock.patch.object(owner, name, dying(getattr(owner, name), doomed, **options)).start()

    partial = f".partial-{when}-"  # and the number of the attempt
    match where:
        case "step":
            patch(Rollout, "step", lambda self, action, step: step == when, after=True)
        case "learnt":
            patch(Learner, "learn", lambda self, batches, step: step == when, after=True)
        case "reset":
            patch(Learner, "reset", lambda self, step: step == when, after=True)
        case "before":
            patch(Rollout, "eval_seeds", lambda self, step: step == when)
        case "after":
            patch(
                Session, "_write_evaluation", lambda self, i, step, rows: step == when, after=True
            )
        case "state":
            patch(
                checkpoint.Checkpoints,
                "_save_replay",
                lambda self, folder, replay: folder.name.startswith(partial),
            )
        case "commit":
            patch(Path, "rename", lambda self, target: self.name.startswith(partial))
        case "named":
            patch(Path, "rename", lambda self, target: self.name.startswith(partial), after=True)
        case "tidy":
            patch(checkpoint.shutil, "rmtree", lambda folder: folder.name == f".trash-{when}")
        case _:
            raise ValueError(where)


def life(run: Path, death: str | None, make_rollout: type[Rollout]) -> int:
    """Train until the death or the end; return 0, or minus the signal."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if death:
        where, _, when = death.partition(":")
        prepare_to_die(where, int(when))
    train([run], lambda message: None, make_rollout=make_rollout)
    os._exit(0)


def main() -> None:
    args = sys.argv[1:]
    make_rollout = BesideRollout if args[0] == "--beside" else Rollout
    run, *deaths = [arg for arg in args if arg != "--beside"]
    envs.make(load(Path(run)).task).close()
    for death in deaths:
        ended = life(Path(run), death, make_rollout)
        if ended != -signal.SIGKILL:
            raise SystemExit(f"the life that was to end at {death} ended with {ended}")
    if life(Path(run), None, make_rollout) != 0:
        raise SystemExit("the last life did not end well")


if __name__ == "__main__":
    main()
