"""Measured in a process of its own that is pinned to its cores before JAX counts them, as a run is.

python -m dualac.execution.pinned '{"function": "module:name", "threads": 1, "words": {...}}'
answers with one line of JSON
"""

import importlib
import json
import subprocess
import sys
from typing import Any

from dualac.errors import DualacError, UsageError
from dualac.machine.compilation import use_compilation_cache
from dualac.machine.cores import pin


def ask(function: str, threads: int, **words: Any) -> "subprocess.Popen[str]":
    """Begin to measure."""
    question = json.dumps({"function": function, "threads": threads, "words": words})
    return subprocess.Popen(
        [sys.executable, "-m", __name__, question], stdout=subprocess.PIPE, text=True
    )


def answer(process: "subprocess.Popen[str]") -> Any:
    told, _ = process.communicate()
    for kind in (UsageError, DualacError):
        if process.returncode == kind.code:
            raise kind(json.loads(told.splitlines()[-1]))
    if process.returncode:
        raise DualacError(
            f"a measurement ended with code {process.returncode}; what it printed stands above"
        )
    return json.loads(told.splitlines()[-1])


def main() -> int:
    question = json.loads(sys.argv[1])
    pin(question["threads"])
    use_compilation_cache()
    module, _, name = question["function"].partition(":")
    try:
        found = getattr(importlib.import_module(module), name)(**question["words"])
    except DualacError as error:
        print(json.dumps(str(error)))
        return UsageError.code if isinstance(error, UsageError) else DualacError.code
    print(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
