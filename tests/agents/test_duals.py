"""Scalars that hold a statistic at its target."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.support.tiny import compiled

from dualac.agents.duals import Held, Learnt
from dualac.errors import UsageError

FLOOR = -0.2


def adjusted(dual, slack, updates, floor=0.0):
    """Its value before each update and after the last, with the same slack each time."""

    @compiled
    def run(state):
        def step(state, _):
            return dual.adjust(state, jnp.float32(slack)), dual.read(state, floor)

        state, seen = jax.lax.scan(step, state, length=updates)
        return jnp.append(seen, dual.read(state, floor))

    return np.asarray(run(dual.init(floor)), np.float64)


def test_a_held_scalar_never_moves():
    assert set(adjusted(Held(0.25), 1e6, 5)) == {0.25}
    assert Held(0.25).adjust((), jnp.float32(3.0)) == ()


def test_a_held_scalar_ignores_the_floor():
    assert float(Held(0.25).read((), -7.0)) == 0.25


@pytest.mark.parametrize("start", [1.0, 0.25, 3e-4, 100.0])
@pytest.mark.parametrize("bounded", [False, True])
def test_a_learnt_scalar_starts_at_its_start(start, bounded):
    dual = Learnt(start, bounded=bounded)
    assert float(dual.read(dual.init())) == pytest.approx(start, rel=2e-6)


@pytest.mark.parametrize("bounded", [False, True])
def test_a_learnt_scalar_starts_at_its_start_above_any_floor(bounded):
    dual = Learnt(1.0, bounded=bounded)
    assert float(dual.read(dual.init(FLOOR), FLOOR)) == pytest.approx(1.0, rel=2e-6)


@pytest.mark.parametrize(("start", "raw"), [(1.0, 0.14384104), (0.25, -0.01557776)])
def test_the_bounded_form_starts_where_its_inverse_says(start, raw):
    assert float(Learnt(start, bounded=True).init().params) == pytest.approx(raw, abs=1e-8)


def test_the_bounded_form_has_its_known_bounds():
    dual = Learnt(1.0, bounded=True)
    low, high = (
        float(dual.read(dual.init()._replace(params=jnp.float32(raw)))) for raw in (-30.0, 30.0)
    )
    assert low == pytest.approx(4.53999e-05, rel=1e-5)
    assert high == pytest.approx(1808.04241446, rel=1e-5)


@pytest.mark.parametrize("bounded", [False, True])
def test_positive_slack_lowers_and_negative_slack_raises(bounded):
    dual = Learnt(1.0, lr=1e-2, bounded=bounded)
    assert (np.diff(adjusted(dual, 0.3, 10)) < 0).all()
    assert (np.diff(adjusted(dual, -0.3, 10)) > 0).all()


@pytest.mark.parametrize("slack", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize("sign", [-1, 1])
def test_it_moves_by_its_learning_rate_in_log_space_whatever_the_scale_of_the_slack(slack, sign):
    dual = Learnt(1.0, lr=1e-3)
    steps = np.diff(np.log(adjusted(dual, sign * slack, 100)))
    np.testing.assert_allclose(steps, -sign * 1e-3, rtol=0.1)


def test_the_optimism_s_distance_from_the_pessimist_moves_by_the_learning_rate():
    steps = np.diff(np.log(adjusted(Learnt(1.0, lr=1e-3), 0.5, 200, FLOOR) - FLOOR))
    np.testing.assert_allclose(steps, -1e-3, rtol=0.1)


@pytest.mark.parametrize("lr", [1e-2, 1.0])
def test_a_learnt_scalar_never_falls_below_its_floor(lr):
    values = adjusted(Learnt(1.0, lr=lr), 10.0, 2000, FLOOR)
    assert (values >= np.float32(FLOOR)).all()
    assert values[-1] < 0.0


def test_a_learnt_scalar_comes_back_from_its_floor():
    dual = Learnt(1.0, lr=1e-2)
    state = dual.init(FLOOR)._replace(params=jnp.float32(-20.0))
    risen = compiled(
        lambda state: jax.lax.fori_loop(
            0, 1000, lambda _, state: dual.adjust(state, jnp.float32(-10.0)), state
        )
    )(state)
    assert float(risen.params) > -15.0


@pytest.mark.parametrize("bounded", [False, True])
def test_no_gradient_flows_through_the_slack(bounded):
    dual = Learnt(1.0, bounded=bounded)
    state = dual.init()
    assert float(jax.grad(lambda slack: dual.adjust(state, slack).params)(jnp.float32(0.7))) == 0.0


@pytest.mark.parametrize(
    "wrong",
    [
        dict(start=math.nan),
        dict(start=math.inf),
        dict(start=1.0, lr=0.0),
        dict(start=1.0, lr=-1e-3),
        dict(start=1.0, lr=math.nan),
        dict(start=1.0, b1=1.0),
        dict(start=1.0, b1=-0.1),
        dict(start=1.0, b1=math.nan),
    ],
)
def test_senseless_learnt_scalars_are_refused(wrong):
    with pytest.raises(UsageError, match="Learnt"):
        Learnt(**wrong)


@pytest.mark.parametrize(
    ("value", "floor"),
    [
        (math.nan, 0.0),
        (math.inf, 0.0),
        (-math.inf, 0.0),
        (-0.1, 0.0),
        (-0.3, -0.2),
        (math.nan, -0.2),
    ],
)
def test_a_held_scalar_must_be_finite_and_not_below_its_floor(value, floor):
    with pytest.raises(UsageError, match="finite"):
        Held(value).check(floor)


@pytest.mark.parametrize(("value", "floor"), [(0.0, 0.0), (0.25, 0.0), (-0.2, -0.2), (-0.1, -0.2)])
def test_a_held_scalar_may_stand_on_its_floor(value, floor):
    Held(value).check(floor)


@pytest.mark.parametrize(
    ("dual", "floor"),
    [
        (Learnt(0.0), 0.0),
        (Learnt(-0.2), -0.2),
        (Learnt(-1.0), -0.2),
        (Learnt(2e3, bounded=True), 0.0),
    ],
)
def test_a_start_outside_the_range_is_refused(dual, floor):
    with pytest.raises(UsageError, match="must start between"):
        dual.check(floor)
