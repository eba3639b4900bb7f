"""Evaluations in several environments at once: the same rows, and only where it pays."""

import fcntl
import os
import tempfile
import threading
import time

import numpy as np
import pytest
from tests.support import env_toys, toys

from dualac.envs import Protocol
from dualac.envs.faults.guarded import Guarded
from dualac.machine.cores import _lease, borrowed, usable_cores
from dualac.training.evaluation import COMPARED, Evaluator, ValueComparison, evaluate, play

SEEDS = [3, 1, 4, 1, 5]


def act(obs):
    return np.tanh(obs[:2])


def policy(seed):
    return act


def ignore(seed, error):
    pass


def guarded(toy="Drift"):
    return Guarded(toys.task(toy), Protocol())


@pytest.fixture
def other_core(monkeypatch, tmp_path):
    """Return a core for which nobody has a lease: leases are files in a folder of this test."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return usable_cores()[-1]


def test_several_players_give_the_rows_of_one_in_the_order_of_the_seeds():
    players = [guarded() for _ in range(3)]
    alone = evaluate(players[:1], policy, SEEDS)
    assert [row["seed"] for row in alone] == SEEDS
    assert evaluate(players, policy, SEEDS) == alone


def test_a_broken_episode_is_named_by_its_seed_however_many_play():
    reported = []
    for players in (
        [guarded("RaiseInStepAlways")],
        [guarded("RaiseInStepAlways"), guarded("RaiseInStepAlways")],
    ):
        seeds = []
        rows = evaluate(players, policy, SEEDS, lambda seed, error, seeds=seeds: seeds.append(seed))
        reported.append((seeds, [row["bad"] for row in rows]))
    assert reported[0] == reported[1] == (SEEDS, [True] * len(SEEDS))


def test_a_long_evaluation_is_helped_on_a_core_that_is_idle_and_gives_the_same_rows(
    other_core,
):
    short, long = Evaluator(guarded(), [other_core]), Evaluator(guarded(), [other_core], long=0.0)
    alone = short.evaluate(policy, SEEDS, ignore)
    assert short._beside == []  # it is over before help could be there
    assert long.evaluate(policy, SEEDS, ignore) == alone
    (helper,) = long._beside
    assert os.sched_getaffinity(helper.unwrapped._process.pid) == {other_core}
    short.close()
    long.close()


def test_an_evaluation_goes_on_beside_its_caller_on_an_idle_core_and_gives_the_same_rows(
    other_core,
):
    evaluator, seen = Evaluator(guarded(), [other_core], short=0.0), []
    assert not evaluator.begin(7, policy, SEEDS)  # nothing is known yet of how long it takes
    alone = evaluator.evaluate(policy, SEEDS, ignore)

    def watched(obs):
        seen.append((os.sched_getaffinity(0), _lease(other_core)))
        return act(obs)

    assert evaluator.begin(7, lambda seed: watched, SEEDS)
    assert evaluator.pending == 7
    assert evaluator.collect(ignore) == alone
    assert evaluator.pending is None
    assert {(frozenset(cores), lease) for cores, lease in seen} == {(frozenset({other_core}), None)}
    lease = _lease(other_core)
    assert lease is not None
    assert not evaluator.begin(8, policy, SEEDS)  # taken
    os.close(lease)
    evaluator.close()


def test_what_broke_beside_the_learner_is_reported_when_it_is_collected(other_core):
    evaluator = Evaluator(guarded("RaiseInStepAlways"), [other_core], short=-1.0)
    broken = []
    assert evaluator.begin(7, policy, SEEDS)
    while not evaluator.ready:
        time.sleep(0.01)
    assert broken == []
    evaluator.collect(lambda seed, error: broken.append(seed))
    assert broken == SEEDS
    evaluator.close()


def test_closing_leaves_an_evaluation_unfinished(other_core):
    evaluator, begun = Evaluator(guarded(), [other_core], short=-1.0), threading.Event()

    def slow(obs):
        begun.set()
        time.sleep(0.05)
        return act(obs)

    assert evaluator.begin(7, lambda seed: slow, list(range(1000)))
    assert begun.wait(60.0)
    evaluator.close()
    assert sum("bad" in row for row in evaluator.collect(ignore)) > 900


@pytest.mark.parametrize("why", ["short", "taken", "unpinned"])
def test_no_helper_is_made_where_it_does_not_pay(other_core, why):
    others = [] if why == "unpinned" else [other_core]
    evaluator = Evaluator(guarded(), others, long=5.0 if why == "short" else 0.0)
    lease = _lease(other_core) if why == "taken" else None
    evaluator.evaluate(policy, SEEDS, ignore)
    assert evaluator._beside == []
    if lease is not None:
        os.close(lease)
    evaluator.close()


def test_each_episode_is_played_by_a_policy_that_begins_with_its_seed():
    begun = []

    def beginning(seed):
        begun.append(seed)
        return act

    evaluate([guarded()], beginning, SEEDS)
    assert begun == SEEDS


def test_a_borrowed_core_is_given_back(other_core):
    with borrowed(1, [other_core]) as cores:
        assert cores == [other_core]
        with borrowed(1, [other_core]) as more:
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
    first = evaluate(players, policy, SEEDS)
    assert evaluate(players, policy, SEEDS) == first
    assert not any("bad" in row for row in first)
    for player in players:
        player.close()


def test_an_episode_without_an_end_is_cut_in_an_evaluation():
    env = Guarded(env_toys.register("Endless-v0", env_toys.Toy), Protocol())
    (row,) = evaluate([env], policy, [1])
    assert (row["length"], row["return"]) == (10_000, 10_000.0)


def test_of_a_long_episode_the_first_steps_are_kept_to_compare_and_no_more():
    """Their returns are then those of an episode that was cut."""
    kept = []

    def value(obs, actions):
        kept.append(len(obs))
        return np.ones(len(obs))

    task = env_toys.register("Long-v0", env_toys.Solved, cap=COMPARED + 50)
    env = Guarded(task, Protocol())
    row, _ = play(env, act, 1, comparison=ValueComparison(value, 0.5))
    assert (row["length"], row["success"], row["success_last"]) == (COMPARED + 50, True, True)
    assert kept[0] < COMPARED
    assert row["discounted_return"] == pytest.approx(2.0, rel=0.05)
