"""Whether training would work on this machine: what is installed against what was tested, what can
draw, what is free; and a very short training.
"""

import os
import platform
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from dualac import envs, ops
from dualac.envs.suites.packages import version
from dualac.errors import DataError, DualacError
from dualac.inspection.video import INSTALL, render_backend
from dualac.machine import compilation
from dualac.machine.children import Child
from dualac.machine.cores import usable_cores
from dualac.machine.memory import available_memory
from dualac.machine.messages import Finding, Finished

# The versions of requirements.lock, with which every test passes; a test holds the two equal.
TESTED = {
    "jax": "0.10.2",
    "jaxlib": "0.10.2",
    "numpy": "2.4.6",
    "gymnasium": "1.2.3",
    "safetensors": "0.8.0",
    "mujoco": "3.16.0",
    "dm_control": "1.0.49",
    "metaworld": "3.0.0",
    "myosuite": "3.0.0",
}
OPTIONAL = {
    "mujoco": "mujoco",
    "dm_control": "dmc",
    "metaworld": "metaworld",
    "myosuite": "myosuite",
}
PATIENCE = 60.0  # seconds between two findings about a task
STEPS = 60  # of each task, when all are examined


def examine(console: Console) -> int:
    """Print what was found; 0 only if a training works."""
    table = Table(box=None, pad_edge=False)
    for title in ("", "found", "tested", ""):
        table.add_column(title)
    table.add_row(
        "python",
        platform.python_version(),
        "3.11, 3.12",
        "ok" if sys.version_info[:2] in ((3, 11), (3, 12)) else "not tested",
    )
    for name, tested in TESTED.items():
        found = version(name)
        advice = (
            f"missing: pip install 'dualac[{OPTIONAL[name]}]'" if name in OPTIONAL else "missing"
        )
        table.add_row(
            name,
            found or "-",
            tested,
            "ok"
            if found == tested
            else advice
            if found is None
            else "differs from the tested version",
        )
    console.print(table)
    cores = usable_cores()
    console.print(
        f"cores      {len(cores)} of {os.cpu_count()} usable; memory "
        f"{available_memory() / 1e9:.1f} GB free"
    )
    console.print(f"disk       {shutil.disk_usage(Path.cwd()).free / 1e9:.1f} GB free here")
    console.print(
        "cache      "
        f"{os.environ.get('JAX_COMPILATION_CACHE_DIR', str(compilation.compilation_cache()))}",
        soft_wrap=True,
    )
    by_whom = "compiled for this CPU, on as many cores as --threads says"
    if reason := ops.why_not_native():
        by_whom = (
            f"by XLA, which is slower, and on one core: {reason}; they need a C compiler (cc, or "
            "what CC names) and a CPU"
        )
    console.print(f"kernels    {by_whom}", soft_wrap=True)
    backend = render_backend()
    console.print(
        f"rendering  {backend or f'none: training works without; for films {INSTALL}'}",
        soft_wrap=True,
    )
    trouble = smoke()
    console.print(
        "training   "
        f"{trouble or 'works: 40 steps of dac trained, stopped and resumed to the same bits'}",
        soft_wrap=True,
    )
    return 0 if trouble is None else DualacError.code


def examine_tasks(console: Console) -> int:
    """Load and step every task of the paper, a line each; 0 only if all of them work."""
    form = "{:<27}{:>5}{:>9}{:>6}{:>9}  {}"
    console.print(form.format("task", "obs", "actions", "cap", "steps/s", ""), highlight=False)
    broken = 0
    for task in envs.PAPER:
        try:
            sizes, speed = step_task(task)
            line = form.format(
                task,
                *sizes,
                envs.about(task).cap,
                f"{speed:.0f}",
                "ok" if sizes == envs.PAPER[task] else "other sizes than the paper's",
            )
            broken += sizes != envs.PAPER[task]
        except Exception as error:  # a doctor examines what is broken, whatever it raises
            line = form.format(
                task, "-", "-", "-", "-", " ".join(str(error).split()) or type(error).__name__
            )
            broken += 1
        console.print(line, markup=False, soft_wrap=True)
    console.print(f"{len(envs.PAPER) - broken} of {len(envs.PAPER)} tasks of the paper work here")
    return DualacError.code if broken else 0


def examine_task(console: Console, task: str, time_limit: int = 0) -> int:
    """Play a task, a user's own above all, and tell what is wrong with it; 0 only if training on it
    would work.
    """
    console.print(envs.canonical(task), soft_wrap=True)
    counts = {"wrong": 0, "warning": 0, "note": 0}
    for finding in findings(task, time_limit):
        line = f"{finding.about:<11}{finding.verdict:<9}{finding.text}"
        console.print(line, markup=False, highlight=False, soft_wrap=True)
        if finding.verdict in counts:
            counts[finding.verdict] += 1
    besides = ", ".join(
        f"{count} {kind}{'s' * (count > 1)}"
        for kind, count in counts.items()
        if count and kind != "wrong"
    )
    answer = f"would not work: {counts['wrong']} wrong" if counts["wrong"] else "works"
    console.print(f"training   {answer}{f'; {besides}' if besides else ''}")
    return DataError.code if counts["wrong"] else 0


def findings(task: str, time_limit: int = 0, patience: float = PATIENCE) -> Iterator[Finding]:
    """Examine a task in a process of its own: that it hangs, exits or crashes is a finding, too."""
    module = "dualac.envs.checkup.examine"
    path = os.pathsep.join(folder or os.getcwd() for folder in sys.path)
    environment = {**os.environ, "PYTHONPATH": path}
    child = Child(module, task, str(time_limit), env=environment, stderr=subprocess.DEVNULL)
    try:
        while isinstance(message := child.receive(patience), Finding):
            yield message
        if not isinstance(message, Finished):
            yield _lost(f"{_describe_end(child.wait())} while it was played")
    except queue.Empty:
        yield _lost(f"hangs: no answer within {patience:g} s")
    finally:
        child.kill()


def _describe_end(code: int) -> str:
    if code < 0:
        return f"crashed its process ({signal.Signals(-code).name})"
    return f"ended its process with code {code}"


def _lost(what: str) -> Finding:
    advice = "with --isolate-env that costs an episode, not the run"
    return Finding("wrong", "played", f"it {what}; {advice}")


def step_task(task: str) -> tuple[Any, float]:
    """A task's sizes, and how many steps of random actions it takes a second."""
    env = envs.make(task)
    env.reset(seed=0)
    sizes = (env.observation_space.shape[0], env.action_space.shape[0])  # pyright: ignore[reportOptionalSubscript]
    actions = np.random.default_rng(0).uniform(-1, 1, (STEPS, sizes[1])).astype(np.float32)
    began = time.perf_counter()
    for action in actions:
        observation, reward, terminated, truncated, _ = env.step(action)
        if not (np.isfinite(observation).all() and np.isfinite(float(reward))):
            raise DataError(f"{task} gave NaN or infinity")
        if terminated or truncated:
            env.reset(seed=1)
    speed = STEPS / (time.perf_counter() - began)
    env.close()
    return sizes, speed


def smoke() -> str | None:
    """A training of a few steps in a directory that is thrown away, stopped half-way and resumed;
    what is wrong, if anything.
    """
    from dataclasses import replace

    from dualac.agents.algorithms import ALGORITHMS
    from dualac.agents.critics import Scalar
    from dualac.agents.optimist import OptimisticActor
    from dualac.agents.policies import Soft
    from dualac.execution.local import Work, launch
    from dualac.training.run import Flags, Run, prepare

    small = replace(
        ALGORITHMS["dac"],
        policy=Soft((8,)),
        explorer=OptimisticActor(hidden=(8,)),
        critic=Scalar(hidden=(8,)),
    )
    task = "dmc/cartpole-swingup" if version("dm_control") else "gym/Pendulum-v1"
    run = Run(
        "doctor",
        small,
        task,
        steps=40,
        warmup=10,
        batch_size=8,
        eval_every=1000,
        checkpoint_every=1000,
        protocol=envs.Protocol(eval_episodes=1),
    )
    ends = []
    with tempfile.TemporaryDirectory() as folder:
        for name, stop in (("straight", 40), ("resumed", 20), ("resumed", 40)):
            path = prepare(replace(run, steps=stop), Path(folder) / name)
            failures = launch([Work([path])], lambda message: None, Flags())
            if failures:
                return f"fails: {failures[0].error}"
            if stop == run.steps:
                ends.append((path / "checkpoints" / str(stop) / "state.safetensors").read_bytes())
    return (
        None
        if ends[0] == ends[1]
        else "is not exact here: a stopped and resumed run ends with other bits than a straight one"
    )
