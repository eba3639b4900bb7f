"""Randomness as a function of its purpose: what a run draws, and from which stream of its seed."""

import numpy as np

# Never renumber: the numbers of every run depend on it.
EPISODES = 1  # seeds of the episodes of training
EVALUATIONS = 2  # seeds of the episodes of evaluations
WARMUP = 3  # random actions
SAMPLER = 4  # minibatches
BASELINE = 5  # seeds of the episodes that a finished policy plays
REPLAYED = 6  # the episode that is played twice, as a test
PEEKED = 7  # minibatches that are only looked at


def stream(seed: int, purpose: int, *index: int) -> np.random.SeedSequence:
    """Seed random numbers for a purpose, so that none depends on how many others were drawn."""
    return np.random.SeedSequence([seed, purpose, *index])


def episode_seed(seed: int, purpose: int, *index: int) -> int:
    """Return the seed of one episode, as an environment takes it."""
    return int(stream(seed, purpose, *index).generate_state(1)[0] >> 1)
