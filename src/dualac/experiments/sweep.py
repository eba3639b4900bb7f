"""A plan carried out. Started twice it does no work twice: the directories say what is left."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from dualac.execution.local import Effort, Failure, Work, launch
from dualac.experiments.cost import memory, weight
from dualac.experiments.expand import expand
from dualac.experiments.spec import Experiment
from dualac.experiments.survey import Unit, survey
from dualac.machine.disk import refusal
from dualac.machine.memory import available_memory
from dualac.machine.messages import Report
from dualac.runs.layout import FAILED
from dualac.runs.plan import claim
from dualac.runs.state import clear_failed, mark_failed
from dualac.training.run import Flags, prepare

ATTEMPTS = 3  # at a run whose process dies, before it is set aside
SHARE = 0.8  # of the free memory that the runs of one moment may take together

Executor = Callable[[list[Work], Report, Flags, Effort], list[Failure]]


class Orders(NamedTuple):
    """How a plan is to be carried out."""

    out: Path
    executor: Executor = launch
    workers: int | None = None
    retry_failed: bool = False  # begin anew with runs that were set aside
    flags: Flags = Flags()


class Outcome(NamedTuple):
    units: list[Unit]
    failures: list[Failure]


def order(experiment: Experiment, units: list[Unit], *, retry_failed: bool = False) -> list[Unit]:
    """Order what is left, usually the longest first: started last, one would run alone."""
    left = [
        unit for unit in units if unit.state != "done" and (unit.state != "failed" or retry_failed)
    ]
    if experiment.order == "longest-first":
        left.sort(key=lambda unit: (-weight(unit.run), unit.run.seed))
    return left


def sweep(experiment: Experiment, orders: Orders, report: Report) -> Outcome:
    """Carry every run of the experiment to its end; set aside those that fail every time."""
    runs = expand(experiment)
    try:
        claim(orders.out, experiment.name, runs)
        units = survey(runs, orders.out)
        left = order(experiment, units, retry_failed=orders.retry_failed)
        works = [_work(unit, orders) for unit in left]
        effort = Effort(ATTEMPTS, workers=orders.workers, memory=int(SHARE * available_memory()))
        failures = orders.executor(works, report, orders.flags, effort) if works else []
        for failure in failures:
            if failure.final:
                set_aside(failure)
        return Outcome(survey(runs, orders.out), failures)
    except OSError as error:
        raise refusal(orders.out, error) from None


def _work(unit: Unit, orders: Orders) -> Work:
    def begin() -> None:
        prepare(unit.run, orders.out)
        if unit.state == "failed":
            clear_failed(unit.path)

    return Work([unit.path], memory=memory(unit.run), prepare=begin)


def set_aside(failure: Failure) -> None:
    """Mark a run whose process died each time; what failed by its own account has marked itself."""
    for path in failure.work.paths:
        if not (path / FAILED).exists() and os.access(path, os.W_OK):
            mark_failed(path, None, str(failure.error), "Died")
