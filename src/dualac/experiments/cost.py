"""What a plan will take: core-hours, memory, disk; measured here once for each kind of agent."""

import hashlib
import itertools
import json
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from dualac import envs
from dualac.agents.algorithms import ALGORITHMS
from dualac.execution.pinned import call
from dualac.experiments.survey import Unit
from dualac.machine import compilation
from dualac.machine.fingerprint import versions
from dualac.parts.as_json import to_json
from dualac.parts.fields import former_origin_of
from dualac.runs.files import write_json
from dualac.training.replay import replay_bytes
from dualac.training.run import Run
from dualac.types import Spec

UPDATES, CALL = 200, 20  # of each kind that are timed, and how many in one call
# of a worker beside its replay, with two simulators: more than the most that was measured
# (docs/performance.md)
PROCESS_BYTES = 650_000_000
STATE_BYTES = 20_000_000  # of a run's two checkpoints, beside the replay, which they share
EVALUATION_ROW = 160  # bytes of a line of eval.jsonl, about
TRAINING_ROW = 1_400


class Estimate(NamedTuple):
    core_hours: float
    memory: int  # bytes of the largest run
    disk: int


def sizes(task: str) -> Spec:
    """Of a task of the paper from the table, else by making it once."""
    if task not in _SIZES:
        known = envs.PAPER.get(task)
        if known is None:
            env = envs.make(task)
            known = envs.Sizes(env.observation_space.shape[0], env.action_space.shape[0])  # pyright: ignore[reportOptionalSubscript]
            env.close()
        _SIZES[task] = Spec(known.obs, known.actions)
    return _SIZES[task]


_SIZES: dict[str, Spec] = {}


def memory(run: Run) -> int:
    return PROCESS_BYTES + replay_bytes(min(run.capacity, run.steps), sizes(run.task))


def weight(run: Run) -> float:
    """How long a run takes, in units of no meaning: what sorts the longest to the front."""
    return run.steps * run.replay_ratio * _update_weight(run)


def _update_weight(run: Run) -> float:
    """Count an update's multiplications, roughly: critics serve target, own loss and actors."""
    spec, row = sizes(run.task), run.algorithm
    widths = (spec.obs_dim + spec.action_dim, *row.critic.hidden)
    connections = sum(one * other for one, other in itertools.pairwise(widths))
    actors = (1 + row.explorer.learns) / row.policy.delay
    return run.batch_size * connections * (row.critic.k * (4 + 2 * actors) + 3 * actors)


def estimate(units: Iterable[Unit], timed: Callable[[list[Run]], list[float]]) -> Estimate:
    """Of what is left. `timed` gives the seconds of an update of each kind of run."""
    left = [unit for unit in units if unit.state != "done"]
    kinds: dict[Any, Run] = {}
    for unit in left:
        kinds.setdefault((unit.run.algorithm, unit.run.batch_size), unit.run)
    seconds = dict(zip(kinds, timed(list(kinds.values())), strict=True))
    hours = disk = 0.0
    for unit in left:
        run = unit.run
        updates = max(0, run.steps - max(unit.step, run.warmup)) * run.replay_ratio
        played = (run.steps - unit.step) * (1 + run.protocol.eval_episodes * 1000 / run.eval_every)
        hours += (updates * seconds[run.algorithm, run.batch_size] + played * SECONDS_A_STEP) / 3600
        disk += run.steps / run.eval_every * run.protocol.eval_episodes * EVALUATION_ROW
        disk += run.steps / run.log_every * TRAINING_ROW
        disk += replay_bytes(min(run.capacity, run.steps), sizes(run.task)) + STATE_BYTES
    return Estimate(hours, max((memory(unit.run) for unit in left), default=0), int(disk))


def rough(runs: list[Run]) -> list[float]:
    """Estimate the same by one measurement, of DAC, in proportion to multiplications."""
    reference = Run("dac", ALGORITHMS["dac"], "dmc/cheetah-run")
    unit = calibrated([reference])[0] / _update_weight(reference)
    return [unit * _update_weight(run) for run in runs]


SECONDS_A_STEP = 3e-4  # of a simulator with acting; learning takes thirty times as long


Measure = Callable[[list[dict[str, Any]]], list[float]]  # questions -> seconds of an update


def measure_updates(questions: list[dict[str, Any]]) -> list[float]:
    """Time an update of each kind, in a process of its own."""
    return call("dualac.bench.learner:best", 1, questions=questions, calls=UPDATES // CALL)


def calibrated(
    runs: list[Run], *, anew: bool = False, measure: Measure = measure_updates
) -> list[float]:
    """Return seconds of an update of each, looked up if timed before and not wanted `anew`."""
    book = compilation.compilation_cache() / "calibration.json"
    known: dict[str, float] = json.loads(book.read_text()) if book.exists() else {}
    asked = [_question(run) for run in runs]
    names = [_name_of(question) for question in asked]
    every = dict(zip(names, asked, strict=True))
    new = {name: question for name, question in every.items() if anew or name not in known}
    if new:
        known |= dict(zip(new, measure(list(new.values())), strict=True))
        book.parent.mkdir(parents=True, exist_ok=True)
        write_json(book, known)
    return [known[name] for name in names]


def _name_of(question: dict[str, Any]) -> str:
    here = [question, versions(), compilation.cpu_model()]
    return hashlib.sha256(json.dumps(here, sort_keys=True).encode()).hexdigest()


def _question(run: Run) -> dict[str, Any]:
    obs, actions = sizes(run.task)
    return {
        "algorithm": to_json(run.algorithm, origin=former_origin_of),
        "load": {"obs": obs, "actions": actions, "batch": run.batch_size, "replay_ratio": CALL},
    }
