"""The same sweep on a real Ray cluster of three raylets on the loopback, while it loses workers and raylets."""

import contextlib
import os
import random
import signal
import sys
import time
import types

import pytest
from tests.experiments.test_sweep import assert_each_committed_once, drive, executions, states
from tests.experiments.toy_units import BROKEN, POISON, toy_sweep

from dualac import cli
from dualac.errors import TryAgainError, UsageError
from dualac.experiments import cluster as on_cluster
from dualac.experiments.cluster import LOOPBACK, on_ray
from dualac.training.launch import Effort, Flags

needs_ray = pytest.mark.cluster


class Ray(types.SimpleNamespace):
    """As much of Ray as a driver speaks to. Its tasks end, when they are waited for, with a value or an error."""

    class RayError(Exception):
        pass

    class TaskCancelledError(RayError):
        pass

    def __init__(self, end=lambda number: None):
        context = types.SimpleNamespace(gcs_address="10.0.0.1:6379")
        super().__init__(__spec__=True, exceptions=Ray, get_runtime_context=lambda: context, begun=[], cancelled=set())
        self.end = end

    def init(self, **words):
        pass

    shutdown = init

    def remote(self, task, *arguments):
        def begin(*arguments):
            self.begun.append(lambda: task(*arguments))
            return len(self.begun) - 1

        return types.SimpleNamespace(options=lambda **words: types.SimpleNamespace(remote=begin))

    def wait(self, pending, num_returns, timeout):
        return [pending[0]], pending[1:]

    def get(self, number):
        if number in self.cancelled:
            raise Ray.TaskCancelledError
        return self.end(number)

    def cancel(self, number):
        self.cancelled.add(number)


@pytest.fixture
def fake(monkeypatch):
    """Ray is there, and its head answers."""
    made = Ray()
    monkeypatch.setitem(sys.modules, "ray", made)
    monkeypatch.setattr(on_cluster, "_knock", lambda address: None)
    monkeypatch.setenv(LOOPBACK, "")
    monkeypatch.delenv(LOOPBACK)  # what a driver sets goes with the test
    return made


@pytest.fixture(scope="module")
def cluster():
    os.environ[LOOPBACK] = "0"
    ray_cluster = pytest.importorskip("ray.cluster_utils")
    made = ray_cluster.Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    for _ in range(2):
        made.add_node(num_cpus=1)
    yield made
    made.shutdown()


@needs_ray
@pytest.mark.filterwarnings("ignore")
def test_what_fails_every_time_is_set_aside_by_ray_s_retries_too(cluster, tmp_path):
    outcome = toy_sweep(tmp_path, (0, POISON, BROKEN), executor=on_ray(cluster.address))
    assert states(outcome) == {0: {"done"}, POISON: {"failed"}, BROKEN: {"failed"}}
    assert {path.name: number for path, number in executions(tmp_path).items()} == {"seed0": 1, f"seed{POISON}": 3, f"seed{BROKEN}": 1}


@needs_ray
@pytest.mark.filterwarnings("ignore")
def test_640_units_survive_the_loss_of_a_raylet_every_ten_seconds(cluster, tmp_path):
    began, lost = time.monotonic(), 0
    driver = drive(tmp_path, 320, cluster.address)
    chance = random.Random(0)
    while driver.poll() is None:
        time.sleep(10)
        others = [node for node in cluster.list_all_nodes() if node is not cluster.head_node]
        if driver.poll() is None and others:
            cluster.remove_node(chance.choice(others), allow_graceful=False)
            cluster.add_node(num_cpus=1)
            lost += 1
    assert driver.returncode == 0
    assert_each_committed_once(tmp_path, 640)
    print(f"\n640 units of 10 ms on three raylets, {lost} of them lost: {time.monotonic() - began:.0f} s")


@needs_ray
@pytest.mark.filterwarnings("ignore")
def test_workers_that_are_killed_are_replaced(cluster, tmp_path):
    driver = drive(tmp_path, 40, cluster.address)
    for _ in range(5):
        time.sleep(2)
        pids = [int(line.split()[1]) for log in tmp_path.rglob("executed") for line in log.read_text().splitlines()]
        for pid in pids[-1:]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    assert driver.wait() == 0
    assert_each_committed_once(tmp_path, 80)


@needs_ray
@pytest.mark.filterwarnings("ignore")
def test_a_head_on_the_loopback_is_found_without_a_variable_of_ray_s(cluster, monkeypatch, tmp_path):
    monkeypatch.delenv(LOOPBACK)
    driver = drive(tmp_path, 1, cluster.address)
    assert driver.wait(timeout=60) == 0
    assert_each_committed_once(tmp_path, 2)


@pytest.mark.parametrize(
    ("address", "told"), [(None, "0"), ("127.0.0.1:6379", "0"), ("localhost:6379", "0"), ("::1:6379", "0"), ("10.0.0.1:6379", None)]
)
def test_ray_stays_on_the_loopback_where_the_cluster_does(fake, address, told):
    assert on_ray(address)([], lambda message: None, Flags(), Effort()) == []
    assert os.environ.get(LOOPBACK) == told


def asked_for_ray(out, *words):
    """The command, as typed; what it refuses it refuses before it writes."""
    cli.run(["sweep", "--algorithms", "sac", "--tasks", "gym/Pendulum-v1", "--seeds", "1", "--out", str(out), "--executor", "ray", *words])


def test_without_ray_the_command_that_installs_it_is_told_and_nothing_is_written(monkeypatch, tmp_path):
    monkeypatch.setattr(on_cluster.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"pip install 'dualac\[ray\]'"):
        asked_for_ray(tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_cluster_that_does_not_answer_is_one_line_and_nothing_is_written(monkeypatch, tmp_path):
    monkeypatch.setattr(on_cluster.importlib.util, "find_spec", lambda name: name)
    with pytest.raises(TryAgainError, match=r"no Ray cluster answers at 127\.0\.0\.1:1 .*ray start --head"):
        asked_for_ray(tmp_path / "out", "--address", "127.0.0.1:1")
    assert not (tmp_path / "out").exists()
