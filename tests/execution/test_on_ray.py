"""The same sweep on a real Ray cluster of three raylets on the loopback, while it loses workers and
raylets.
"""

import _thread
import contextlib
import io
import itertools
import json
import os
import platform
import random
import secrets
import signal
import subprocess
import sys
import threading
import time
import types
from collections.abc import Callable
from unittest.mock import Mock

import pytest
from rich.console import Console
from tests.experiments.test_sweep import assert_each_committed_once, drive, executions, states
from tests.support.runs import ROOT, environment
from tests.support.toy_units import BROKEN, POISON, toy_experiment, toy_sweep

from dualac.cli.commands import experiments
from dualac.cli.sweep_progress import Watch
from dualac.errors import TryAgainError, UsageError
from dualac.execution import on_ray as on_cluster
from dualac.execution.local import Effort, Work
from dualac.execution.on_ray import on_ray
from dualac.execution.ray_cluster import LOOPBACK, MATCH, USUAL, Ways, read_versions
from dualac.experiments.expand import expand
from dualac.experiments.survey import survey
from dualac.machine.command import COMMAND
from dualac.machine.messages import Progress
from dualac.training.run import Flags, prepare

needs_ray = pytest.mark.cluster
SAME = {"ray_version": "2.60.0", "python_version": platform.python_version()}
SILENCE = TryAgainError("nobody answers")
MODE, TOKEN = "RAY_AUTH_MODE", "RAY_AUTH_TOKEN_PATH"


LINGERING = """
import sys
from pathlib import Path
from dualac.errors import DualacError
from dualac.execution.on_ray import on_ray
from dualac.experiments.sweep import Orders, sweep
from tests.support.toy_units import toy_experiment

out, address = sys.argv[1:]
executor = on_ray(address)

def linger(works, report, flags, effort):
    effort = effort._replace(entry="tests.support.toy_units:linger")
    return executor(works, report, flags, effort)

try:
    outcome = sweep(toy_experiment(1), Orders(Path(out), linger), lambda message: None)
except DualacError as error:
    sys.exit(error.code)
sys.exit(max(failure.error.code for failure in outcome.failures))
"""  # two units that end only when they are asked to, and the exit code of the command


class Ray(types.SimpleNamespace):
    """As much of Ray as a driver speaks to. Its tasks end, when they are waited for, with a value
    or an error.
    """

    class RayError(Exception):
        pass

    class TaskCancelledError(RayError):
        pass

    def __init__(self, end=lambda number: None):
        context = types.SimpleNamespace(gcs_address="10.0.0.1:6379")
        super().__init__(
            __spec__=True,
            exceptions=Ray,
            get_runtime_context=lambda: context,
            begun=[],
            cancelled=set(),
        )
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


ANSWERS = Ways(
    installed=lambda: True,
    reach=lambda address: None,
    theirs=lambda address: SAME,
    ours=lambda: SAME,
)


@pytest.fixture
def fake(monkeypatch):
    """Ray is there, and its head answers."""
    made = Ray()
    monkeypatch.setitem(sys.modules, "ray", made)
    monkeypatch.setenv(LOOPBACK, "")
    monkeypatch.delenv(LOOPBACK)  # what a driver sets goes with the test
    return made


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    """Clusters of these tests want a token of their own, whatever this machine has."""
    token = tmp_path_factory.mktemp("token") / "token"
    token.write_text(secrets.token_hex())
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {LOOPBACK: "0", MODE: "token", TOKEN: str(token)}.items():
            patch.setenv(name, value)
        yield pytest.importorskip(
            "ray.cluster_utils"
        ).Cluster  # which reads them when it is imported


@pytest.fixture(scope="module")
def cluster(guarded):
    made = guarded(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    for _ in range(2):
        made.add_node(num_cpus=1)
    yield made
    made.shutdown()


@needs_ray
@pytest.mark.filterwarnings("ignore")
def test_what_fails_every_time_is_set_aside_by_ray_s_retries_too(cluster, tmp_path):
    outcome = toy_sweep(tmp_path, (0, POISON, BROKEN), executor=on_ray(cluster.address))
    assert states(outcome) == {0: {"done"}, POISON: {"failed"}, BROKEN: {"failed"}}
    assert {path.name: number for path, number in executions(tmp_path).items()} == {
        "seed0": 1,
        f"seed{POISON}": 3,
        f"seed{BROKEN}": 1,
    }


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
    print(
        f"\n640 units of 10 ms on three raylets, {lost} of them lost: "
        f"{time.monotonic() - began:.0f} s"
    )


@needs_ray
@pytest.mark.filterwarnings("ignore")
def test_workers_that_are_killed_are_replaced(cluster, tmp_path):
    driver = drive(tmp_path, 40, cluster.address)
    for _ in range(5):
        time.sleep(2)
        pids = [
            int(line.split()[1])
            for log in tmp_path.rglob("executed")
            for line in log.read_text().splitlines()
        ]
        for pid in pids[-1:]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    assert driver.wait() == 0
    assert_each_committed_once(tmp_path, 80)


@needs_ray
@pytest.mark.filterwarnings("ignore")
def test_a_head_on_the_loopback_is_found_without_a_variable_of_ray_s(
    cluster, monkeypatch, tmp_path
):
    monkeypatch.delenv(LOOPBACK)
    driver = drive(tmp_path, 1, cluster.address)
    assert driver.wait(timeout=60) == 0
    assert_each_committed_once(tmp_path, 2)


@needs_ray
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("mode", [None, "token"])
@pytest.mark.parametrize("token", [None, "another one, as long as a token is"])
def test_a_driver_without_the_cluster_s_token_is_told_of_it_in_one_line(
    cluster, monkeypatch, tmp_path, mode, token
):
    monkeypatch.setenv("HOME", str(tmp_path))  # where Ray looks for a token that nobody names
    monkeypatch.delenv(MODE) if mode is None else monkeypatch.setenv(MODE, mode)
    (tmp_path / "token").write_text(token or "")
    monkeypatch.setenv(TOKEN, str(tmp_path / "token")) if token else monkeypatch.delenv(TOKEN)
    with pytest.raises(
        UsageError, match=r"wants its token: set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN_PATH"
    ):
        sweep_on_ray(tmp_path / "out", "--address", cluster.address)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("said", "error"),
    [
        ("InvalidAuthToken: Authentication token is missing", UsageError),
        ("Socket closed", TryAgainError),
    ],
)
def test_what_a_cluster_says_instead_of_its_versions_is_one_line(said, error):
    query = f"import sys; sys.exit({20 * (said + chr(10))!r})"
    with pytest.raises(
        error,
        match="RAY_AUTH_TOKEN_PATH"
        if error is UsageError
        else "Socket closed; ray status --address 10",
    ):
        read_versions("10.0.0.1:6379", query)


def test_what_is_no_ray_cluster_is_not_waited_for_for_long():
    with pytest.raises(TryAgainError, match="does not answer as a Ray cluster"):
        read_versions("10.0.0.1:6379", "import time; time.sleep(60)", timeout=0.1)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (
            {"ray_version": "2.59.1"},
            r"has Ray 2\.59\.1, this driver 2\.60\.0: pip install ray==2\.59\.1$",
        ),
        ({"python_version": "3.10.2"}, r"has Python 3\.10\.2, .*uv venv --python 3\.10\.2"),
    ],
)
def test_a_cluster_of_another_version_is_refused_with_the_command_that_installs_it(
    fake, tmp_path, changed, message
):
    ways = ANSWERS._replace(theirs=lambda address: SAME | changed)
    with pytest.raises(UsageError, match=message):
        sweep_on_ray(tmp_path / "out", "--address", "10.0.0.1:6379", ways=ways)
    assert not (tmp_path / "out").exists()


def lingering(out, address, units):
    driver = subprocess.Popen(
        [sys.executable, "-c", LINGERING, str(out), address],
        cwd=ROOT,
        env=environment(),
        start_new_session=True,
    )
    deadline = time.monotonic() + 300
    while len(list(out.rglob("lingers"))) < units:
        assert driver.poll() is None and time.monotonic() < deadline
        time.sleep(0.2)
    return driver


@needs_ray
@pytest.mark.filterwarnings("ignore")
def test_a_lost_head_ends_the_driver_with_75_and_the_same_command_goes_on_elsewhere(
    guarded, tmp_path
):
    first, second = (
        guarded(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
        for _ in range(2)
    )
    driver = lingering(tmp_path, first.address, 1)
    (head,) = first.head_node.all_processes["gcs_server"]
    head.process.kill()
    assert driver.wait(timeout=90) == TryAgainError.code
    first.shutdown()
    assert drive(tmp_path, 1, second.address).wait() == 0
    second.shutdown()
    assert_each_committed_once(tmp_path, 2)


@needs_ray
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_driver_that_is_asked_to_stop_stops_its_workers_gently(cluster, tmp_path, number):
    driver = lingering(tmp_path, cluster.address, 2)
    driver.send_signal(number)
    assert driver.wait(timeout=60) == 128 + number
    assert len(list(tmp_path.rglob("stopped"))) == 2
    assert not list(tmp_path.rglob("FAILED"))


def test_the_live_view_tells_speed_and_what_is_left(fake, monkeypatch, tmp_path):
    """From the last whole row of each run, since its worker's words stay on its machine."""
    units = survey(expand(toy_experiment(4)), tmp_path)[:4]
    running, beginning, old, waiting = (prepare(unit.run, tmp_path) for unit in units)
    row = {"step": 5_000, "time/fps": 250.0}
    (running / "train.jsonl").write_text(
        f'{json.dumps(row | {"step": 4_000})}\n{json.dumps(row)}\n{{"step": 6_00'
    )
    (beginning / "train.jsonl").touch()
    (old / "train.jsonl").write_text(json.dumps(row) + "\n")
    os.utime(old / "train.jsonl", (0, 0))
    monkeypatch.setattr(fake, "wait", Mock(side_effect=[([], []), ([0, 1, 2, 3], [])]))
    shown, heard = io.StringIO(), []
    watch = Watch(Console(file=shown, width=200), units)

    def report(message):
        heard.append(message)
        watch(message)

    on_ray(None, ANSWERS)(
        [Work([path]) for path in (running, beginning, old, waiting)], report, Flags(), Effort()
    )
    assert [message for message in heard if message.stage == "progress"] == [
        Progress(str(running), 0, 5_000, 20_000, 250.0),
        Progress(str(beginning), 1, 0, 20_000, 0.0),
    ]
    assert "; 250 steps/s, about 5:00 left" in shown.getvalue()


TELL = "tests.execution.test_on_ray:tell"


def tell(paths, report, flags):
    """Write down the command it was started by."""
    (paths[0] / "command").write_text(os.environ[COMMAND])


def test_a_worker_on_the_cluster_knows_the_driver_s_command(fake, monkeypatch, tmp_path):
    """Through what Ray would carry there; the process there was started by somebody else."""
    typed = "dualac sweep smoke --executor ray"
    monkeypatch.setenv(COMMAND, typed)
    on_ray(None, ANSWERS)(
        [work_on(tmp_path / "a")], lambda message: None, Flags(), Effort(entry=TELL)
    )
    monkeypatch.delenv(COMMAND)
    (task,) = fake.begun
    assert task() is None
    assert (tmp_path / "a" / "command").read_text() == typed
    options = ("--entry", TELL, "--flags", Flags().spelt())
    on_cluster.stop(on_cluster.worker_beside(1, options, typed))
    on_cluster.worker_beside.cache_clear()


def test_a_driver_that_is_asked_to_stop_says_how_to_go_on(fake, monkeypatch, tmp_path):
    """One is done, one is cancelled while it runs, one before it began."""
    asked = []

    def wait(pending, **words):
        if not asked:
            asked.append(os.kill(os.getpid(), signal.SIGINT))
            return [pending[0]], pending[1:]
        assert fake.cancelled == {1, 2}
        return [pending[0]], pending[1:]

    monkeypatch.setattr(fake, "wait", wait)
    before = signal.getsignal(signal.SIGINT)
    (failure,) = on_ray(None, ANSWERS)(
        [work_on(tmp_path / name) for name in "abc"], lambda message: None, Flags(), Effort()
    )
    assert failure.error.code == 130 and not failure.final
    assert str(failure.error) == (
        "stopped by SIGINT with 2 runs left, those under way at a checkpoint; the same command "
        "goes on"
    )
    assert signal.getsignal(signal.SIGINT) is before


def test_a_second_ctrl_c_is_obeyed_at_once(fake, monkeypatch, tmp_path):
    monkeypatch.setattr(
        fake,
        "wait",
        lambda pending, **words: (os.kill(os.getpid(), signal.SIGINT), ([], pending))[1],
    )
    with pytest.raises(KeyboardInterrupt):
        on_ray(None, ANSWERS)([work_on(tmp_path / "a")], lambda message: None, Flags(), Effort())


def test_what_ray_cancels_stops_its_worker_and_waits_for_it(tmp_path):
    """Ray marks the main thread as interrupted, without a signal, again and again."""

    def cancel():
        while not (tmp_path / "lingers").exists():
            time.sleep(0.05)
        while not (tmp_path / "stopped").exists():
            _thread.interrupt_main()
            time.sleep(0.3)

    canceller = threading.Thread(target=cancel)
    canceller.start()
    with pytest.raises(KeyboardInterrupt):
        options = ("--entry", "tests.support.toy_units:linger")
        on_cluster.carry_out([str(tmp_path)], 1, options, "")
    assert (tmp_path / "stopped").exists()
    canceller.join()


def work_on(path):
    def prepare_toy() -> None:
        path.mkdir(exist_ok=True)
        (path / "run.json").write_text(json.dumps({"seed": 0, "steps": 10}))

    return Work([path], prepare=prepare_toy)


def seconds() -> Callable[[], float]:
    """Return a clock that goes on by a second with each look at it."""
    return itertools.count().__next__


def test_a_head_that_stays_silent_is_lost(fake, monkeypatch, tmp_path):
    monkeypatch.setattr(fake, "wait", lambda pending, **words: ([], pending))
    knock = Mock(side_effect=[None] * 3 + [SILENCE] * 40)
    ways = ANSWERS._replace(reach=knock, clock=seconds())
    with pytest.raises(
        TryAgainError,
        match=(
            r"head of the Ray cluster at 10\.0\.0\.1:6379 is lost; start the cluster and the same "
            r"command again"
        ),
    ):
        on_ray(None, ways)([work_on(tmp_path / "a")], lambda message: None, Flags(), Effort())
    assert 10 < knock.call_count < 40


def test_a_head_that_is_silent_for_a_while_is_not_lost(fake, monkeypatch, tmp_path):
    knock = Mock(side_effect=[SILENCE] * 20 + [None] + [SILENCE] * 20 + [None])
    monkeypatch.setattr(
        fake,
        "wait",
        lambda pending, **words: ([], pending) if knock.call_count < 41 else (pending, []),
    )
    ways = ANSWERS._replace(reach=knock, clock=seconds())
    assert (
        on_ray(None, ways)([work_on(tmp_path / "a")], lambda message: None, Flags(), Effort()) == []
    )


def test_what_ray_loses_with_its_head_is_no_failure_of_a_run(fake, monkeypatch, tmp_path):
    def lost(number):
        raise Ray.RayError("the node died")

    fake.end = lost
    (failure,) = on_ray(None, ANSWERS)(
        [work_on(tmp_path / "a")], lambda message: None, Flags(), Effort()
    )
    assert "the node died" in str(failure.error) and not failure.final
    ways = ANSWERS._replace(reach=Mock(side_effect=SILENCE))
    with pytest.raises(TryAgainError, match="head of the Ray cluster"):
        on_ray(None, ways)([work_on(tmp_path / "a")], lambda message: None, Flags(), Effort())


def test_another_patch_of_python_is_taken_where_ray_is_told_to(fake, monkeypatch):
    patched = ".".join(platform.python_version_tuple()[:2]) + ".99"
    ways = ANSWERS._replace(theirs=lambda address: SAME | {"python_version": patched})
    with pytest.raises(UsageError, match=patched):
        on_ray("10.0.0.1:6379", ways)
    monkeypatch.setenv(MATCH, "minor")
    on_ray("10.0.0.1:6379", ways)


@pytest.mark.parametrize(
    ("address", "value"),
    [
        (None, "0"),
        ("127.0.0.1:6379", "0"),
        ("localhost:6379", "0"),
        ("::1:6379", "0"),
        ("10.0.0.1:6379", None),
    ],
)
def test_ray_stays_on_the_loopback_where_the_cluster_does(fake, address, value):
    assert on_ray(address, ANSWERS)([], lambda message: None, Flags(), Effort()) == []
    assert os.environ.get(LOOPBACK) == value


def sweep_on_ray(out, *words, ways=USUAL):
    """Type the command; what it refuses it refuses before it writes."""
    grid = [
        "--algorithms",
        "sac",
        "--tasks",
        "gym/Pendulum-v1",
        "--seeds",
        "1",
        "--executor",
        "ray",
    ]
    experiments.sweep(
        [*grid, "--out", str(out), *words], find_executor=lambda args: on_ray(args.address, ways)
    )


def test_without_ray_the_command_that_installs_it_is_named_and_nothing_is_written(tmp_path):
    with pytest.raises(UsageError, match=r"pip install 'dualac\[ray\]'"):
        sweep_on_ray(tmp_path / "out", ways=ANSWERS._replace(installed=lambda: False))
    assert not (tmp_path / "out").exists()


def test_a_cluster_that_does_not_answer_is_one_line_and_nothing_is_written(tmp_path):
    ways = USUAL._replace(installed=lambda: True)
    with pytest.raises(
        TryAgainError, match=r"no Ray cluster answers at 127\.0\.0\.1:1 .*ray start --head"
    ):
        sweep_on_ray(tmp_path / "out", "--address", "127.0.0.1:1", ways=ways)
    assert not (tmp_path / "out").exists()
