"""A training in several lives, each ended by SIGKILL at an exact place, but for the last.

python -m tests.support.killed [--aside] RUN WHERE:WHEN...

--aside    evaluations go on beside the learner, however short they are

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
from dualac.machine.cores import _others, usable_cores
from dualac.training import checkpoint, learner, loop
from dualac.training import evaluation as evaluate
from dualac.training import rollout as member
from dualac.training.run import load


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

    partial = f".partial-{when}"
    match where:
        case "step":
            patch(member.Rollout, "step", lambda self, action, step: step == when, after=True)
        case "learnt":
            patch(
                learner.Learner, "learn", lambda self, batches, obs, step: step == when, after=True
            )
        case "reset":
            patch(learner.Learner, "reset", lambda self, step: step == when, after=True)
        case "before" | "after":
            patch(
                loop.Session,
                "_evaluate_at",
                lambda self, step: step == when,
                after=where == "after",
            )
        case "state":
            patch(
                checkpoint.Checkpoints,
                "_save_replay",
                lambda self, folder, replay: folder.name == partial,
            )
        case "commit":
            patch(Path, "rename", lambda self, target: self.name == partial)
        case "named":
            patch(Path, "rename", lambda self, target: self.name == partial, after=True)
        case "tidy":
            patch(checkpoint.shutil, "rmtree", lambda folder: folder.name == f".trash-{when}")
        case _:
            raise ValueError(where)


def life(run: Path, death: str | None) -> int:
    """Live in a fork; return how it ended: 0, or minus the signal."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if death:
        where, _, when = death.partition(":")
        prepare_to_die(where, int(when))
    loop.train([run], lambda message: None)
    os._exit(0)


def main() -> None:
    arguments = sys.argv[1:]
    if arguments[0] == "--aside":
        arguments.pop(0)
        evaluate.SHORT, _others[:] = -1.0, usable_cores()[-1:]
    run, deaths = Path(arguments[0]), arguments[1:]
    envs.make(load(run).task).close()
    for death in deaths:
        ended = life(run, death)
        if ended != -signal.SIGKILL:
            raise SystemExit(f"the life that was to end at {death} ended with {ended}")
    if life(run, None) != 0:
        raise SystemExit("the last life did not end well")


if __name__ == "__main__":
    main()
