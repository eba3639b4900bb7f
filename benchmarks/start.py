"""How long a user waits: from `dualac train` to the first environment step and to the first update,
with a cold and a warm compilation cache.

    .venv/bin/python benchmarks/start.py [TASK]

Seen from outside: the command is started, and the file that it writes a row to after each step is
watched.
"""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path


def wait_for_row(words: list[str], out: Path, cache: Path) -> float:
    """Seconds until the first row of train.jsonl; the run is then left to finish."""
    began = time.perf_counter()
    command = [
        str(Path(sys.executable).parent / "dualac"),
        "train",
        *words,
        "--out",
        str(out),
        "--log-every",
        "1",
        "--quiet",
    ]
    process = subprocess.Popen(
        command,
        env={**os.environ, "JAX_COMPILATION_CACHE_DIR": str(cache)},
        stdout=subprocess.DEVNULL,
    )
    while process.poll() is None:
        rows = list(out.rglob("train.jsonl"))
        if rows and rows[0].stat().st_size:
            waited = time.perf_counter() - began
            process.wait()
            return waited
        time.sleep(0.005)
    raise SystemExit(f"{' '.join(command)} ended without a row")


def main() -> None:
    task = sys.argv[1] if len(sys.argv) > 1 else "dmc/cheetah-run"
    with tempfile.TemporaryDirectory() as folder:
        for cache in ("cold", "warm"):
            for what, words in (
                ("first environment step", ["--steps", "3", "--warmup", "2"]),
                ("first update", ["--steps", "2", "--warmup", "0"]),
            ):
                # Cold: a cache directory of its own. Warm: the directory that the cold run of the
                # same words has filled.
                waited = wait_for_row(
                    ["dac", task, *words],
                    Path(folder) / cache / what,
                    Path(folder) / "cache" / what,
                )
                print(f"{cache} cache, {what}: {waited:.2f} s")


if __name__ == "__main__":
    main()
