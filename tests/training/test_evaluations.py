"""Evaluations in several environments at once: the same rows, and only where it pays."""

import fcntl
import os
import threading
import time

import numpy as np
import pytest
from tests.support import toys

from dualac.envs import Protocol
from dualac.envs.faults.guarded import Guarded
from dualac.machine import cores
from dualac.machine.cores import _lease, borrowed, usable_cores
from dualac.training import evaluation as evaluate_module
from dualac.training.evaluation import Evaluator, evaluate

SEEDS = [3, 1, 4, 1, 5]


def act(obs):
    return np.tanh(obs[:2])


def guarded(toy="Drift"):
    return Guarded(toys.task(toy), Protocol())


@pytest.fixture
def other_core(monkeypatch, tmp_path):
    """This process is pinned, and there is another core, for which nobody has a lease."""
    monkeypatch.setattr(cores.tempfile, "gettempdir", lambda: str(tmp_path))
    core = usable_cores()[-1]
    monkeypatch.setattr(cores, "_others", [core])
    return core


def test_several_players_give_the_rows_of_one_in_the_order_of_the_seeds():
    players = [guarded() for _ in range(3)]
    alone = evaluate(players[:1], act, SEEDS)
    assert [row["seed"] for row in alone] == SEEDS
    assert evaluate(players, act, SEEDS) == alone


def test_a_broken_episode_is_told_by_its_seed_however_many_play():
    told = []
    for players in (
        [guarded("RaiseInStepAlways")],
        [guarded("RaiseInStepAlways"), guarded("RaiseInStepAlways")],
    ):
        heard = []
        rows = evaluate(players, act, SEEDS, lambda seed, error, heard=heard: heard.append(seed))
        told.append((heard, [row["bad"] for row in rows]))
    assert told[0] == told[1] == (SEEDS, [True] * len(SEEDS))


def test_a_long_evaluation_is_helped_on_a_core_that_is_idle_and_gives_the_same_rows(
    other_core, monkeypatch
):
    stage = Evaluator(guarded())
    alone = stage.evaluate(act, SEEDS, lambda seed, error: None)
    assert stage._beside == []  # it is over before help could be there
    monkeypatch.setattr(evaluate_module, "LONG", 0.0)
    assert stage.evaluate(act, SEEDS, lambda seed, error: None) == alone
    (helper,) = stage._beside
    assert os.sched_getaffinity(helper.unwrapped._process.pid) == {other_core}
    stage.close()


def test_an_evaluation_goes_on_beside_its_caller_on_an_idle_core_and_gives_the_same_rows(
    other_core, monkeypatch
):
    monkeypatch.setattr(evaluate_module, "SHORT", 0.0)
    stage, seen = Evaluator(guarded()), []
    assert stage.aside(act, SEEDS) is None  # nothing is known yet of how long it takes
    alone = stage.evaluate(act, SEEDS, lambda seed, error: None)

    def watched(obs):
        seen.append((os.sched_getaffinity(0), _lease(other_core)))
        return act(obs)

    begun = stage.aside(watched, SEEDS)
    assert begun is not None
    assert begun.wait(lambda seed, error: None) == alone
    assert {(frozenset(cores), lease) for cores, lease in seen} == {(frozenset({other_core}), None)}
    lease = _lease(other_core)
    assert lease is not None
    assert stage.aside(act, SEEDS) is None  # taken
    os.close(lease)
    stage.close()


def test_what_broke_beside_the_learner_is_told_by_whoever_waits(other_core, monkeypatch):
    monkeypatch.setattr(evaluate_module, "SHORT", -1.0)
    stage, told = Evaluator(guarded("RaiseInStepAlways")), []
    begun = stage.aside(act, SEEDS)
    assert begun is not None
    begun.rows.result()
    assert told == []
    begun.wait(lambda seed, error: told.append(seed))
    assert told == SEEDS
    stage.close()


def test_closing_leaves_an_evaluation_unfinished(other_core, monkeypatch):
    monkeypatch.setattr(evaluate_module, "SHORT", -1.0)
    stage, begun = Evaluator(guarded()), threading.Event()

    def slow(obs):
        begun.set()
        time.sleep(0.05)
        return act(obs)

    aside = stage.aside(slow, list(range(1000)))
    assert begun.wait(60.0)
    stage.close()
    assert aside is not None
    assert sum("bad" in row for row in aside.rows.result()) > 900


@pytest.mark.parametrize("why", ["short", "taken", "unpinned"])
def test_no_helper_is_made_where_it_does_not_pay(other_core, monkeypatch, why):
    stage = Evaluator(guarded())
    monkeypatch.setattr(evaluate_module, "LONG", 5.0 if why == "short" else 0.0)
    if why == "unpinned":
        monkeypatch.setattr(cores, "_others", [])
    lease = _lease(other_core) if why == "taken" else None
    stage.evaluate(act, SEEDS, lambda seed, error: None)
    assert stage._beside == []
    if lease is not None:
        os.close(lease)
    stage.close()


def test_a_borrowed_core_is_given_back(other_core):
    with borrowed(1) as cores:
        assert cores == [other_core]
        with borrowed(1) as more:
            assert more == []
    lease = _lease(other_core)
    assert lease is not None
    fcntl.flock(lease, fcntl.LOCK_UN)
    os.close(lease)


def test_an_environment_that_was_made_anew_by_a_thread_outlives_it():
    """A process that dies with its parent is signalled when the thread that started it ends."""
    players = [Guarded(toys.task("Drift"), Protocol(), isolated=60.0) for _ in range(2)]
    for player in players:
        player._lost = True
        player.env.close()
    first = evaluate(players, act, SEEDS)
    assert evaluate(players, act, SEEDS) == first
    assert not any("bad" in row for row in first)
    for player in players:
        player.close()
