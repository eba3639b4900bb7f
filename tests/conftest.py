"""What holds for every test.

JAX runs on the CPU and refuses silent broadcasting; there is no screen and no network; hypothesis
tries the same examples each time. It is set in the environment before anything imports jax, so that
the processes which tests start inherit it.
"""

import atexit
import os
import shutil
import socket
import sys
import tempfile

import hypothesis
import pytest

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["JAX_NUMPY_RANK_PROMOTION"] = "raise"
os.environ["MPLBACKEND"] = "agg"
os.environ["XDG_STATE_HOME"] = tempfile.mkdtemp(prefix="dualac-state-")  # not the user's own
atexit.register(shutil.rmtree, os.environ["XDG_STATE_HOME"], ignore_errors=True)
# The processes that tests start find tests.support, wherever they are started.
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [ROOT, os.environ.get("PYTHONPATH")]))
os.environ.pop("MUJOCO_GL", None)  # a test that draws asks for it itself

hypothesis.settings.register_profile("dualac", derandomize=True, deadline=None, database=None)
hypothesis.settings.load_profile("dualac")


# Fast tests compile much and run little, so XLA need not try hard: that takes a third of the time.
# The slow tiers compile as users do.
QUICK = "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false"


def pytest_configure(config: pytest.Config) -> None:
    """Let all workers, and the next session, share what XLA compiled.

    What only the fast tier runs is compiled in a hurry.
    """
    if "jax" in sys.modules:
        raise pytest.UsageError(
            "jax was imported before tests/conftest.py could configure it: disable the plugin "
            "that did so with -p no:NAME"
        )
    if config.pluginmanager.hasplugin("cacheprovider") and config.cache is not None:
        os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(config.cache.mkdir("jax")))
        # Tests compile thousands of programs that take a hundredth of a second each.
        os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
    if "not kill" in config.option.markexpr:
        os.environ.setdefault("XLA_FLAGS", QUICK)


@pytest.fixture(autouse=True, scope="session")
def no_network():
    """Refuse connections that leave this machine."""
    connect = socket.socket.connect

    def connect_locally(self: socket.socket, address):
        if self.family != socket.AF_UNIX and address[0] not in ("127.0.0.1", "::1", "localhost"):
            raise OSError(f"a test tried to connect to {address}: tests have no network")
        return connect(self, address)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket.socket, "connect", connect_locally)
        yield
