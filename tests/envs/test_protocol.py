"""The rules of an episode: what they may be, and that they are kept."""

import numpy as np
import pytest
from tests.support import env_toys

from dualac.agents.algorithms import ALGORITHMS
from dualac.envs import PROTOCOLS, Protocol, about, find_protocol, make
from dualac.errors import UsageError
from dualac.parts.as_json import from_json, to_json
from dualac.training.evaluation import evaluate, summary
from dualac.training.run import Run

ZERO = np.zeros(2, np.float32)


def lengths(task, protocol, seed=0):
    """How long an episode of no action lasts, and how it ends."""
    env = make(task, protocol=protocol)
    env.reset(seed=seed)
    still = np.zeros(env.action_space.shape, np.float32)
    for step in range(1, 2000):
        _, _, terminated, truncated, _ = env.step(still)
        if terminated or truncated:
            env.close()
            return step, terminated, truncated
    raise AssertionError("no end")


def test_the_paper_is_the_default():
    assert PROTOCOLS["paper"] == Protocol()
    assert find_protocol("official") == Protocol(
        metaworld_cap=500, myosuite_cap=0, myosuite_termination="end"
    )
    with pytest.raises(UsageError, match="there are paper and official; did you mean official"):
        find_protocol("offical")


@pytest.mark.parametrize("protocol", PROTOCOLS.values(), ids=PROTOCOLS)
def test_a_protocol_is_stored_whole(protocol):
    assert from_json(Protocol, to_json(protocol)) == protocol


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"action_repeat": 0}, "action repeat 0"),
        ({"action_repeat": True}, "action repeat True"),
        ({"metaworld_cap": 501}, "metaworld cap 501: give a number of steps, 1 to 500"),
        ({"metaworld_cap": 0}, "metaworld cap 0"),
        ({"myosuite_cap": -1}, "myosuite cap -1"),
        ({"myosuite_termination": "maybe"}, "myosuite termination 'maybe': give ignore or end"),
        ({"success": "most"}, "success 'most': give any or last"),
        (
            {"action_repeat": 8, "time_limit": 5},
            "an action repeat of 8 is longer than a whole episode: the time limit is 5",
        ),
        ({"action_repeat": 150}, "the myosuite cap is 100"),
    ],
)
def test_rules_that_make_no_sense_are_refused(fields, message):
    with pytest.raises(UsageError, match=message):
        Protocol(**fields)


@pytest.mark.parametrize("task", ["metaworld/push", "myosuite/reach-easy"])
def test_a_time_limit_beyond_the_cap_that_the_protocol_sets_is_a_contradiction(task):
    with pytest.raises(
        UsageError,
        match=(
            r"a time limit of 300 contradicts the (metaworld|myosuite) cap of \d+: "
            r".*--protocol\.\w+-cap lengthens"
        ),
    ):
        make(task, protocol=Protocol(time_limit=300))
    assert about("dmc/cheetah-run", Protocol(time_limit=300)).cap == 300


@pytest.mark.parametrize(
    ("task", "protocol", "end"),
    [
        ("metaworld/push", Protocol(), (200, False, True)),
        ("metaworld/push", PROTOCOLS["official"], (500, False, True)),
        ("metaworld/push", Protocol(time_limit=7), (7, False, True)),
        ("myosuite/key-turn-easy", Protocol(), (100, False, True)),
        ("myosuite/key-turn-easy", Protocol(myosuite_cap=30), (30, False, True)),
        ("myosuite/pen-twirl-easy", Protocol(myosuite_cap=0), (50, False, True)),
    ],
)
def test_an_episode_is_as_long_as_the_protocol_says(task, protocol, end):
    assert lengths(task, protocol) == end
    assert about(task, protocol).cap == end[0]


def test_a_task_of_myosuite_ends_itself_only_where_the_protocol_lets_it():
    length, terminated, truncated = lengths(
        "myosuite/pen-twirl-easy", Protocol(myosuite_termination="end")
    )
    assert terminated
    assert not truncated
    assert length < 50
    assert lengths("myosuite/pen-twirl-easy", Protocol()) == (100, False, True)


class Counting(env_toys.Toy):
    """Pays the number of its step and succeeds at the fourth, to end at the fifth."""

    def step(self, action):
        self.steps += 1
        return (
            self.observe(),
            float(self.steps),
            self.steps == 5,
            False,
            {"success": self.steps == 4},
        )


def test_an_action_is_repeated_and_its_rewards_are_summed_up_to_the_end():
    env = make(env_toys.register("Counting-v0", Counting), protocol=Protocol(action_repeat=2))
    env.reset(seed=0)
    steps = [env.step(ZERO) for _ in range(3)]
    assert [step[0].tolist() for step in steps] == [[2, 2], [4, 4], [5, 5]]
    assert [step[1:4] for step in steps] == [
        (3.0, False, False),
        (7.0, False, False),
        (5.0, True, False),
    ]
    assert [step[4]["success"] for step in steps] == [False, True, False]


def test_success_within_a_repeated_action_is_not_lost():
    env = make(env_toys.register("Counting-v0", Counting), protocol=Protocol(action_repeat=5))
    env.reset(seed=0)
    assert env.step(ZERO)[1:] == (15.0, True, False, {"success": True})


def test_caps_count_the_simulators_steps_whatever_the_action_repeat():
    env = make("gym/toys/Capped-v0", protocol=Protocol(action_repeat=2))
    env.reset(seed=0)
    assert [env.step(ZERO)[1:4] for _ in range(3)] == [
        (2.0, False, False),
        (2.0, False, False),
        (1.0, False, True),
    ]


def test_training_counts_single_steps_and_says_so():
    with pytest.raises(UsageError, match=r"--protocol\.action-repeat must be 1 in training"):
        Run("dac", ALGORITHMS["dac"], "dmc/cheetah-run", protocol=Protocol(action_repeat=2))


def test_both_kinds_of_success_are_stored_and_the_protocol_chooses_the_score():
    rows = evaluate(
        [make(env_toys.register("Counting-v0", Counting))], lambda seed: lambda obs: ZERO, [0]
    )
    assert rows == [
        {
            "episode": 0,
            "seed": 0,
            "return": 15.0,
            "length": 5,
            "success": True,
            "success_last": False,
        }
    ]
    assert [summary(rows, rule)["eval/success_rate"] for rule in ("any", "last")] == [1.0, 0.0]
    for rule, outcome in (("any", [False, True, True]), ("last", [False, True, False])):
        so_far, successes = None, []
        for now in (False, True, False):
            so_far = Protocol(success=rule).succeeded(so_far, now)
            successes.append(so_far)
        assert successes == outcome
