"""The replay against a model of it that fits on one line: a deque with a longest length."""

import itertools
from collections import deque

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.runs import a_run, go_on

from dualac.errors import UsageError
from dualac.training.replay import Replay, replay_bytes
from dualac.training.rollout import Rollout
from dualac.training.run import prepare
from dualac.training.storage import DeviceRing, Ring
from dualac.types import Spec

SPEC = Spec(3, 2)
capacities, counts = st.integers(1, 12), st.integers(0, 40)


def transition(number: int) -> tuple:
    """All five fields tell which one it is. Each leads to what the next begins with, but for every
    third, with which an episode ends.
    """
    return (
        np.full(3, number),
        np.full(2, number + 0.25),
        float(number),
        float(number % 2),
        np.full(3, number + (0.5 if number % 3 == 2 else 1.0)),
    )


def filled(capacity: int, count: int, seed: int = 0) -> tuple[Replay, deque]:
    replay, model = Replay(capacity, SPEC, np.random.SeedSequence(seed)), deque(maxlen=capacity)
    for number in range(count):
        replay.add(*transition(number))
        model.append(number)
    return replay, model


def kept(replay: Replay) -> list[int]:
    """All that it keeps, oldest first, put together from what `read` tells."""
    saved = replay.read(replay.oldest(), replay.added)
    led = np.concatenate([saved["obs"][1:], saved["led"][-1:]])
    led[saved["ends"]] = saved["led"]
    return numbers(
        {name: saved[name] for name in ("obs", "action", "reward", "discount")} | {"next_obs": led}
    )


def numbers(fields: dict[str, np.ndarray]) -> list[int]:
    """Which transitions these are; a field out of line with the others is an error."""
    found = fields["reward"].astype(int)
    for where in np.ndindex(found.shape):
        assert all(
            np.array_equal(field[where], value)
            for field, value in zip(fields.values(), transition(found[where]), strict=True)
        )
    return found.reshape(-1).tolist()


@given(capacities, counts)
def test_it_keeps_the_newest_in_order(capacity, count):
    replay, model = filled(capacity, count)
    assert (replay.size, replay.added, replay.oldest()) == (len(model), count, count - len(model))
    assert kept(replay) == list(model)


@given(capacities, st.integers(1, 40), st.integers(1, 3), st.integers(1, 9))
def test_samples_are_stored_transitions_with_their_fields_in_line(
    capacity, count, minibatches, batch_size
):
    replay, model = filled(capacity, count)
    batch = replay.sample(minibatches, batch_size)
    assert batch.obs.shape == (minibatches, batch_size, 3)
    assert batch.reward.shape == (minibatches, batch_size)
    assert all(leaf.dtype == np.float32 for leaf in batch)
    assert set(numbers(batch._asdict())) <= set(model)


def test_samples_are_uniform_over_all_that_is_kept():
    replay, model = filled(10, 25)
    seen = np.bincount(replay.sample(100, 100).reward.astype(int).reshape(-1), minlength=25)[
        list(model)
    ]
    assert seen.sum() == 10_000
    assert abs(seen - 1000).max() < 200  # six standard deviations


def test_what_was_sampled_is_not_changed_by_what_comes_after():
    replay, _ = filled(4, 4)
    batch = replay.sample(1, 16)
    before = [leaf.copy() for leaf in batch]
    for number in range(100, 104):
        replay.add(*transition(number))
    assert all(np.array_equal(leaf, copy) for leaf, copy in zip(batch, before, strict=True))


@given(capacities, counts, st.lists(st.integers(0, 40), max_size=4))
def test_what_was_read_in_pieces_is_written_back_in_pieces(capacity, count, cuts):
    replay, model = filled(capacity, count)
    marks = sorted(
        {replay.oldest(), *(cut for cut in cuts if replay.oldest() < cut < count), count}
    )
    other = Replay(capacity, SPEC, np.random.SeedSequence(1))
    for start, stop in itertools.pairwise(marks):
        other.write(start, replay.read(start, stop))
    other.restore(replay.added, replay.sampler_state())
    assert kept(other) == list(model)
    if model:
        assert all(
            np.array_equal(a, b)
            for a, b in zip(replay.sample(2, 8), other.sample(2, 8), strict=True)
        )


@given(capacities, st.integers(1, 40), st.integers(0, 30))
def test_a_segment_older_than_the_ring_is_written_as_far_as_it_fits(capacity, count, extra):
    """A file that was linked from an earlier checkpoint begins before the oldest transition that is
    still kept.
    """
    large, _ = filled(100, count + extra)
    small = Replay(capacity, SPEC, np.random.SeedSequence(0))
    small.write(0, large.read(0, count + extra))
    small.restore(count + extra, large.sampler_state())
    assert kept(small) == list(range(count + extra))[-capacity:]


@given(st.integers(1, 40), st.integers(1, 30), st.integers(0, 20))
def test_a_larger_ring_takes_what_a_smaller_one_held_before_it_wrapped(capacity, growth, more):
    small, _ = filled(capacity, capacity)
    large = Replay(capacity + growth, SPEC, np.random.SeedSequence(0))
    large.write(0, small.read(0, capacity))
    large.restore(capacity, small.sampler_state())
    assert all(
        np.array_equal(a, b) for a, b in zip(small.sample(2, 8), large.sample(2, 8), strict=True)
    )
    for number in range(capacity, capacity + more):
        large.add(*transition(number))
    assert kept(large) == list(range(capacity + more))[-(capacity + growth) :]


@given(st.integers(0, 2**31), st.integers(0, 5))
def test_the_sampler_restores_to_the_same_draws(seed, drawn):
    import json

    replay, _ = filled(8, 8, seed)
    for _ in range(drawn):
        replay.sample(1, 4)
    state = json.loads(json.dumps(replay.sampler_state()))
    expected = [replay.sample(2, 4).reward for _ in range(3)]
    other, _ = filled(8, 8, seed + 1)
    other.restore(8, state)
    assert all(np.array_equal(a, other.sample(2, 4).reward) for a in expected)


@given(capacities, st.integers(1, 40), st.integers(0, 40))
def test_after_a_restart_it_goes_on_as_if_there_had_been_none(capacity, count, more):
    whole, _ = filled(capacity, count)
    other = Replay(capacity, SPEC, np.random.SeedSequence(1))
    other.write(whole.oldest(), whole.read(whole.oldest(), count))
    other.restore(count, whole.sampler_state())
    for number in range(count, count + more):
        whole.add(*transition(number))
        other.add(*transition(number))
    assert kept(whole) == kept(other) == list(range(count + more))[-capacity:]
    assert all(
        np.array_equal(a, b) for a, b in zip(whole.sample(2, 8), other.sample(2, 8), strict=True)
    )


def test_an_observation_is_stored_once():
    """A dog's: a million transitions of 223 and 38 numbers, in episodes of a thousand steps."""
    assert replay_bytes(1_000_000, Spec(223, 38)) + 1_000 * 223 * 4 < 1.1e9
    replay, _ = filled(1_000, 30_000)
    assert (
        len(replay.ring.stored_apart) <= 512
    )  # a third of the transitions end an episode: places of those overwritten are used again
    assert len(replay._free_rows) + np.count_nonzero(replay._next_slot > 0) + 1 == len(
        replay.ring.stored_apart
    )


@pytest.mark.parametrize("place", ["file", "device"])
def test_a_ring_elsewhere_is_the_same_ring(tmp_path, place):
    """It grows places for the ends of episodes, wraps, is written to from another and goes on."""
    ring = Ring(60, SPEC, tmp_path) if place == "file" else DeviceRing(60, SPEC)
    there, here = (Replay(60, SPEC, np.random.SeedSequence(0), one) for one in (ring, None))
    earlier, _ = filled(60, 47)
    for replay in (there, here):
        replay.write(0, earlier.read(0, 20))
        replay.write(20, earlier.read(20, 47))
        replay.restore(47, earlier.sampler_state())
        for number in range(47, 150):
            replay.add(*transition(number))
    assert kept(there) == kept(here)
    assert all(
        np.array_equal(a, b) for a, b in zip(there.sample(2, 8), here.sample(2, 8), strict=True)
    )
    assert list(tmp_path.iterdir()) == []


def test_its_size_in_bytes_is_what_it_takes():
    replay, _ = filled(100, 0)
    assert replay_bytes(100, SPEC) == replay.nbytes - replay.ring.stored_apart.nbytes


def test_a_replay_larger_than_memory_is_refused_before_anything_is_allocated(tmp_path):
    path = prepare(a_run(capacity=10**10, steps=10**10), tmp_path)
    with pytest.raises(
        UsageError,
        match=r"a replay of 10000000000 transitions needs 320\.00 GB and .* GB are free; lower "
        r"--capacity",
    ) as refusal:
        go_on(path)
    assert refusal.value.code == 64
    assert not (path / "checkpoints").exists()


def test_a_pack_that_needs_more_memory_than_there_is_is_refused_as_a_whole(tmp_path):
    """Each seed alone would fit; all of them do not."""
    path = prepare(a_run(capacity=100_000, steps=100_000), tmp_path)
    Rollout(path).close()
    with pytest.raises(UsageError, match=r"the replay of 1000000 seeds of .* GB are free"):
        Rollout(path, together=1_000_000)
