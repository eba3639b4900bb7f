"""What is done with a trained run: `dualac evaluate` and `dualac play`."""

import json
from pathlib import Path

from dualac.cli.options import Parser, add_trust, console, warn
from dualac.errors import UsageError
from dualac.parts.text import parse_count


def evaluate(argv: list[str]) -> int:
    """Play a trained policy and score it: dualac evaluate RUN"""
    from dualac.cli.summary import evaluation_as_json, random_rows, show_evaluation
    from dualac.envs.faults.guarded import Guarded
    from dualac.machine.cores import usable_cores
    from dualac.training.evaluation import Evaluator
    from dualac.training.policy import load_policy
    from dualac.training.run import require_same_task
    from dualac.training.streams import BASELINE, episode_seed

    parser = Parser(prog="dualac evaluate")
    parser.add_argument("path", type=Path, metavar="RUN")
    parser.add_argument("--episodes", type=int, default=10, help="how many (10)")
    parser.add_argument("--seed", type=int, default=0, help="decides the episodes (0)")
    parser.add_argument("--step", type=parse_count, help="the checkpoint of this step (the newest)")
    parser.add_argument("--json", action="store_true", help="one object, with a row an episode")
    add_trust(parser)
    args = parser.parse(argv)
    if not 1 <= args.episodes <= 100_000 or args.seed < 0:
        raise UsageError(
            f"--episodes must be at least 1 and --seed at least 0, not {args.episodes} and "
            f"{args.seed}"
        )
    policy = load_policy(args.path, args.step, trust=args.trust)
    for sentence in policy.damaged:
        warn(sentence)
    env = Guarded(policy.run.task, policy.run.protocol)
    require_same_task(args.path, env.describe())
    if sentence := env.warning():
        warn(sentence)
    evaluator = Evaluator(env, usable_cores()[1:])
    seeds = [episode_seed(args.seed, BASELINE, episode) for episode in range(args.episodes)]
    rows = evaluator.evaluate(
        policy.begin_episode,
        seeds,
        lambda seed, error: warn(f"the episode of seed {seed} broke: {error}"),
    )
    random = random_rows(evaluator.env, seeds)
    evaluator.close()
    if args.json:
        print(json.dumps(evaluation_as_json(policy, rows, random)))
    else:
        show_evaluation(policy, rows, random, console)
    return 0


def play(argv: list[str]) -> int:
    """Film a trained policy: dualac play RUN --video out.mp4"""
    from dualac.inspection.video import film

    parser = Parser(prog="dualac play")
    parser.add_argument("path", type=Path, metavar="RUN")
    parser.add_argument("--video", type=Path, help="where the film goes (RUN/play.mp4)")
    parser.add_argument("--seed", type=int, default=0, help="decides the episode (0)")
    parser.add_argument("--step", type=parse_count, help="the checkpoint of this step (the newest)")
    add_trust(parser)
    args = parser.parse(argv)
    out = args.video or args.path / "play.mp4"
    score = film(args.path, out, args.seed, args.step, trust=args.trust, warn=warn)
    console.print(f"return {score:.1f}; {out}", soft_wrap=True)
    return 0
