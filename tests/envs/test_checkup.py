"""A checkup plays a user's environment and gives each fault a line."""

import warnings
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from tests.support import env_toys

from dualac.envs import Protocol
from dualac.envs.checkup.examine import checkup
from dualac.envs.checkup.plays import Limits
from dualac.errors import UsageError
from dualac.machine.messages import Finding

BOUNDED = spaces.Box(-10, 10, (2,), np.float64)


class Well(env_toys.Toy):
    """A point that noise and actions push about; nothing is wrong with it but what a subclass
    breaks.
    """

    observation_space: spaces.Space[Any] = BOUNDED
    place = np.zeros(2)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        _, info = super().reset(seed=seed)
        self.place = self.np_random.uniform(-1, 1, 2)
        return self.observe(), info

    def observe(self) -> Any:
        return self.place.copy()

    def step(self, action: Any) -> Any:
        self.steps += 1
        self.place = np.clip(
            self.place + 0.1 * action + 0.01 * self.np_random.normal(size=2), -10, 10
        )
        return (
            self.observe(),
            float(-np.abs(self.place).sum()),
            False,
            False,
            {"success": bool(np.abs(self.place).max() < 0.1)},
        )


def examine(kind: type, cap: int | None = 40, **options: Any) -> list[Finding]:
    return list(checkup(env_toys.register(f"Checked{kind.__name__}-v0", kind, cap), **options))


def texts(findings: list[Finding], verdict: str, about: str) -> str:
    """Join the texts of one verdict on one subject."""
    return " | ".join(
        finding.text for finding in findings if (finding.verdict, finding.about) == (verdict, about)
    )


def test_of_an_environment_that_is_well_there_is_nothing_to_say():
    findings = examine(Well)
    assert [(finding.verdict, finding.about) for finding in findings] == [
        ("ok", about)
        for about in (
            "made",
            "gymnasium",
            "ends",
            "seeding",
            "resume",
            "observed",
            "rewards",
            "success",
            "speed",
        )
    ]
    assert findings[0].text == "2 observations, 2 actions in [-1, 1]; 40 steps an episode at most"
    assert texts(findings, "ok", "resume").startswith(
        "20 actions played again in a new environment led to the same bits"
    )


def test_parts_and_boxes_are_named():
    box = spaces.Box(np.array([-2, 0], np.float32), np.array([0.5, 3], np.float32))

    class Parted(Well):
        observation_space = spaces.Dict(joint=BOUNDED, goal=BOUNDED)
        action_space = box

        def observe(self) -> Any:
            return {"joint": self.place * [1, 0], "goal": self.place}

    findings = examine(Parted)
    assert findings[0].text.startswith("4 observations (joint 2, goal 2), 2 actions in [-2, 3]")
    assert (
        texts(findings, "note", "observed")
        == "always the same in joint[1]: nothing can be learned from that"
    )
    assert "no matter here: they are scaled" in texts(findings, "note", "gymnasium")


class Unmade(Well):
    def __init__(self) -> None:
        raise RuntimeError("no licence")


class Falling(Well):
    def step(self, action: Any) -> Any:
        return [][self.steps] if self.steps == 6 else super().step(action)


class Leaving(Well):
    def step(self, action: Any) -> Any:
        raise SystemExit("bye")


class Nan(Well):
    def observe(self) -> Any:
        return np.where(self.steps == 3, np.nan, self.place)


class Unpaid(Well):
    def step(self, action: Any) -> Any:
        observation, _, *rest = super().step(action)
        return observation, np.inf, *rest


class Absurd(Well):
    def step(self, action: Any) -> Any:
        observation, reward, *rest = super().step(action)
        return observation, reward * 1e30, *rest


class Alone(Well):
    """A second one finds its port taken."""

    made: list[object] = []  # noqa: RUF012

    def __init__(self) -> None:
        super().__init__()
        if self.made:
            raise OSError("port in use")
        self.made.append(self)


class Settling(Well):
    """Knows its sizes only when it is reset."""

    def reset(self, **options: Any) -> Any:
        self.action_space = spaces.Box(-2.0, 2.0, (2,), np.float32)
        return super().reset(**options)


WRONG = [
    (Unmade, "made", "cannot be made: no licence (RuntimeError)"),
    (env_toys.Seedless, "made", "its reset takes no seed; port it"),
    (env_toys.OldStep, "played", "its step answers with 4 values; port it"),
    (env_toys.OldReset, "played", "reset(): .*no (observation, info) pair"),
    (env_toys.Lying, "played", "step 1: .*observed 3 numbers where its space declares 2"),
    (
        Falling,
        "played",
        "step 7 raised IndexError: list index out of range (test_checkup.py, line ",
    ),
    (Leaving, "played", "step 1 raised SystemExit: bye"),
    (
        Settling,
        "played",
        "acts in Box(-2.0, 2.0, (2,), float32) after reset and declared Box(-1.0, 1.0, (2,), "
        "float32) when it was made: set its",
    ),
    (Alone, "played", "a second one cannot be made beside it, and training needs two"),
    (Nan, "observed", "NaN or infinity in number 0, number 1"),
    (Unpaid, "rewards", "NaN or infinity"),
    (Absurd, "rewards", "learning diverges"),
]


@pytest.mark.parametrize(
    ("kind", "about", "text"), WRONG, ids=[kind.__name__ for kind, _, _ in WRONG]
)
def test_what_would_stop_training_is_wrong(kind, about, text):
    Alone.made.clear()
    findings = examine(kind)
    for piece in text.split(".*"):
        assert piece in texts(findings, "wrong", about)
    assert all("\n" not in finding.text for finding in findings)


@pytest.mark.parametrize("limit", [0, 30])
def test_an_episode_without_an_end_is_a_warning_until_something_ends_it(limit):
    findings = examine(
        Well, None, protocol=Protocol(time_limit=limit), limits=Limits(uncapped_steps=1500)
    )
    if limit:
        assert "5 of 5 episodes ended, after 30 steps: 0 terminated, 5 truncated" in texts(
            findings, "ok", "ends"
        )
    else:
        assert "within 1500 steps, and training cuts it after 10000" in texts(
            findings, "warning", "ends"
        )
        assert "max_episode_steps=N, or train with --time-limit N" in texts(
            findings, "warning", "ends"
        )


class Limited(Well):
    """Its time limit is a termination, as in the days before Gymnasium."""

    def step(self, action: Any) -> Any:
        observation, reward, _, _, info = super().step(action)
        return observation, reward, self.steps >= 30, False, info


class Sometimes(Limited):
    def step(self, action: Any) -> Any:
        observation, reward, over, _, info = super().step(action)
        return (
            observation,
            reward,
            over or self.place[0] > 0.5,
            False,
            info | {"TimeLimit.truncated": over},
        )


class Global(Well):
    """Draws its start from where no seed reaches."""

    def observe(self) -> Any:
        return self.place + (np.random.uniform(size=2) if self.steps == 0 else 0)


class Noisy(Well):
    def observe(self) -> Any:
        return self.place + (np.random.uniform() if self.steps == 9 else 0)


class Remembering(Well):
    """Grows with each third of its episodes."""

    episodes = 0

    def reset(self, **options: Any) -> Any:
        self.episodes += 1
        return super().reset(**options)

    def observe(self) -> Any:
        return self.place + self.episodes // 7


class Worn(Well):
    """Wears out with every step of its life."""

    wear = 0.0

    def step(self, action: Any) -> Any:
        self.wear += 0.01
        return super().step(action - self.wear)


class Individual(Well):
    """Each instance has a mass of its own, drawn when it is made."""

    def __init__(self) -> None:
        super().__init__()
        self.mass = np.random.uniform()

    def observe(self) -> Any:
        return self.place * self.mass


class Deaf(Well):
    def step(self, action: Any) -> Any:
        return super().step(0 * action)


class Large(Well):
    observation_space = env_toys.PAIR

    def observe(self) -> Any:
        return self.place * [1, 1e5]


class Beyond(Well):
    observation_space = spaces.Box(-0.1, 0.1, (2,), np.float64)


class Undeclared(Well):
    observation_space = spaces.Dict(place=BOUNDED)

    def observe(self) -> Any:
        return {"place": self.place, "goal": self.place}


class Costly(Well):
    def step(self, action: Any) -> Any:
        observation, reward, *rest = super().step(action)
        return observation, reward * 1e9, *rest


WARNED = [
    (
        Limited,
        "ends",
        "each of 5 episodes terminated at step 30, whatever the actions: if that is a time limit, "
        "answer truncated=True",
    ),
    (Sometimes, "ends", "info['TimeLimit.truncated'] is the old way"),
    (Global, "seeding", "gave another first observation: draw from self.np_random only"),
    (Global, "resume", "not to the bit, for want of seeding"),
    (Noisy, "seeding", "gave another step 9"),
    (
        Remembering,
        "seeding",
        "after other episodes the same seed and actions gave another first observation: something "
        "is left from before",
    ),
    (
        Worn,
        "seeding",
        "after other episodes the same seed and actions gave another step 1: something is left "
        "from before",
    ),
    (Worn, "resume", "not to the bit"),
    (Individual, "resume", "a new environment gave another first observation"),
    (Deaf, "actions", "does step() use its action?"),
    (Large, "observed", "in number 1: nothing here normalises"),
    (Beyond, "observed", "beyond the bounds that its space declares"),
    (Beyond, "gymnasium", "its checker stops: "),
    (Undeclared, "observed", "goal is not declared in its space, and so not learned from"),
    (Costly, "rewards", "learning may diverge; divide them"),
]


@pytest.mark.parametrize(
    ("kind", "about", "text"), WARNED, ids=[f"{kind.__name__}-{about}" for kind, about, _ in WARNED]
)
def test_what_training_survives_is_a_warning(kind, about, text):
    findings = examine(kind)
    assert text in texts(findings, "warning", about)
    assert "wrong" not in {finding.verdict for finding in findings}


class Single(Well):
    """As float32 as its space is not, always alike, and silent on success."""

    observation_space = spaces.Box(-10, 10, (2,), np.float32)

    def step(self, action: Any) -> Any:
        warnings.warn("the motor\nis old", stacklevel=1)
        print("and loud")
        self.steps += 1
        return self.observe(), 0.0, False, False, {}

    def observe(self) -> Any:
        return np.full(2, self.steps, np.float64) / 10


@pytest.mark.parametrize(
    ("about", "text"),
    [
        ("seeding", "another seed gives no other one"),
        ("observed", "float64, while its space declares float32 (no matter here"),
        ("rewards", "always 0 under random actions"),
        ("success", "not reported: with info['success'] or info['is_success']"),
        ("says", "the motor is old"),
    ],
)
def test_what_is_good_to_know_is_a_note(about, text, capfd):
    assert text in texts(examine(Single), "note", about)
    assert capfd.readouterr() == ("", "")


def test_a_slow_environment_is_not_played_to_its_end():
    seconds = iter(np.arange(0, 1e6, 0.3))
    findings = examine(Well, 1000, limits=Limits(clock=lambda: float(next(seconds))))
    assert (
        texts(findings, "ok", "ends")
        == "episodes are cut at 1000 steps; none ended before 2, where this examination left them"
    )
    assert "minutes" in texts(findings, "note", "speed")


def test_a_name_that_is_none_is_refused_not_examined():
    with pytest.raises(UsageError, match="did you mean gym/Pendulum-v1"):
        list(checkup("gym/Pendulm-v1"))


@pytest.mark.parametrize(
    "task", [pytest.param("dmc/pendulum-swingup", marks=pytest.mark.suite), "gym/Pendulum-v1"]
)
def test_tasks_of_the_suites_are_well(task):
    assert not {"wrong", "warning"} & {finding.verdict for finding in checkup(task)}
