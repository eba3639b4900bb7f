"""The same sweep on a real Ray cluster of three raylets on the loopback, while it loses workers and raylets."""

import contextlib
import os
import random
import signal
import time

import pytest
from tests.experiments.test_sweep import assert_each_committed_once, drive, executions, states
from tests.experiments.toy_units import BROKEN, POISON, toy_sweep

from dualac import cli
from dualac.errors import TryAgainError, UsageError
from dualac.experiments import cluster as on_cluster
from dualac.experiments.cluster import LOOPBACK, on_ray

needs_ray = pytest.mark.cluster


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
