"""A measurement in a process of its own, pinned to its cores before JAX counts them, as a run is.

`python -m dualac.execution.pinned THREADS` reads a `Question` from its standard input, and answers
with an `Answer` or an `ErrorMessage`.
"""

import signal
import sys
from typing import Any

from dualac.errors import DualacError
from dualac.machine.children import (
    Child,
    describe_end,
    die_with_parent,
    load_function,
    open_answers,
)
from dualac.machine.compilation import use_compilation_cache
from dualac.machine.cores import pin
from dualac.machine.messages import Answer, ErrorMessage, Question, from_line


def ask(function: str, threads: int, **arguments: Any) -> Child:
    """Begin to measure: call a function, `module:name`, in a new process."""
    child = Child(__name__, str(threads))
    child.send(Question(function, arguments))
    child.dismiss()
    return child


def answer(child: Child) -> Any:
    """Wait for what the function returned; raise the error that it raised."""
    message = child.receive()
    code = child.wait()
    match message:
        case Answer(value):
            return value
        case ErrorMessage():
            raise message.as_error()
        case _:
            raise DualacError(
                f"the process of a measurement {describe_end(code)}; what it printed stands above"
            )


def call(function: str, threads: int, **arguments: Any) -> Any:
    """Call a function in a new process, and return what it returned."""
    return answer(ask(function, threads, **arguments))


def main() -> int:
    send = open_answers()
    die_with_parent(signal.SIGKILL)
    pin(int(sys.argv[1]))
    use_compilation_cache()
    question = from_line(sys.stdin.readline())
    assert isinstance(question, Question)
    try:
        send(Answer(load_function(question.function)(**question.arguments)))
    except DualacError as error:
        send(ErrorMessage.of(error))
        return error.code
    return 0


if __name__ == "__main__":
    sys.exit(main())
