"""What a user types and sees. Bad input gets one line that names the cause and the next step, a
code, and leaves nothing behind.
"""

import contextlib
import fcntl
import functools
import importlib
import json
import os
import pty
import re
import select
import shlex
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dualac import cli
from dualac.cli.commands import training
from dualac.machine.cores import borrowed

HERE = Path(__file__).parents[1] / "support"  # where the toys are
DUALAC = str(Path(sys.executable).with_name("dualac"))
POINT = "cli_toys:Point-v0"
NETWORKS = ["--policy.hidden", "8", "--critic.hidden", "8", "--explorer.hidden", "8"]
RUN = [
    "--batch-size",
    "8",
    "--warmup",
    "20",
    "--eval-every",
    "20",
    "--eval-episodes",
    "1",
    "--log-every",
    "10",
]
SHORT = [*NETWORKS, *RUN, "--steps", "40", "--checkpoint-every", "20"]
SHORT_SAC = [*NETWORKS[:4], *SHORT[6:]]  # no explorer to be small
SECONDS = 900  # for a command that hangs; on an idle machine none takes a hundredth of it

Answer = Callable[..., tuple[int, str, str]]


def dualac(*words: str | Path, **env: str) -> subprocess.CompletedProcess[str]:
    """Type the command beside the toys."""
    where = {"cwd": HERE, "env": {**os.environ, **env}, "stdin": subprocess.DEVNULL}
    return subprocess.run(
        [DUALAC, *map(str, words)],
        **where,
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
    )


def run_path(out: Path, toy: str = "Point", seed: int = 0, algorithm: str = "dac") -> Path:
    return out / algorithm / f"gym-cli_toys-{toy}-v0" / "rr2" / f"seed{seed}"


def rows(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def assert_refused(answer: tuple[int, str, str], code: int, *words: str) -> None:
    """One line on standard error that starts with the command's name and holds these words."""
    got, _, err = answer
    assert got == code, err
    assert err.endswith("\n")
    assert err.count("\n") == 1, err
    assert err.startswith("dualac: ")
    for word in words:
        assert word in err


def answer_of(done: subprocess.CompletedProcess[str]) -> tuple[int, str, str]:
    return done.returncode, done.stdout, done.stderr


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Answer:
    """Run the command in this process: the same words, lines and codes, without waiting for another
    Python.
    """
    monkeypatch.chdir(HERE)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setenv("COLUMNS", "200")

    def answer(*words: str | Path, commands: Any = cli.COMMANDS) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            cli.main([str(word) for word in words], commands)
        said = capsys.readouterr()
        return int(str(ended.value.code)), said.out, said.err

    return answer


@pytest.fixture
def prepared(here: Answer) -> Answer:
    """Run the same up to where training would start."""
    train = functools.partial(training.train, carry_out=lambda packs, args, usual: 0)
    return functools.partial(here, commands={**cli.COMMANDS, "train": train})


@pytest.fixture
def two_cores(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Make it a machine of two cores, whose leases nobody else knows."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 1})


def test_a_part_in_place_of_a_row_s_own_brings_its_options(
    prepared: Answer, tmp_path: Path
) -> None:
    parts = [
        "--explorer",
        "OptimisticActor(kl_weight=Held(0.5))",
        "--explorer.optimism",
        "Held(1.0)",
        "--explorer.optimism.value",
        "2",
    ]
    code, _, err = prepared(
        "train", "sac", POINT, "--out", tmp_path, *SHORT_SAC, *parts, "--explorer.hidden", "8"
    )
    assert (code, err) == (0, "")
    explorer = json.loads((run_path(tmp_path, algorithm="sac") / "run.json").read_text())[
        "algorithm"
    ]["explorer"]
    assert (explorer["hidden"], explorer["optimism"]["value"], explorer["kl_weight"]["value"]) == (
        [8],
        2.0,
        0.5,
    )


def test_a_preset_is_trained_by_its_name(prepared: Answer, tmp_path: Path) -> None:
    code, out, _ = prepared("train", "sr-sac", POINT, "--out", tmp_path, *SHORT_SAC)
    assert code == 0 and "sr-sac on" in out and "replay ratio 16" in out
    written = json.loads(
        (tmp_path / "sr-sac" / "gym-cli_toys-Point-v0" / "rr16" / "seed0" / "run.json").read_text()
    )
    assert written["resets"] == [160_000, 320_000, 480_000, 640_000, 800_000]


@pytest.mark.usefixtures("two_cores")
@pytest.mark.parametrize("words", ["", "--seeds 2", "--threads 1"])
def test_one_seed_alone_has_two_cores_if_two_are_idle(
    prepared: Answer, tmp_path: Path, words: str
) -> None:
    train = ("train", "dac", POINT, "--out", tmp_path / "runs", *SHORT, *words.split())
    assert ("1 core each" if words else "2 cores each") in prepared(*train)[1]
    with borrowed(1, [0]):
        assert "1 core each" in prepared(*train)[1]


@pytest.mark.usefixtures("two_cores")
@pytest.mark.parametrize("seen", [1, 2])
def test_xla_sees_as_many_cores_as_when_the_run_began(
    prepared: Answer, tmp_path: Path, seen: int
) -> None:
    """One, unless that was in a user's own Python; how many help it changes no bit, and is
    decided anew each time.
    """
    train = ("train", "dac", POINT, "--out", tmp_path, *SHORT)
    assert "2 cores each" in prepared(*train)[1]
    path = run_path(tmp_path)
    (path / "machine.json").write_text(json.dumps({"fingerprint": {"cores": seen}}))
    assert "2 cores each" in prepared(*train)[1]
    assert training.work_of([path], None, 2)[1:3] == (2, seen)
    assert training.work_of([path], None, 1)[1:3] == (seen, seen)
    assert training.work_of([path], 1, 2)[1:3] == (1, seen)


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Two seeds trained to their end with TensorBoard files, and what was printed. Look, do not
    touch.
    """
    out = tmp_path_factory.mktemp("finished")
    done = dualac("train", "dac", POINT, "--out", out, "--seeds", "2", "--tensorboard", *SHORT)
    assert (done.returncode, done.stderr) == (0, "")
    return out, done.stdout


@pytest.fixture
def mine(finished: tuple[Path, str], tmp_path: Path) -> Path:
    """Copy a finished run, to damage."""
    return Path(shutil.copytree(run_path(finished[0]), run_path(tmp_path / "mine")))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("trian", "did you mean train?"),
        ("--bogus", "dualac --help"),
        ("train", "train what? dualac train ALGORITHM TASK"),
        ("train dac", "required: task"),
        ("train dca dmc/cheetah-run", "no algorithm is called 'dca'; did you mean dac?"),
        ("train dac dmc/chetah-run", "no task 'dmc/chetah-run'; did you mean dmc/cheetah-run"),
        ("train dac cheetah", "did you mean dmc/cheetah-run or "),
        ("train dac gym/HalfCheeta-v5", "did you mean gym/HalfCheetah-v5"),
        ("train dac atari/Pong", "the suites are dmc, metaworld, myosuite and gym"),
        ("train dac nomodule:X-v0", "No module named 'nomodule'"),
        ("train dac cli_toys:Pont-v0", "did you mean gym/Point-v0"),
        ("train dac cli_toys:Point-v0 extra", "'extra'"),
        ("resume", "required: RUN"),
        ("evaluate", "required: RUN"),
        ("play", "required: RUN"),
        ("list", "required: what"),
        ("list algorithm", "'algorithms', 'tasks'"),
        ("doctor --fast", "has no option '--fast'"),
    ],
)
def test_words_that_name_nothing_are_told_with_the_nearest_names(
    prepared: Answer, tmp_path: Path, words: str, said: str
):
    out = ["--out", tmp_path / "out"] if words.startswith("train ") else []
    assert_refused(prepared(*words.split(), *out), 64, said)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        # options and numbers that are none
        ("--critic.lrr 1", "no option '--critic.lrr'; did you mean --critic.lr"),
        ("--pesimism.beta -1", "did you mean --pessimism.beta"),
        ("--explorer.target_kl 0.1", "did you mean --explorer.target-kl"),
        ("--step 40", "did you mean --steps"),
        ("--steps nan", "--steps nan: 'nan' is not a whole number (12000, 12k and 1M are)"),
        ("--steps 1e9", "'1e9' is not a whole number"),
        ("--steps 0.5", "'0.5' is not a whole number"),
        ("--steps infk", "'infk' is not a whole number"),
        ("--gamma x", "--gamma x: 'x' is not a number"),
        ("--explorer.target-kl nan", "--explorer.target-kl nan: 'nan' is not a number"),
        ("--critic.layer-norm maybe", (
            "--critic.layer-norm maybe: 'maybe' is neither true nor false"
        )),
        ("--explorer.form round", (
            "--explorer.form round: 'round' is not one of perturbation, simple, deterministic, "
            "independent"
        )),
        ("--threads x", "--threads"),
        ("--seed x", "'x' is not a whole number"),
        # the run, out of range
        ("--steps -1", "--steps must be between 1 and"),
        ("--steps 5k", "--steps 5000 ends before learning starts: --warmup is 10000"),
        ("--warmup 1M", "ends before learning starts"),
        ("--replay-ratio 0", "--replay-ratio must be between 1 and 1024, not 0"),
        ("--replay-ratio 2000", "--replay-ratio must be between 1 and 1024, not 2000"),
        ("--batch-size 0", "--batch-size must be between 1 and"),
        ("--batch-size 2M", "--batch-size must be between 1 and"),
        ("--capacity 0", "--capacity must be between 1 and"),
        ("--eval-every 0", "--eval-every must be between 1 and"),
        ("--eval-episodes 0", "eval episodes 0: give a number of episodes, 1 to 10000"),
        ("--log-every 0", "--log-every must be between 1 and"),
        ("--checkpoint-every 0", "--checkpoint-every must be between 1 and"),
        ("--resets 5,3", "--resets must be rising steps above 0, not 5,3"),
        ("--reset-every -1", "--reset-every must be between 0 and"),
        ("--protocol.time-limit -1", "time limit -1"),
        ("--threads 0", "--threads must be between 1 and"),
        ("--threads 9999", "--threads must be between 1 and"),
        ("--env-timeout 5", "--env-timeout needs --isolate-env"),
        ("--isolate-env --env-timeout 0", (
            "--env-timeout must be between 0.1 and 86400 seconds, not 0"
        )),
        ("--isolate-env --env-timeout -3", (
            "--env-timeout must be between 0.1 and 86400 seconds, not -3"
        )),
        ("--isolate-env --env-timeout nan", (
            "--env-timeout must be between 0.1 and 86400 seconds, not nan"
        )),
        ("--isolate-env --env-timeout inf", (
            "--env-timeout must be between 0.1 and 86400 seconds, not inf"
        )),
        ("--isolate-env --env-timeout soon", "--env-timeout: invalid float value: 'soon'"),
        ("--seed -1", "--seed must be between 0 and"),
        ("--seed 1 --seeds 2", "--seeds: not allowed with argument --seed"),
        ("--seeds 0", "--seeds 0: give a number of seeds (2), a range (3-5) or a list"),
        ("--seeds 5-3", "--seeds 5-3: give a number of seeds"),
        ("--seeds 1,1", "--seeds 1,1: give a number of seeds"),
        ("--seeds 20000", "--seeds 20000: give a number of seeds"),
        ("--seeds 999999999999999999", "--seeds 999999999999999999: give a number of seeds"),
        ("--seeds 0-999999999999999999", "--seeds 0-999999999999999999: give a number of seeds"),
        ("--capacity 10000000000 --steps 10000000000", (
            "GB are free; lower --capacity or the number of seeds"
        )),
        # the algorithm, out of range
        ("--pessimism.beta 0.5", (
            "pessimism is negative or zero (-1 is the minimum of two critics), not 0.5"
        )),
        ("--pessimism.backup-beta 1", "pessimism is negative or zero"),
        ("--pessimism.beta nan", "--pessimism.beta nan: 'nan' is not a number"),
        ("--pessimism.beta=-inf", "pessimism is negative or zero"),
        ("--policy.hidden 0", "hidden sizes must be 1 to 65536"),
        ("--policy.hidden ''", "hidden sizes must be 1 to 65536"),
        ("--critic.hidden -8", "hidden sizes 1 to 65536"),
        ("--policy.hidden 8.5", "'8.5' is not a whole number"),
        ("--policy.lr 0", "lr must be positive"),
        ("--policy.lr inf", "lr"),
        ("--critic.lr inf", "lr"),
        ("--explorer.lr inf", "lr"),
        ("--explorer.head-gain inf", "head_gain"),
        ("--policy.entropy-per-dim inf", "entropy_per_dim"),
        ("--policy.temperature Held(-1)", "-1"),
        ("--explorer.kl-weight Held(-1)", "-1"),
        ("--critic.k 0", "k must be 1 to 1000"),
        ("--critic.polyak 2", "polyak in (0, 1]"),
        ("--gamma 1", "gamma must be in [0, 1), not 1"),
        ("--explorer.target-kl -1", "target_kl must be positive"),
        ("--explorer.target-kl inf", "target_kl must be positive"),
        ("--explorer.std-multiplier 0", "std_multiplier and target_kl must be positive"),
        # parts
        ("--explorer.optimism 'Hold(1)'", (
            "'Hold' cannot stand here; write one of Held(...), Learnt(...); did you mean Held?"
        )),
        ("--explorer.optimism Held", "is not a part; write one of Held(...), Learnt(...)"),
        ("--explorer.optimism 'Held(0.5'", "is not a part"),
        ("--explorer.optimism 'Held(nan)'", "is not a part"),
        ("--explorer.optimism 'Held(1e999)'", "must be finite"),
        ("--explorer.optimism 'Held(\"a\")'", "value cannot be 'a'"),
        ("--explorer.optimism 'Learnt(1, lrr=3)'", "unexpected keyword argument 'lrr'"),
        ("--explorer.optimism 'Learnt(-5)'", "must start between -0.2 and inf, not at -5"),
        ("--explorer.optimism 'Held(1)' --explorer.optimism.lr 0.1", "Held(1.0) has no lr"),
        ("--explorer 'FromPolicy()' --explorer.target-kl 0.1", "FromPolicy() has no target_kl"),
    ],
)  # fmt: skip
def test_a_bad_option_is_one_line_with_its_cause_and_makes_no_directory(
    prepared: Answer, tmp_path: Path, options: str, said: str
):
    assert_refused(
        prepared("train", "dac", POINT, "--out", tmp_path / "out", *shlex.split(options)), 64, said
    )
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("toy", "said"),
    [
        ("Discrete", "only continuous actions"),
        ("Unbounded", "its actions are unbounded"),
        ("Degenerate", "the box is degenerate"),
        ("Pixels", "learning from pixels is not supported"),
        ("Wide", "GB are free; lower --capacity or the number of seeds"),
    ],
)
def test_a_task_that_cannot_be_learned_is_refused_before_anything_is_made(
    prepared: Answer, tmp_path: Path, toy: str, said: str
):
    answer = prepared(
        "train", "dac", f"cli_toys:{toy}-v0", "--out", tmp_path / "out", "--steps", "100k"
    )
    assert_refused(answer, 64, f"cli_toys:{toy}-v0" if toy != "Wide" else "replay", said)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "text",
    [
        "os.system('touch hacked')",
        "__import__('os').system('touch hacked')",
        "Held(__import__('os').getpid())",
    ],
)
def test_a_part_is_read_and_never_evaluated(
    prepared: Answer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
):
    def forbidden(*words: object) -> None:
        raise AssertionError("it was evaluated")

    monkeypatch.setattr(os, "system", forbidden)
    monkeypatch.setattr(os, "getpid", forbidden)
    assert_refused(
        prepared("train", "dac", POINT, "--out", tmp_path / "out", "--explorer.optimism", text),
        64,
        "is not a part",
    )


@pytest.mark.parametrize(
    ("words", "path", "value"),
    [
        ("--pessimism.beta -0.5", "algorithm.pessimism.beta", -0.5),
        ("--pessimism.beta -1e-3", "algorithm.pessimism.beta", -0.001),
        ("--pessimism.beta=-.25", "algorithm.pessimism.beta", -0.25),
        ("--steps 1.5M", "steps", 1_500_000),
        ("--steps 200K", "steps", 200_000),
        ("--policy.hidden 8,16", "algorithm.policy.hidden", [8, 16]),
        ("--resets 160k,320k", "resets", [160_000, 320_000]),
        ("--explorer.optimism Held(0.5)", "algorithm.explorer.optimism.value", 0.5),
        ("--explorer FromPolicy()", "algorithm.explorer.part", "FromPolicy"),
        ("--explorer.form simple", "algorithm.explorer.form", "simple"),
        ("--critic.layer-norm yes", "algorithm.critic.layer_norm", True),
        ("--pessimism.backup-beta none", "algorithm.pessimism.backup_beta", None),
        ("--protocol.time-limit 5", "protocol.time_limit", 5),
        ("--time-limit 5", "protocol.time_limit", 5),
    ],
)  # fmt: skip
def test_a_good_option_reaches_the_run(
    prepared: Answer, tmp_path: Path, words: str, path: str, value: object
):
    code, _, err = prepared("train", "dac", POINT, "--out", tmp_path, *words.split())
    assert (code, err) == (0, "")
    found = json.loads((run_path(tmp_path) / "run.json").read_text())
    for key in path.split("."):
        found = found[key]
    assert found == value


@pytest.mark.parametrize(
    ("words", "seeds"),
    [
        ("", [0]),
        ("--seed 7", [7]),
        ("--seeds 3", [0, 1, 2]),
        ("--seeds 3-5", [3, 4, 5]),
        ("--seeds 0,2,7", [0, 2, 7]),
    ],
)
def test_seeds_are_a_number_a_range_or_a_list(
    prepared: Answer, tmp_path: Path, words: str, seeds: list[int]
):
    assert prepared("train", "dac", POINT, "--out", tmp_path, *words.split())[0] == 0
    assert sorted(path.name for path in run_path(tmp_path).parent.iterdir()) == [
        f"seed{seed}" for seed in seeds
    ]


@pytest.mark.parametrize("where", ["a file", "below a file", "/proc/dualac"])
def test_a_place_that_cannot_hold_runs_is_told_in_one_line(
    prepared: Answer, tmp_path: Path, where: str
):
    (tmp_path / "file").touch()
    out = {"a file": tmp_path / "file", "below a file": tmp_path / "file" / "runs"}.get(
        where, Path(where)
    )
    answer = prepared("train", "dac", POINT, "--out", out, *SHORT)
    assert answer[0] in (64, 65)
    assert_refused(answer, answer[0], str(out))


def test_a_directory_of_another_run_is_refused_with_the_difference_and_left_alone(
    prepared: Answer, mine: Path, tmp_path: Path
):
    before = contents(tmp_path)
    answer = prepared(
        "train",
        "dac",
        POINT,
        "--out",
        tmp_path / "mine",
        *SHORT,
        "--gamma",
        "0.9",
        "--policy.hidden",
        "16",
    )
    assert_refused(
        answer,
        65,
        str(mine),
        "gamma: 0.99 there, 0.9 here",
        "hidden: [8] there, [16] here",
        "choose another --out",
    )
    assert contents(tmp_path) == before


def test_where_one_seed_is_refused_no_directory_is_made_for_the_others(
    prepared: Answer, mine: Path, tmp_path: Path
):
    before = contents(tmp_path)
    assert_refused(
        prepared(
            "train",
            "dac",
            POINT,
            "--out",
            tmp_path / "mine",
            *SHORT,
            "--gamma",
            "0.9",
            "--seeds",
            "1,0",
        ),
        65,
        "holds another run",
    )
    assert contents(tmp_path) == before


def test_the_exit_code_and_the_one_line_reach_the_shell(tmp_path: Path):
    done = dualac("train", "dac", POINT, "--out", tmp_path / "out", "--steps", "5k")
    assert_refused(answer_of(done), 64, "ends before learning starts")
    assert done.stdout == ""
    assert not (tmp_path / "out").exists()


def test_a_reader_that_leaves_early_is_no_error():
    """As in `dualac list tasks | head -1`."""
    command = f"set -o pipefail; '{DUALAC}' list tasks 2>/dev/null | head -n 1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "dmc/acrobot-swingup\n", "")


def test_two_seeds_make_two_directories_that_are_done(finished: tuple[Path, str]):
    for seed in (0, 1):
        path = run_path(finished[0], seed=seed)
        assert json.loads((path / "DONE").read_text())["step"] == 40
        assert [row["step"] for row in rows(path / "eval.jsonl")] == [0, 20, 40]
        assert [row["step"] for row in rows(path / "train.jsonl")] == [10, 20, 30, 40]


def test_away_from_a_terminal_progress_is_plain_lines(finished: tuple[Path, str]):
    said = finished[1]
    assert "\x1b" not in said
    assert "2 observations, 2 actions; 40 steps, replay ratio 2; seed 0, 1" in said
    last = [line for line in said.splitlines() if re.match(r"seed [01]  done ", line)]
    assert len(last) == 2
    for line in last:
        for word in (
            "step 40/40",
            "steps/s",
            "left",
            "eval",
            "return",
            "success",
            "KL ",
            "/0.25",
            "beta_o",
            "KL weight",
            "alpha",
        ):
            assert word in line


def test_the_end_tells_the_score_beside_a_random_policys_and_where_the_curve_is(
    finished: tuple[Path, str],
):
    out, said = finished
    assert (
        len(re.findall(r"seed \d: learned policy \S+ at step 40, random policy \S+; ", said)) == 2
    )
    picture = run_path(out).parent / "curve.png"
    assert f"learning curve: {picture}" in said
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_tensorboard_writes_an_event_file_a_seed(finished: tuple[Path, str]):
    for seed in (0, 1):
        (events,) = (run_path(finished[0], seed=seed) / "tensorboard").glob("events.out.tfevents.*")
        written = events.read_bytes()
        for name in (b"eval/mean_reward", b"train/kl", b"train/optimism", b"rollout/ep_rew_mean"):
            assert name in written


def test_training_a_finished_run_again_does_nothing_and_says_so(
    here: Answer, mine: Path, tmp_path: Path
):
    before = contents(mine)
    code, said, err = here("train", "dac", POINT, "--out", tmp_path / "mine", *SHORT)
    assert (code, err) == (0, "")
    assert "already done" in said
    assert contents(mine) == before


def test_resuming_a_finished_run_does_nothing_and_says_so(here: Answer, mine: Path):
    before = contents(mine)
    code, said, err = here("resume", mine)
    assert (code, err) == (0, "")
    assert "already done" in said
    assert contents(mine) == before


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("SIGHUP", 129),
        *(
            pytest.param(name, code, marks=pytest.mark.kill)
            for name, code in (("SIGINT", 130), ("SIGQUIT", 131), ("SIGTERM", 143))
        ),
    ],
)
def test_a_signal_checkpoints_and_prints_the_command_that_resumes_to_the_same_end(
    here: Answer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, code: int
):
    """A terminal's Ctrl-C is typed at the end of this file."""
    env = {
        "TOY_SIGNAL": name,
        "TOY_STEPS": "55",
        "TOY_ONCE": str(tmp_path / "once"),
    }  # 10 of the self-test, 20 of evaluations, 25 of training
    path = run_path(tmp_path / "stopped", "Interrupting")
    stopped = dualac(
        "train", "dac", "cli_toys:Interrupting-v0", "--out", tmp_path / "stopped", *SHORT, **env
    )
    assert_refused(
        answer_of(stopped),
        code,
        "stopped at step 25, checkpoint written; continue with: dualac resume",
        str(path),
    )
    assert (path / "checkpoints" / "25").is_dir()
    assert not (path / "DONE").exists()

    command = stopped.stderr.partition("continue with: dualac ")[2].split()
    for variable, value in env.items():
        monkeypatch.setenv(variable, value)
    resumed, _, err = here(*command)
    assert (resumed, err) == (0, "")
    assert (path / "DONE").exists()
    assert [event["event"] for event in rows(path / "events.jsonl")] == [
        "started",
        "first_checkpoint",
        "interrupted",
        "resumed",
        "done",
    ]
    assert [row["step"] for row in rows(path / "eval.jsonl")] == [0, 20, 40]


@pytest.mark.kill
def test_a_pack_is_stopped_and_resumed_as_one(tmp_path: Path):
    env = {"TOY_SIGNAL": "SIGINT", "TOY_STEPS": "100", "TOY_ONCE": str(tmp_path / "once")}
    pack = [run_path(tmp_path, "Interrupting", seed) for seed in (0, 1)]
    stopped = dualac(
        "train",
        "dac",
        "cli_toys:Interrupting-v0",
        "--out",
        tmp_path,
        "--seeds",
        "2",
        "--pack",
        *SHORT,
        **env,
    )
    assert "one packed program" in stopped.stdout
    assert_refused(answer_of(stopped), 130, f"dualac resume {pack[0]} {pack[1]}")
    resumed = dualac("resume", pack[1], **env)
    assert (resumed.returncode, resumed.stderr) == (0, "")
    assert all((path / "DONE").exists() for path in pack)


def test_a_run_that_is_being_trained_is_locked(here: Answer, mine: Path):
    from dualac.runs.lock import owned

    (mine / "DONE").unlink()
    with owned(mine):
        assert_refused(
            here("resume", mine, "--quiet"),
            73,
            str(mine),
            "is being trained by another process",
            str(os.getpid()),
        )


def test_quiet_prints_no_progress(here: Answer, mine: Path, tmp_path: Path):
    code, said, err = here(
        "train", "dac", POINT, "--out", tmp_path / "mine", *SHORT, "--steps", "50", "--quiet"
    )
    assert (code, err) == (0, "")
    assert "steps/s" not in said
    assert json.loads((mine / "DONE").read_text())["step"] == 50


@pytest.mark.parametrize("toy", ["BrokenReset", pytest.param("Broken", marks=pytest.mark.kill)])
def test_an_environment_of_nans_fails_the_run_beyond_a_limit(
    here: Answer, tmp_path: Path, toy: str
):
    path = run_path(tmp_path, toy)
    assert_refused(
        here("train", "dac", f"cli_toys:{toy}-v0", "--out", tmp_path, *SHORT),
        65,
        "environment broken",
        "11 times",
        "NaN or infinity",
    )
    assert "environment broken" in json.loads((path / "FAILED").read_text())["reason"]
    assert not (path / "DONE").exists()


def test_a_loss_that_is_no_longer_finite_stops_the_run_and_keeps_the_last_checkpoint(
    here: Answer, tmp_path: Path
):
    path = run_path(tmp_path, "Diverging")
    assert_refused(
        here(
            "train",
            "dac",
            "cli_toys:Diverging-v0",
            "--out",
            tmp_path,
            *SHORT,
            "--checkpoint-every",
            "15",
        ),
        65,
        "diverged",
        "step 20",
    )
    assert "diverged" in json.loads((path / "FAILED").read_text())["reason"]
    assert [folder.name for folder in (path / "checkpoints").iterdir()] == ["15"]
    assert_refused(
        here("resume", path), 65, "failed at step", "diverged", "it would again", "FAILED"
    )


@pytest.mark.kill
def test_one_bad_transition_is_counted_not_stored_and_forgiven(here: Answer, tmp_path: Path):
    path = run_path(tmp_path, "BrokenOnce")
    code, _, err = here(
        "train", "dac", "cli_toys:BrokenOnce-v0", "--out", tmp_path, *SHORT, "--quiet"
    )
    assert (code, err) == (0, "")
    assert rows(path / "train.jsonl")[-1]["rollout/bad_transitions"] == 1
    assert json.loads((path / "checkpoints" / "40" / "manifest.json").read_text())["added"] == 39
    assert [
        event["step"] for event in rows(path / "events.jsonl") if event["event"] == "bad_transition"
    ] == [7]


@pytest.mark.kill
def test_an_environment_that_keeps_raising_is_one_line_and_a_traceback_on_disk(
    here: Answer, tmp_path: Path
):
    path = run_path(tmp_path, "Raising")
    answer = here("train", "dac", "cli_toys:Raising-v0", "--out", tmp_path, *SHORT, "--quiet")
    assert_refused(
        answer,
        65,
        "environment broken",
        "11 times",
        "ZeroDivisionError: the toy fell apart on two lines",
    )
    assert "the toy fell apart" in (path / "traceback.txt").read_text()
    assert_refused(
        here("resume", path, "--env-timeout", "5"), 64, "--env-timeout needs --isolate-env"
    )


def test_spaces_that_change_in_a_reset_are_one_line(here: Answer, tmp_path: Path):
    said = (
        "acts in Box(-2.0, 2.0, (2,), float32) after reset and declared Box(-1.0, 1.0, (2,), "
        "float32) when it was made: set its spaces in __init__"
    )
    assert_refused(
        here("train", "dac", "cli_toys:Settling-v0", "--out", tmp_path, *SHORT), 65, said
    )


@pytest.mark.kill
def test_a_process_that_dies_is_told_with_the_command_that_goes_on(here: Answer, tmp_path: Path):
    answer = here("train", "dac", "cli_toys:Dying-v0", "--out", tmp_path, *SHORT, "--quiet")
    assert_refused(answer, 137, "SIGKILL", f"dualac resume {run_path(tmp_path, 'Dying')}")


@pytest.mark.kill
def test_a_process_that_its_environment_ends_is_told_and_goes_on_from_its_last_checkpoint(
    here: Answer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("TOY_ONCE", str(tmp_path / "once"))
    path = run_path(tmp_path, "Exiting")
    answer = here("train", "dac", "cli_toys:Exiting-v0", "--out", tmp_path, *SHORT, "--quiet")
    assert_refused(
        answer,
        7,
        "ended with code 7",
        str(path / "worker.log"),
        f"dualac resume {path} continues from its last checkpoint",
    )
    assert [folder.name for folder in (path / "checkpoints").iterdir()] == ["20"]
    assert here("resume", path, "--quiet")[0] == 0
    assert json.loads((path / "DONE").read_text())["step"] == 40


@pytest.mark.kill
def test_an_isolated_environment_that_ends_its_process_costs_an_episode(
    here: Answer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("TOY_ONCE", str(tmp_path / "once"))
    path = run_path(tmp_path, "Exiting")
    code, said, err = here(
        "train",
        "dac",
        "cli_toys:Exiting-v0",
        "--out",
        tmp_path,
        *SHORT,
        "--isolate-env",
        "--env-timeout",
        "50",
    )
    assert (code, err) == (0, "")
    assert "random policy" in said
    bad = [
        event["reason"]
        for event in rows(path / "events.jsonl")
        if event["event"].startswith("bad_")
    ]
    assert bad == ["ended its process with code 7"]


@pytest.mark.kill
def test_what_a_simulator_prints_goes_to_the_log_and_does_not_garble_the_progress(
    here: Answer, tmp_path: Path
):
    code, said, err = here("train", "sac", "cli_toys:Chatty-v0", "--out", tmp_path, *SHORT_SAC)
    assert (code, err) == (0, "")
    assert "nonsense" not in said.partition("  done ")[0]
    assert "seed 0  done       step 40/40" in said
    assert (
        "hello from the simulator"
        in (run_path(tmp_path, "Chatty", algorithm="sac") / "worker.log").read_text()
    )


def test_a_damaged_checkpoint_is_named_and_the_one_before_it_used(here: Answer, mine: Path):
    (mine / "DONE").unlink()
    with (mine / "checkpoints" / "40" / "state.safetensors").open("ab") as file:
        file.write(b"x")
    code, said, err = here("resume", mine)
    assert (code, err) == (0, "")
    assert f"checkpoint {mine / 'checkpoints' / '40'} is damaged" in said
    assert "resumed    step 20/40" in said
    assert (mine / "DONE").exists()


def test_a_run_whose_checkpoints_are_all_damaged_is_refused_and_never_started_from_scratch(
    here: Answer, mine: Path, tmp_path: Path
):
    (mine / "DONE").unlink()
    for manifest in mine.glob("checkpoints/*/manifest.json"):
        manifest.write_bytes(manifest.read_bytes()[:50])
    before = contents(mine / "checkpoints"), (mine / "eval.jsonl").read_bytes()
    refusal = (
        65,
        "checkpoints/40 is damaged",
        "checkpoints/20 is damaged",
        "no checkpoint is left to resume from",
    )
    assert_refused(here("resume", mine), *refusal)
    assert_refused(here("train", "dac", POINT, "--out", tmp_path / "mine", *SHORT), *refusal)
    assert (contents(mine / "checkpoints"), (mine / "eval.jsonl").read_bytes()) == before


def test_a_run_that_lost_its_checkpoints_is_refused_and_keeps_its_results(here: Answer, mine: Path):
    (mine / "DONE").unlink()
    shutil.rmtree(mine / "checkpoints")
    before = (mine / "eval.jsonl").read_bytes()
    assert_refused(here("resume", mine), 65, "has lost its checkpoints")
    assert (mine / "eval.jsonl").read_bytes() == before
    assert_refused(here("evaluate", mine), 65, str(mine), "no checkpoint can be read")


@pytest.mark.parametrize(
    "content", ["", "garbage", "[]", "3", '{"part": "Run"}', '{"part": "Walk"}', "{}"]
)
@pytest.mark.parametrize("command", ["resume", "evaluate"])
def test_a_run_json_that_is_none_is_named(here: Answer, tmp_path: Path, content: str, command: str):
    (tmp_path / "run.json").write_text(content)
    assert_refused(here(command, tmp_path), 65, str(tmp_path / "run.json"))


@pytest.mark.parametrize(
    ("key", "value"),
    [("steps", "many"), ("seed", None), ("steps", 1.5), ("resets", 3), ("task", 7)],
)
def test_a_run_json_with_a_value_of_another_type_is_refused(
    here: Answer, mine: Path, key: str, value: object
):
    spec = mine / "run.json"
    spec.write_text(json.dumps({**json.loads(spec.read_text()), key: value}))
    assert_refused(here("resume", mine), 65, str(spec), key)


def test_where_there_is_no_run_it_says_so(here: Answer, tmp_path: Path):
    for command in ("resume", "evaluate", "play"):
        for path in (tmp_path, tmp_path / "nothing"):
            assert_refused(here(command, path), 65, str(path))


def test_evaluate_json_is_one_object_with_a_row_an_episode(
    here: Answer, finished: tuple[Path, str]
):
    code, said, err = here("evaluate", run_path(finished[0]), "--episodes", "3", "--json")
    assert (code, err, said.count("\n")) == (0, "", 1)
    answer = json.loads(said)
    assert (answer["task"], answer["step"], len(answer["episodes"])) == (
        "gym/cli_toys:Point-v0",
        40,
        3,
    )
    returns = [row["return"] for row in answer["episodes"]]
    assert answer["eval/mean_reward"] == pytest.approx(sum(returns) / 3)
    assert {"random/mean_reward", "eval/std_reward", "eval/success_rate"} <= set(answer)


def test_evaluate_is_a_function_of_its_seed(here: Answer, finished: tuple[Path, str]):
    first, again, other = (
        here("evaluate", run_path(finished[0]), "--episodes", "2", "--json", "--seed", seed)[1]
        for seed in ("3", "3", "4")
    )
    assert first == again != other


def test_evaluate_shows_the_learned_policy_beside_a_random_one(
    here: Answer, finished: tuple[Path, str]
):
    code, said, err = here("evaluate", run_path(finished[0]), "--episodes", "2", "--step", "20")
    assert (code, err) == (0, "")
    said = " ".join(said.split())
    for word in (
        "dac on gym/cli_toys:Point-v0, step 20, 2 episodes",
        "learned",
        "random",
        "mean",
        "success",
    ):
        assert word in said


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ("--episodes 0", 64, "--episodes must be at least 1"),
        ("--episodes x", 64, "--episodes"),
        ("--seed -1", 64, "--seed at least 0"),
        ("--step x", 64, "'x' is not a whole number"),
        ("--step 7", 65, "no checkpoint at step 7"),
    ],
)
def test_a_bad_option_of_evaluate_is_one_line(
    here: Answer, finished: tuple[Path, str], words: str, code: int, said: str
):
    assert_refused(here("evaluate", run_path(finished[0]), *words.split()), code, said)


def test_list_algorithms_shows_every_row_by_its_parts_or_by_what_it_changes(here: Answer):
    from dualac.agents.algorithms import ALGORITHMS

    code, said, err = here("list", "algorithms")
    assert (code, err) == (0, "")
    lines = {line.split()[0]: line for line in said.splitlines()[1:] if line.strip()}
    assert set(lines) == {*ALGORITHMS, "learns", "sr-sac"}
    for word in (
        "Fixed(-0.2)",
        "Soft()",
        "OptimisticActor(target_kl=0.25)",
        "Scalar()",
        "alpha beta_o tau",
    ):
        assert word in lines["dac"]
    assert (
        "Bandit(arms=(-1.0, 0.0))" in lines["top"]
        and "Deterministic(delay=1, target_noise=0.0)" in lines["ddpg"]
    )
    assert "dac with critic.layer_norm=True" in lines["dac-ln"]
    assert lines["dac:no-adjustments"].split()[1:3] == ["alpha", "dac"]
    assert "sac with replay_ratio=16" in lines["sr-sac"]


def test_two_rows_are_told_apart_choice_by_choice(here: Answer):
    code, said, _ = here("list", "algorithms", "dac", "--diff", "sac")
    assert code == 0
    assert [line.split() for line in said.splitlines()] == [
        ["dac", "sac"],
        ["pessimism.beta", "-0.2", "-1.0"],
        ["explorer", "OptimisticActor()", "FromPolicy()"],
    ]
    assert here("list", "algorithms", "dac", "--diff", "dac")[1] == "dac and dac are the same\n"
    assert "Fixed(-1.0, climbs='first')" in here("list", "algorithms", "td3")[1]
    assert_refused(here("list", "tasks", "--diff", "sac"), 64, "belong to algorithms")
    assert_refused(here("list", "algorithms", "dac", "--diff", "sca"), 64, "did you mean sac")


def test_list_tasks_prints_a_task_a_line_and_nothing_else(here: Answer):
    from dualac import envs

    code, said, err = here("list", "tasks")
    assert code == 0
    assert said.splitlines() == envs.all_tasks()
    assert "gym/<module>:<id>" in err


def test_help_names_every_command_and_every_option(here: Answer):
    assert all(f"dualac {name}" in here("--help")[1] for name in cli.COMMANDS)
    said = here("train", "dac", "--help")[1]
    for option in (
        "--seeds",
        "--steps",
        "--pack",
        "--tensorboard",
        "--pessimism.beta",
        "--explorer.target-kl",
        "--policy.hidden",
        "--gamma",
    ):
        assert option in said


def test_help_starts_without_importing_jax():
    asked = (
        "import sys; sys.argv = ['dualac', '--help']; import dualac.cli as c; c.run(['--help']); "
        "sys.exit('jax' in sys.modules)"
    )
    assert (
        subprocess.run(
            [sys.executable, "-c", asked], stdout=subprocess.DEVNULL, check=False
        ).returncode
        == 0
    )


def test_play_writes_an_mp4(here: Answer, finished: tuple[Path, str], tmp_path: Path):
    """Of a toy that draws itself: no graphics driver is asked."""
    pytest.importorskip("imageio_ffmpeg")
    code, said, err = here("play", run_path(finished[0]), "--video", tmp_path / "films" / "toy.mp4")
    assert (code, err) == (0, "")
    assert re.match(r"return \S+; .*toy\.mp4", said)
    assert b"ftyp" in (tmp_path / "films" / "toy.mp4").read_bytes()[:16]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ("--video film.avi", 64, "should end in .mp4"),
        ("--seed -1", 64, "--seed"),
        ("--step 7", 65, "no checkpoint at step 7"),
    ],
)
def test_a_bad_option_of_play_is_one_line_and_no_film(
    here: Answer, mine: Path, words: str, code: int, said: str
):
    before = contents(mine)
    assert_refused(here("play", mine, *words.split()), code, said)
    assert contents(mine) == before


def test_a_film_that_cannot_be_written_is_one_line(
    here: Answer, finished: tuple[Path, str], tmp_path: Path
):
    (tmp_path / "file").touch()
    film = tmp_path / "file" / "toy.mp4"
    answer = here("play", run_path(finished[0]), "--video", film)
    assert answer[0] in (64, 65)
    assert_refused(answer, answer[0], str(film.parent))


@pytest.fixture(scope="session")
def pendulum(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Train on a task that MuJoCo draws."""
    pytest.importorskip("dm_control")
    out = tmp_path_factory.mktemp("pendulum")
    words = [
        "train",
        "sac",
        "dmc/pendulum-swingup",
        *SHORT_SAC,
        "--protocol.time-limit",
        "10",
        "--quiet",
    ]
    assert dualac(*words, "--out", out).returncode == 0
    return out / "sac" / "dmc-pendulum-swingup" / "rr2" / "seed0"


@pytest.mark.suite
def test_play_draws_a_mujoco_task_where_egl_works(
    pendulum: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    from dualac.inspection.video import render_backend

    monkeypatch.setenv("MUJOCO_GL", "egl")
    if render_backend() is None:
        pytest.skip("EGL does not work on this machine")
    done = dualac("play", pendulum, "--video", tmp_path / "film.mp4")
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "film.mp4").stat().st_size > 1000


@pytest.mark.suite
def test_play_says_what_to_install_where_nothing_can_draw(pendulum: Path, tmp_path: Path):
    done = dualac("play", pendulum, "--video", tmp_path / "film.mp4", MUJOCO_GL="bogus")
    assert_refused(answer_of(done), 64, "MUJOCO_GL", "egl")
    assert "install" in done.stderr
    assert not (tmp_path / "film.mp4").exists()


def test_play_says_so_where_the_task_cannot_be_drawn(here: Answer, mine: Path, tmp_path: Path):
    spec = mine / "run.json"
    spec.write_text(spec.read_text().replace("Point-v0", "Blind-v0"))
    answer = here("play", mine, "--video", tmp_path / "film.mp4")
    assert answer[0] in (64, 65)
    assert_refused(answer, answer[0])
    assert not (tmp_path / "film.mp4").exists()


AT_A_TERMINAL = (
    "import os, fcntl, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], "
    "sys.argv[1:])"
)


class Terminal:
    """A command at a terminal of 160 columns: what it has shown so far, and a keyboard."""

    def __init__(self, process: subprocess.Popen[bytes], screen: int) -> None:
        self.process, self._screen, self.shown = process, screen, ""

    def wait_for(self, words: tuple[str, ...]) -> None:
        while not all(word in self.shown for word in words):
            assert self._read(), f"it ended before it showed all of {words}: {self.shown}"

    def hang_up(self) -> None:
        os.close(self._screen)

    def press(self, key: bytes) -> None:
        os.write(self._screen, key)

    def wait(self) -> int:
        while self._read():
            pass
        return self.process.wait(SECONDS)

    def _read(self) -> bool:
        ready, _, _ = select.select([self._screen], [], [], SECONDS)
        assert ready, f"nothing more came after: {self.shown}"
        with contextlib.suppress(OSError):  # how Linux says that the other side is closed
            if more := os.read(self._screen, 65536):
                self.shown += more.decode(errors="replace")
                return True
        return False


@contextlib.contextmanager
def terminal(*words: str | Path) -> Iterator[Terminal]:
    screen, inside = pty.openpty()
    fcntl.ioctl(inside, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 160, 0, 0))
    env = {**os.environ, "TERM": "xterm"}
    for name in ("COLUMNS", "NO_COLOR", "FORCE_COLOR"):
        env.pop(name, None)
    process = subprocess.Popen(
        [sys.executable, "-c", AT_A_TERMINAL, DUALAC, *map(str, words)],
        stdin=inside, stdout=inside, stderr=inside, cwd=HERE, env=env, start_new_session=True,
    )  # fmt: skip
    os.close(inside)
    try:
        yield Terminal(process, screen)
    finally:
        process.kill()
        process.wait()
        with contextlib.suppress(OSError):  # it was closed
            os.close(screen)


def test_a_terminal_shows_a_live_table_and_ctrl_c_checkpoints_and_prints_the_resume_command(
    tmp_path: Path,
):
    path = run_path(tmp_path)
    with terminal(
        "train",
        "dac",
        POINT,
        "--out",
        tmp_path,
        *NETWORKS,
        *RUN,
        "--steps",
        "1M",
        "--capacity",
        "1k",
        "--checkpoint-every",
        "1M",
    ) as shown:
        shown.wait_for(
            (
                "seed",
                "step",
                "steps/s",
                "left",
                "eval",
                "return",
                "success",
                "/0.25",
                "beta_o",
                "KL weight",
                "alpha",
                "/1M",
            )
        )
        shown.press(b"\x03")
        code = shown.wait()
    assert code == 130
    assert "\x1b[" in shown.shown
    assert "Traceback" not in shown.shown
    assert "stopping after this step; press Ctrl-C again to stop at once" in shown.shown
    last = shown.shown.replace("\r\n", "")
    stopped = re.search(
        r"dualac: stopped at step (\d+), checkpoint written; continue with: dualac resume (\S+)",
        last,
    )
    assert stopped
    assert stopped[2] == str(path)
    assert (path / "checkpoints" / stopped[1] / "manifest.json").exists()
    assert not (path / "FAILED").exists()


@pytest.mark.kill
def test_a_terminal_that_is_closed_checkpoints_its_run(tmp_path: Path):
    path = run_path(tmp_path)
    words = ("--steps", "1M", "--capacity", "1k", "--checkpoint-every", "1M")
    with terminal("train", "dac", POINT, "--out", tmp_path, *NETWORKS, *RUN, *words) as shown:
        shown.wait_for(("eval", "/1M", "KL weight"))
        shown.hang_up()
        assert shown.process.wait(SECONDS) == 129
    events = [event["event"] for event in rows(path / "events.jsonl")]
    assert events == ["started", "first_checkpoint", "interrupted"]
    assert not (path / "FAILED").exists()


def test_an_option_s_value_is_not_taken_for_the_algorithm(
    prepared: Answer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Which word is the algorithm depends on which options take a value."""
    monkeypatch.chdir(tmp_path)
    assert_refused(
        prepared("train", "dacc", "gym/Pendulum-v1", "--out", "dac"),
        64,
        "no algorithm is called 'dacc'",
        "did you mean dac",
    )
    assert prepared("train", "--out", "sac", "dac", "gym/Pendulum-v1")[0] == 0
    assert [path.name for path in (tmp_path / "sac").iterdir()] == ["dac"]


def test_a_damaged_checkpoint_is_named_by_those_who_pass_it_over(here: Answer, mine: Path):
    newest = max((mine / "checkpoints").iterdir(), key=lambda path: int(path.name))
    (newest / "state.safetensors").write_bytes(b"")
    code, said, complained = here("evaluate", mine, "--episodes", "1")
    assert (code, "learned" in said) == (0, True)
    assert f"checkpoint {newest} is damaged" in complained


def test_a_run_that_failed_does_not_keep_others_from_being_resumed(
    here: Answer, mine: Path, tmp_path: Path
):
    failed = Path(shutil.copytree(mine, tmp_path / "failed"))
    (failed / "DONE").unlink()
    (failed / "FAILED").write_text(
        json.dumps({"step": 3, "reason": "diverged", "error": "RunFailedError"})
    )
    (mine / "DONE").unlink()
    code, _, complained = here("resume", mine, failed)
    assert (code, "failed at step 3" in complained) == (65, True)
    assert (mine / "DONE").exists()


def test_a_directory_is_resumed_without_what_failed_in_it(here: Answer, mine: Path, tmp_path: Path):
    below = tmp_path / "below"
    done, failed = (Path(shutil.copytree(mine, below / name)) for name in ("done", "failed"))
    (failed / "DONE").unlink()
    (failed / "FAILED").write_text(
        json.dumps({"step": 3, "reason": "diverged", "error": "RunFailedError"})
    )
    before = contents(done), contents(failed)
    code, said, complained = here("resume", below)
    assert (code, complained) == (0, "")
    assert f"passed over: {failed} failed at step 3: diverged" in said
    assert "already done" in said
    assert (contents(done), contents(failed)) == before
    shutil.rmtree(done)
    assert_refused(here("resume", below), 65, "failed at step 3")
    assert_refused(here("resume", failed), 65, "failed at step 3")


def swapped(mine: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the environment of a run another one, of the same sizes."""
    monkeypatch.syspath_prepend(HERE)
    cli_toys = importlib.import_module("cli_toys")
    if kind == "range":
        monkeypatch.setattr(
            cli_toys.Point, "action_space", cli_toys.spaces.Box(-3.0, 3.0, (2,), np.float32)
        )
        return
    described = json.loads((mine / "task.json").read_text())
    described["observation"] = [["near", 0, 1], ["far", 1, 2]]
    (mine / "task.json").write_text(json.dumps(described))


@pytest.mark.parametrize("kind", ["keys", "range"])
def test_an_environment_that_is_not_the_one_learned_from_is_refused(
    here: Answer, mine: Path, monkeypatch: pytest.MonkeyPatch, kind: str
):
    swapped(mine, kind, monkeypatch)
    differs = {
        "keys": "observation: ",
        "range": "action.low: [-1.0, -1.0] there, [-3.0, -3.0] here",
    }[kind]
    for command in ("evaluate", "play"):
        said = ("was trained on another gym/cli_toys:Point-v0", differs, "as it was")
        assert_refused(here(command, mine), 65, *said)
    assert not (mine / "play.mp4").exists()


def test_a_policy_makes_the_environment_it_learned_from_and_no_other(
    here: Answer, mine: Path, monkeypatch: pytest.MonkeyPatch
):
    import dualac as library
    from dualac.errors import DataError

    policy = library.load_policy(mine)
    assert policy.make_env(seed=1).describe() == json.loads((mine / "task.json").read_text())
    swapped(mine, "range", monkeypatch)
    with pytest.raises(DataError, match="was trained on another"):
        policy.make_env()


def test_evaluate_counts_no_broken_episode(
    here: Answer, mine: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.syspath_prepend(HERE)
    cli_toys = importlib.import_module("cli_toys")
    taken, step = [], cli_toys.Point.step

    def breaking(self, action):
        taken.append(1)
        if len(taken) == 13 or len(taken) > 10_000:
            raise ZeroDivisionError("of the toy")
        return step(self, action)

    monkeypatch.setattr(cli_toys.Point, "step", breaking)
    code, said, complained = here("evaluate", mine, "--episodes", "3", "--json")
    answer = json.loads(said)
    returns = [row["return"] for row in answer["episodes"] if not row.get("bad")]
    assert (code, len(returns), answer["broken"]) == (0, 2, 1)
    assert answer["eval/mean_reward"] == pytest.approx(sum(returns) / 2)
    assert "raised ZeroDivisionError" in complained
    taken[:] = []
    code, said, _ = here("evaluate", mine, "--episodes", "3")
    assert (code, "1 of 3 episodes of the learned policy broke" in said) == (0, True)
    taken[:] = [1] * 10_000
    code, said, _ = here("evaluate", mine, "--episodes", "3", "--json")
    answer = json.loads(said)
    assert (code, answer["broken"], "eval/mean_reward" in answer) == (0, 3, False)
    code, said, _ = here("evaluate", mine, "--episodes", "3")
    assert (code, "3 of 3 episodes of the learned policy broke" in said) == (0, True)
