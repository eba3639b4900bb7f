"""Films of trained policies."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dualac.envs.faults.guarded import Guarded
from dualac.errors import UsageError
from dualac.training.evaluation import play
from dualac.training.policy import LoadedPolicy, load_policy
from dualac.training.run import require_same_task
from dualac.training.streams import BASELINE, episode_seed

DEFAULT_FPS = 30
DRAW = (
    "import mujoco; m = mujoco.MjModel.from_xml_string('<mujoco><worldbody/></mujoco>'); "
    "mujoco.Renderer(m, 32, 32).render()"
)
INSTALL = "install EGL (Debian: libegl1) or OSMesa (libosmesa6)"


def film(
    run: Path,
    out: Path,
    seed: int = 0,
    step: int | None = None,
    *,
    trust: bool = False,
    warn: Callable[[str], None] = lambda sentence: None,
) -> float:
    """Write one episode of a run's policy as an mp4; return its return."""
    # Without this it forks with Python code in the child, which JAX's threads forbid.
    os.environ["IMAGEIO_FFMPEG_NO_PREVENT_SIGINT"] = "1"
    try:
        import imageio.v2 as imageio
        import imageio_ffmpeg  # noqa: F401  the encoder behind imageio
    except ImportError:
        raise UsageError("films need imageio and ffmpeg: pip install 'dualac[video]'") from None
    if out.suffix != ".mp4":
        raise UsageError(f"a film is an mp4: {out} should end in .mp4")
    if seed < 0:
        raise UsageError(f"--seed must be at least 0, not {seed}")
    policy = load_policy(run, step, trust=trust)
    env = _drawable(policy)
    if sentence := env.warning():
        warn(sentence)
    env.reset(seed=0)
    env.render()  # where nothing can draw, say so before a file is opened
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.touch()
    except OSError as error:
        raise UsageError(f"{out} cannot be written ({error.strerror})") from None
    rate = min(int(env.metadata.get("render_fps") or DEFAULT_FPS), 100)
    writer: Any
    with imageio.get_writer(out, fps=rate, macro_block_size=8) as writer:
        episode = episode_seed(seed, BASELINE, 0)
        act = policy.begin_episode(episode)
        row, broken = play(env, act, episode, lambda: writer.append_data(env.render()))
    env.close()
    if broken:
        warn(f"the episode broke at step {row['length']}, where the film ends: {broken}")
    return row["return"]


def _drawable(policy: LoadedPolicy) -> Guarded:
    """Make the environment that a policy was trained in, so that it can be drawn."""
    backend = render_backend()
    # Gymnasium's tasks bring their own ways of drawing.
    if backend is None and not policy.run.task.startswith("gym/"):
        raise UsageError(
            f"nothing can draw {policy.run.task} here (MUJOCO_GL is "
            f"{os.environ.get('MUJOCO_GL') or 'not set'}): {INSTALL}"
        )
    if backend:
        os.environ["MUJOCO_GL"] = backend
    env = Guarded(policy.run.task, policy.run.protocol, render=True)
    require_same_task(policy.path, env.describe())
    return env


def render_backend() -> str | None:
    """Find the first way of drawing that works, each tried in a process that may die of it."""
    chosen = os.environ.get("MUJOCO_GL")
    for backend in [chosen] if chosen else ["egl", "osmesa", "glfw"]:
        attempt = subprocess.run(
            [sys.executable, "-c", DRAW],
            env={**os.environ, "MUJOCO_GL": backend},
            capture_output=True,
            check=False,
            timeout=60,
        )
        if attempt.returncode == 0:
            return backend
    return None
