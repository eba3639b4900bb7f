"""Films of trained policies."""

import os
from pathlib import Path

from dualac import envs
from dualac.errors import UsageError
from dualac.training.evaluate import play
from dualac.training.member import BASELINE, episode_seed
from dualac.training.policy import load_policy

DEFAULT_FPS = 30


def film(run: Path, out: Path, seed: int = 0, step: int | None = None) -> float:
    """One episode of a run's policy as an mp4; its return."""
    os.environ["IMAGEIO_FFMPEG_NO_PREVENT_SIGINT"] = "1"  # else it forks with Python code in the child, which JAX's threads forbid
    try:
        import imageio.v2 as imageio
        import imageio_ffmpeg  # noqa: F401  the encoder behind imageio
    except ImportError:
        raise UsageError("films need imageio and ffmpeg: pip install 'dualac[video]'") from None
    if out.suffix != ".mp4":
        raise UsageError(f"a film is an mp4: {out} should end in .mp4")
    policy = load_policy(run, step)
    env = envs.make(policy.run.task, protocol=policy.run.protocol, render=True)
    env.reset(seed=0)
    env.render()  # where nothing can draw, say so before a file is opened
    out.parent.mkdir(parents=True, exist_ok=True)
    rate = min(int(env.metadata.get("render_fps") or DEFAULT_FPS), 100)
    with imageio.get_writer(out, fps=rate, macro_block_size=8) as writer:
        row = play(env, policy, episode_seed(seed, BASELINE, 0), lambda: writer.append_data(env.render()))  # pyright: ignore[reportAttributeAccessIssue]
    env.close()
    return row["return"]
