"""What the loop does with an agent: compile it once, reset it, give it the returns of episodes."""

import dataclasses
from collections import Counter
from pathlib import Path

import jax
import numpy as np
import pytest
import safetensors.numpy
from tests.support.runs import (
    a_run,
    agent_of,
    assert_same_run,
    events,
    extended,
    go_on,
    last,
    manifest,
    noting,
    python,
    rows,
    same,
    trained,
)

from dualac.agents.agent import make_agent
from dualac.agents.algorithms import ALGORITHMS
from dualac.parts.paths import replaced
from dualac.training.checkpoint import Snapshot
from dualac.training.learner import UPDATE, Learner, UpdateInputs
from dualac.training.loop import train
from dualac.training.rollout import Rollout
from dualac.training.run import Flags, prepare
from dualac.types import Agent, Spec, Transition

SPEC = Spec(3, 2)
BATCH = Transition(*(np.ones((2, 8, *shape), np.float32) for shape in ((3,), (2,), (), (), (3,))))  # pyright: ignore[reportArgumentType]


def counting(agent: Agent, traces: Counter[str]) -> Agent:
    """Return the agent whose functions count how often they are traced."""

    def watch(function, kind):
        def call(*args, **kwargs):
            traces[kind] += 1
            return function(*args, **kwargs)

        return call

    return Agent(*(watch(function, kind) for kind, function in agent._asdict().items()))


@pytest.mark.parametrize("name", ["dac", "sac"])
def test_nothing_is_traced_again_after_its_first_call(name, tmp_path):
    """Not by a reset, an episode's end, a row of the log, an evaluation, nor by a resumed run."""
    traces: Counter[str] = Counter()
    learners = []

    class Noting(Learner):
        """A learner that notes what was traced before the last call that learned."""

        def __init__(self, runs, spec):
            super().__init__(runs, spec, counting(make_agent(runs[0].algorithm, spec), traces))
            self.before_learning, self.updates_traced = Counter(), []
            learners.append(self)

        def learn(self, batches, step):
            super().learn(batches, step)
            self.updates_traced.append(traces["update"])

    run = a_run(name, eval_every=8)
    path = trained(extended(run, 32), tmp_path, make_learner=Noting)
    first = dict(traces)
    prepare(run, tmp_path)
    go_on(path, make_learner=Noting)
    for learner, calls in zip(learners, (1 + 23, 1 + 8), strict=True):  # one is ahead
        assert len(learner.updates_traced) == calls
        assert len(set(learner.updates_traced)) == 1
    # Once for what it reads, once to be compiled.
    assert first["explore"] == first["exploit"] == first["value"] == 2
    assert first["observe_return"] == first["reset"] == 1


def test_what_users_run_is_what_tests_run(golden, tmp_path):
    """A whole training by the library's own `train`, with nothing injected."""
    path = prepare(a_run(), tmp_path)
    train([path], lambda message: None)
    assert_same_run(path, golden(a_run()))


@pytest.mark.table
@pytest.mark.parametrize("name", list(ALGORITHMS))
def test_every_row_goes_on_to_the_bit_where_it_was_left(name, golden, tmp_path):
    """Through a reset, and for those whose actors wait in the middle of waiting."""
    run = a_run(name, eval_every=8, resets=(20,), replay_ratio=3)
    path = trained(extended(run, 24), tmp_path)
    trained(run, tmp_path)
    assert same(agent_of(last(path)), agent_of(last(golden(run))))


def test_the_updates_are_counted_through_the_run_so_that_actors_wait_no_longer_than_they_should():
    """Two updates a step and a delay of three: the first step that learns moves no actor, the
    second does with its first update.
    """
    row = replaced(a_run("td3").algorithm, {"policy.delay": 3})
    run = dataclasses.replace(a_run(), algorithm=row)
    learner = Learner([run], SPEC)
    moved = []
    for step in range(10, 16):
        before = learner.save(0)["agent.policy.actor.params.params.mean.bias"]
        learner.learn([BATCH], step)
        moved.append(
            not np.array_equal(
                before, learner.save(0)["agent.policy.actor.params.params.mean.bias"]
            )
        )
    assert moved == [False, True, True, False, True, True]
    tally = learner.tally(0)
    assert (tally["actor_loss"][1], tally["critic_loss"][1]) == (4, 12)
    assert np.isfinite(learner.metrics(0)["train/actor_loss"])


def test_what_no_update_measured_is_left_out():
    learner = Learner([a_run("td3")], SPEC)
    learner.learn([jax.tree.map(lambda array: array[:1], BATCH)], 10)
    assert "train/critic_loss" in learner.metrics(0)
    assert "train/actor_loss" not in learner.metrics(0)


def leaves(learner: Learner) -> dict[str, np.ndarray]:
    return {name: array for name, array in learner.save(0).items() if name.startswith("agent.")}


def kernels(learner: Learner) -> list[np.ndarray]:
    """Return the initial weights that are drawn; all else starts the same always."""
    return [
        array
        for name, array in sorted(leaves(learner).items())
        if name.endswith("kernel") and ".adam." not in name
    ]


@pytest.mark.parametrize("name", ["dac", "sac"])
def test_a_reset_brings_weights_unlike_the_first_and_unlike_those_of_another_reset(name):
    learner = Learner([a_run(name)], SPEC)
    drawn = [kernels(learner)]
    for step in (25, 30):
        learner.reset(step, same_init=False)
        drawn.append(kernels(learner))
    assert len(drawn[0]) > 0
    for one, other in ((0, 1), (0, 2), (1, 2)):
        assert not any(np.array_equal(a, b) for a, b in zip(drawn[one], drawn[other], strict=True))


def test_a_reset_starts_every_optimiser_and_scalar_afresh(golden):
    """All that learned is gone: the moments, the counts, the temperature, the targets."""
    learner = Learner([a_run("dac")], SPEC)
    fresh = leaves(learner)
    from dualac.training.checkpoint import Checkpoints

    path = golden(a_run("dac"))
    learner.restore([Checkpoints(path, a_run("dac").identity()).peek()[0]])
    learned = leaves(learner)
    assert all(
        not np.array_equal(fresh[name], learned[name])
        for name in fresh
        if fresh[name].size > 1 or name.endswith("count")
    )
    learner.reset(25, same_init=True)
    assert same(leaves(learner), fresh)


def test_a_reset_to_the_same_init_is_the_first_state_to_the_bit():
    learner = Learner([a_run("dac", reset_same_init=True)], SPEC)
    first = leaves(learner)
    learner.reset(25, same_init=True)
    assert same(leaves(learner), first)


@pytest.mark.parametrize(
    ("schedule", "steps"),
    [
        ({"resets": (15, 25)}, [15, 25]),
        ({"resets": (), "reset_every": 12}, [12, 24, 36]),
        ({"resets": (15,), "reset_every": 15}, [15, 30]),
        ({"resets": ()}, []),
    ],
    ids=["list", "every", "both", "never"],
)  # fmt: skip
def test_resets_come_by_list_and_by_every_so_many_steps(schedule, steps, tmp_path):
    calls = []
    path = trained(a_run(**schedule), tmp_path, make_learner=noting(calls, "reset"))
    assert [args[0] for _, args, _ in calls] == steps
    assert [event["step"] for event in events(path, "reset")] == steps
    assert manifest(last(path))["added"] == 40  # the replay stays


def test_the_run_knows_whether_resets_return_to_the_first_weights(tmp_path):
    calls = []
    make_learner = noting(calls, "reset")
    trained(a_run(reset_same_init=True), tmp_path / "same", make_learner=make_learner)
    trained(a_run(), tmp_path / "fresh", make_learner=make_learner)
    assert [kwargs for _, _, kwargs in calls] == [{"same_init": True}, {"same_init": False}]


@pytest.mark.parametrize("schedule", [{"resets": (40,)}, {"resets": (), "reset_every": 40}])
def test_a_reset_due_at_the_last_step_does_not_destroy_the_final_policy(schedule, golden, tmp_path):
    never, due = golden(a_run(resets=())), trained(a_run(**schedule), tmp_path)
    assert same(agent_of(last(never)), agent_of(last(due)))
    assert (never / "eval.jsonl").read_bytes() == (due / "eval.jsonl").read_bytes()


def test_an_extended_run_resets_after_what_was_its_last_step(golden, tmp_path):
    run = a_run(resets=(24,), eval_every=8)
    path = trained(extended(run, 24), tmp_path)
    assert not events(path, "reset")
    trained(run, tmp_path)
    assert [event["step"] for event in events(path, "reset")] == [24]
    assert same(agent_of(last(path)), agent_of(last(golden(run))))


def test_learning_starts_after_warm_up_and_not_before(golden):
    path = golden(a_run())
    by_step = {row["step"]: row for row in rows(path, "train.jsonl")}
    assert by_step[7]["train/n_updates"] == 0
    assert "train/critic_loss" not in by_step[7]
    assert by_step[14]["train/n_updates"] == 5 * 2
    assert np.isfinite(by_step[14]["train/critic_loss"])


def test_warm_up_acts_at_random_and_the_policy_afterwards(tmp_path):
    calls = []
    trained(a_run(), tmp_path, make_learner=noting(calls, "explore"))
    assert [args[-1] for _, args, _ in calls] == list(range(10, 41))


def test_every_episode_that_ends_is_named_to_the_agent_with_its_return(tmp_path):
    calls = []
    path = trained(a_run(), tmp_path, make_learner=noting(calls, "observe_return"))
    returns = [value for _, args, _ in calls for value in args[0] if value is not None]
    facts = manifest(last(path))["facts"]
    assert returns == [episode["return"] for episode in facts["recent"]]
    assert len(returns) == facts["episodes"] > 0


def test_acting_is_the_same_for_one_observation_alone_and_in_a_learner_that_was_restored(golden):
    from dualac.training.checkpoint import Checkpoints

    learner = Learner([a_run()], SPEC)
    learner.restore([Checkpoints(golden(a_run()), a_run().identity()).peek()[0]])
    obs = np.ones(3, np.float32)
    assert np.array_equal(learner.exploit(0)(5)(obs), learner.exploit(0)(6)(obs))
    assert jax.tree.all(
        jax.tree.map(lambda leaf: bool(np.isfinite(leaf).all()), learner.member_state(0))
    )


@pytest.mark.parametrize("seeds", [1, 2])
def test_what_is_saved_is_where_it_lies_and_what_acts_is_a_copy(seeds):
    learner = Learner([a_run(seed=seed) for seed in range(seeds)], SPEC)
    obs, last = np.ones(3, np.float32), seeds - 1
    one, again = learner.save(last), learner.save(last)
    assert all(
        np.shares_memory(one[name], again[name])
        for name in one
        if name.startswith("agent.") and one[name].size
    )
    acts, values = learner.exploit(last)(0), learner.value(last)
    action = acts(obs)
    value = values(obs[None], action[None])
    learner.learn([BATCH] * seeds, 10)
    now = learner.save(last)
    assert not all(np.array_equal(one[name], now[name]) for name in one)
    assert all(
        np.array_equal(one[name], again[name]) for name in one
    )  # whoever holds on to it still has what was
    assert np.array_equal(acts(obs), action) and np.array_equal(
        values(obs[None], action[None]), value
    )
    assert not np.array_equal(learner.exploit(last)(0)(obs), action)


def test_a_checkpoint_of_a_version_that_measured_less_can_be_restored():
    learner, other = Learner([a_run()], SPEC), Learner([a_run()], SPEC)
    learner.learn([BATCH], 10)
    saved = {
        name: array.copy()
        for name, array in learner.save(0).items()
        if name != "tally.actor_grad_norm"
    }
    other.restore([Snapshot(10, saved | {"tally.no_longer_asked": np.ones(2, np.float32)}, {})])
    assert other.metrics(0) == {
        name: value for name, value in learner.metrics(0).items() if name != "train/actor_grad_norm"
    }
    assert all(np.array_equal(other.save(0)[name], array) for name, array in saved.items())


def test_a_pack_knows_which_of_its_seeds_diverged():
    runs = [a_run(seed=seed, pack=(3, 4)) for seed in (3, 4)]
    learner = Learner(runs, SPEC)
    learner.learn([BATCH] * 2, 10)
    assert learner.diverged() == []
    learner.learn([BATCH, BATCH._replace(reward=np.full((2, 8), np.inf, np.float32))], 11)
    assert learner.diverged() == [1]


def learned_by(
    threads: int, name: str, file: Path, **env: str
) -> tuple[str, dict[str, np.ndarray]]:
    done = python("-m", "tests.support.helped", str(threads), file, name, **env)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip(), safetensors.numpy.load_file(file)


@pytest.mark.parametrize(
    "name",
    [
        "dac",
        *(
            pytest.param(name, marks=pytest.mark.table)
            for name in ("td3", "gpl", "redq", "dac-both")
        ),
    ],
)
def test_two_threads_learn_what_one_learns_to_the_bit_and_xla_alone_to_rounding(
    name: str, tmp_path
):
    (how, one), (_, two) = (
        learned_by(threads, name, tmp_path / str(threads)) for threads in (1, 2)
    )
    (how_else, by_xla) = learned_by(2, name, tmp_path / "xla", DUALAC_KERNELS="xla")
    assert (how, how_else) == ("helped", "by XLA")
    assert one.keys() == two.keys() == by_xla.keys()
    for leaf, array in one.items():
        np.testing.assert_array_equal(two[leaf], array, err_msg=leaf)
        np.testing.assert_allclose(by_xla[leaf], array, rtol=2e-3, atol=1e-4, err_msg=leaf)


@pytest.mark.parametrize("pack", [(), (3, 4)], ids=["alone", "pack"])
def test_learning_from_a_replay_on_the_device_moves_nothing_to_it_or_back(pack, tmp_path):
    """From the minibatches to the metrics: a device that learns never waits for the host."""
    runs = [a_run("top", seed=seed, pack=pack) for seed in pack or (3,)]
    rollouts = [Rollout(prepare(run, tmp_path), Flags(replay_in="device")) for run in runs]
    learner = Learner(runs, rollouts[0].spec)
    for member in rollouts:
        member.begin_episode(0)
        for step in range(20):
            member.step(member.random_action(step), step)
    batches = [[member.replay.sample(2, 8) for member in rollouts] for _ in range(3)]
    together = [
        Transition._make(map(learner._together, zip(*each, strict=True))) for each in batches
    ]
    learner.learn(batches[0], 10)  # which compiles
    now = jax.device_put(np.uint32(11))
    with jax.transfer_guard("disallow_explicit"):
        for batch in together[1:]:
            learner._held, learner._tally, learner._diverged = learner._learn(
                learner._held, learner._tally, learner._keys[UPDATE], UpdateInputs(batch, now)
            )
        with pytest.raises(Exception, match="Disallowed host-to-device transfer"):
            learner.learn(batches[0], 12)  # the number of the step is the host's
    assert learner.diverged() == []
    for member in rollouts:
        member.close()
