"""Whether training would work on this machine: versions, drawing, free cores, a short training."""

import os
import platform
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
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
from dualac.machine.messages import Finding, Finished, RunEvent

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
TESTED_PYTHONS = ("3.11", "3.12")
EXTRAS = {"mujoco": "mujoco", "dm_control": "dmc", "metaworld": "metaworld", "myosuite": "myosuite"}
PATIENCE = 60.0  # seconds between two findings about a task
STEPS = 60  # of each task, when all are examined


def smoke() -> str | None:
    """Train a few steps straight, and once stopped and resumed; return what is wrong, if any."""
    from dualac.execution.local import Work, launch
    from dualac.training.run import Flags, prepare

    def ignore(event: RunEvent) -> None: ...

    run = _tiny_run()
    with tempfile.TemporaryDirectory() as folder:
        ends = []
        for name, steps in (("straight", 40), ("resumed", 20), ("resumed", 40)):
            path = prepare(replace(run, steps=steps), Path(folder) / name)
            failures = launch([Work([path])], ignore, Flags())
            if failures:
                return f"fails: {failures[0].error}"
            if steps == run.steps:
                ends.append((path / "checkpoints" / str(steps) / "state.safetensors").read_bytes())
    if ends[0] != ends[1]:
        return "is not exact here: a resumed run ends with other bits than a straight one"
    return None


def step_task(task: str) -> tuple[Any, float]:
    """Return a task's sizes, and how many steps of random actions it makes in a second."""
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


def examine(
    console: Console,
    *,
    version: Callable[[str], str | None] = version,
    draws_with: Callable[[], str | None] = render_backend,
    train: Callable[[], str | None] = smoke,
) -> int:
    """Print what is here and what is missing; return 0 only if a training works."""
    console.print(_versions(version))
    resources = _resources() | {"kernels": _kernels()}
    resources["rendering"] = draws_with() or f"none: training works without; for films {INSTALL}"
    for name, text in resources.items():
        console.print(f"{name:<11}{text}", soft_wrap=True)
    trouble = train()
    works = "works: 40 steps of dac trained, stopped and resumed to the same bits"
    console.print(f"training   {trouble or works}", soft_wrap=True)
    return 0 if trouble is None else DualacError.code


def examine_tasks(
    console: Console,
    *,
    tasks: Mapping[str, Any] = envs.PAPER,
    step: Callable[[str], tuple[Any, float]] = step_task,
) -> int:
    """Load and step every task of the paper, a line each; return 0 only if all of them work."""
    form = "{:<27}{:>5}{:>9}{:>6}{:>9}  {}"
    console.print(form.format("task", "obs", "actions", "cap", "steps/s", ""), highlight=False)
    broken = 0
    for task, expected in tasks.items():
        try:
            sizes, speed = step(task)
        except Exception as error:  # a doctor examines what is broken, whatever it raises
            text = " ".join(str(error).split()) or type(error).__name__
            line = form.format(task, "-", "-", "-", "-", text)
            broken += 1
        else:
            same = sizes == expected
            verdict = "ok" if same else "other sizes than the paper's"
            line = form.format(task, *sizes, envs.about(task).cap, f"{speed:.0f}", verdict)
            broken += not same
        console.print(line, markup=False, soft_wrap=True)
    console.print(f"{len(tasks) - broken} of {len(tasks)} tasks of the paper work here")
    return DualacError.code if broken else 0


def examine_task(
    console: Console, task: str, time_limit: int = 0, *, patience: float = PATIENCE
) -> int:
    """Play a task and print what is wrong with it; return 0 if training on it would work."""
    console.print(envs.canonical(task), soft_wrap=True)
    counts = {"wrong": 0, "warning": 0, "note": 0}
    for finding in findings(task, time_limit, patience):
        line = f"{finding.about:<11}{finding.verdict:<9}{finding.text}"
        console.print(line, markup=False, highlight=False, soft_wrap=True)
        if finding.verdict in counts:
            counts[finding.verdict] += 1
    wrong = counts.pop("wrong")
    answer = [f"would not work: {wrong} wrong" if wrong else "works"]
    others = [f"{count} {kind}{'s' * (count > 1)}" for kind, count in counts.items() if count]
    if others:
        answer.append(", ".join(others))
    console.print(f"training   {'; '.join(answer)}")
    return DataError.code if wrong else 0


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


def _versions(version: Callable[[str], str | None]) -> Table:
    table = Table(box=None, pad_edge=False)
    for title in ("", "found", "tested", ""):
        table.add_column(title)
    python = platform.python_version()
    verdict = "ok" if python.startswith(TESTED_PYTHONS) else "not tested"
    table.add_row("python", python, ", ".join(TESTED_PYTHONS), verdict)
    for name, tested in TESTED.items():
        installed = version(name)
        table.add_row(name, installed or "-", tested, _judge_version(name, installed))
    return table


def _judge_version(name: str, installed: str | None) -> str:
    if installed == TESTED[name]:
        return "ok"
    if installed is not None:
        return "differs from the tested version"
    return f"missing: pip install 'dualac[{EXTRAS[name]}]'" if name in EXTRAS else "missing"


def _resources() -> dict[str, str]:
    memory, disk = available_memory(), shutil.disk_usage(Path.cwd()).free
    cache = os.environ.get("JAX_COMPILATION_CACHE_DIR", str(compilation.compilation_cache()))
    cores = f"{len(usable_cores())} of {os.cpu_count()} usable"
    return {
        "cores": f"{cores}; memory {memory / 1e9:.1f} GB free",
        "disk": f"{disk / 1e9:.1f} GB free here",
        "cache": cache,
    }


def _kernels() -> str:
    reason = ops.why_not_native()
    if not reason:
        return "compiled for this CPU, on as many cores as --threads says"
    return (
        f"by XLA, which is slower, and on one core: {reason}; they need a C compiler (cc, or what "
        "CC names) and a CPU"
    )


def _describe_end(code: int) -> str:
    if code < 0:
        return f"crashed its process ({signal.Signals(-code).name})"
    return f"ended its process with code {code}"


def _lost(what: str) -> Finding:
    advice = "with --isolate-env that costs an episode, not the run"
    return Finding("wrong", "played", f"it {what}; {advice}")


def _tiny_run() -> Any:
    from dualac.agents import ALGORITHMS, OptimisticActor, Scalar, Soft
    from dualac.training.run import Run

    tiny: dict[str, Any] = {"explorer": OptimisticActor(hidden=(8,)), "critic": Scalar(hidden=(8,))}
    row = replace(ALGORITHMS["dac"], policy=Soft((8,)), **tiny)
    task = "dmc/cartpole-swingup" if version("dm_control") else "gym/Pendulum-v1"
    sizes: dict[str, Any] = {"steps": 40, "warmup": 10, "batch_size": 8}
    rare: dict[str, Any] = {"eval_every": 1000, "checkpoint_every": 1000}
    return Run("doctor", row, task, **sizes, **rare, protocol=envs.Protocol(eval_episodes=1))
