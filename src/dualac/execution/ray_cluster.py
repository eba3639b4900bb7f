"""A Ray cluster as a driver meets it: whether it answers, its versions, how to connect."""

import importlib.util
import json
import os
import platform
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from typing import Any, NamedTuple

from dualac.errors import TryAgainError, UsageError

# Ray listens to the whole network, and whoever reaches it can run code here. With this, meant for
# other systems, it binds to the loopback alone.
LOOPBACK = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
MATCH = "RAY_DEFAULT_PYTHON_VERSION_MATCH_LEVEL"
# Seconds without an answer after which the head is taken for lost: after 60 Ray ends the whole
# process, with code 1.
HEAD_LOST = 30.0
# Seconds that a cluster has to tell its versions, and Ray to be imported on a busy machine.
ANSWER = 60.0
QUERY = """
import sys
from ray._raylet import GcsClient
client = GcsClient(address=sys.argv[1])
print(client.internal_kv_get(b"CLUSTER_METADATA", namespace=b"cluster").decode())
"""


def is_installed() -> bool:
    return importlib.util.find_spec("ray") is not None


def require_reachable(address: str) -> None:
    """Refuse an address where nobody answers: Ray itself tries for minutes."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit() or "/" in host:
        raise UsageError(
            f"--address is HOST:PORT of the cluster's head, such as 10.0.0.1:6379, not {address!r}"
        )
    try:
        socket.create_connection((host, int(port)), timeout=5).close()
    except (OSError, OverflowError) as error:
        raise TryAgainError(
            f"no Ray cluster answers at {address} ({error}); on its head: ray start --head "
            f"--port={port}"
        ) from None


def read_versions(address: str, query: str = QUERY, timeout: float = ANSWER) -> dict[str, str]:
    """Ask a cluster for the versions it runs on.

    A process of its own asks: Ray repeats itself for twenty lines where a token is wrong, and
    aborts without any.
    """
    try:
        done = subprocess.run(
            [sys.executable, "-c", query, address],
            check=False,
            capture_output=True,
            text=True,
            timeout=timeout,
        )
    except subprocess.TimeoutExpired:
        raise TryAgainError(
            f"what is at {address} does not answer as a Ray cluster; ray status --address "
            f"{address} tells more"
        ) from None
    if done.returncode == 0:
        return json.loads(done.stdout)
    if "authentication token" in done.stderr.lower():
        raise UsageError(
            f"the Ray cluster at {address} wants its token: set RAY_AUTH_MODE=token and "
            "RAY_AUTH_TOKEN_PATH=FILE, a copy of its head's"
        )
    last = " ".join(done.stderr.split())[-300:]
    raise TryAgainError(
        f"Ray refuses at {address}: {last}; ray status --address {address} tells more"
    )


def own_versions() -> dict[str, str]:
    return {"ray_version": version("ray"), "python_version": platform.python_version()}


def require_same_versions(address: str, theirs: dict[str, str], ours: dict[str, str]) -> None:
    """Refuse a cluster that would refuse this driver: of another version, Ray's or Python's."""
    if theirs["ray_version"] != ours["ray_version"]:
        raise UsageError(
            f"the cluster at {address} has Ray {theirs['ray_version']}, this driver "
            f"{ours['ray_version']}: pip install ray=={theirs['ray_version']}"
        )
    numbers = 2 if os.environ.get(MATCH) == "minor" else 3  # of a version that Ray compares
    there, here = (python["python_version"].split(".")[:numbers] for python in (theirs, ours))
    if there != here:
        raise UsageError(
            f"the cluster at {address} has Python {theirs['python_version']}, this driver "
            f"{ours['python_version']}: "
            f"uv venv --python {theirs['python_version']} and install dualac[ray] there"
        )


class Ways(NamedTuple):
    """How a driver learns about a cluster."""

    installed: Callable[[], bool] = is_installed
    reach: Callable[[str], None] = require_reachable
    theirs: Callable[[str], dict[str, str]] = read_versions
    ours: Callable[[], dict[str, str]] = own_versions
    clock: Callable[[], float] = time.monotonic


USUAL = Ways()


class Head:
    """The head of a cluster. Without it the cluster is lost, but nothing else is."""

    def __init__(self, address: str, ways: Ways) -> None:
        self._address, self._ways = address, ways
        self._answered = ways.clock()

    def require(self, *, at_once: bool = False) -> None:
        """Raise where it has not answered for `HEAD_LOST` seconds, or does not answer `at_once`."""
        try:
            self._ways.reach(self._address)
            self._answered = self._ways.clock()
        except TryAgainError:
            if at_once or self._ways.clock() - self._answered > HEAD_LOST:
                raise TryAgainError(
                    f"the head of the Ray cluster at {self._address} is lost; start the cluster "
                    "and the same command again: it goes on"
                ) from None


def connect(address: str | None) -> Any:
    """Import Ray and connect it to the cluster at this address, or to one of this machine alone."""
    if address is None or _is_loopback(address):
        os.environ[LOOPBACK] = "0"  # read when it is imported
    import ray

    where: dict[str, Any] = {"address": address} if address else {"include_dashboard": False}
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "error"}
    try:
        ray.init(**where, **quiet, configure_logging=True)
    except Exception as error:  # Ray's own errors have no common base
        cause = " ".join(str(error).split())[:300]
        raise TryAgainError(
            f"Ray refuses at {address or 'this machine'}: {cause}; ray status --address "
            f"{address or 'auto'} tells more"
        ) from None
    return ray


def _is_loopback(address: str) -> bool:
    """Tell whether a head is bound to the loopback. Ray would look for it at this machine's address
    in the network, where it does not answer.
    """
    host = address.rpartition(":")[0]
    return host in ("localhost", "::1") or host.startswith("127.")
