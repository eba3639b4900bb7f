"""The theorem on the command line: `dualac theory`."""

import argparse
import contextlib
import json
from pathlib import Path
from typing import Any

from dualac.cli.options import Parser, add_trust, say, warn
from dualac.errors import UsageError
from dualac.parts.text import parse, parse_count
from dualac.runs.files import without_nan

FIGURE_HELP = """also figures of trained runs, each into the directory --plot DIR:
  dualac theory coverage RUN --plot DIR         critics' spread and both actors (DAC, one action)
  dualac theory saturation RUN... --plot DIR    pre-tanh means and actions of one or more runs
  dualac theory gaussians --plot DIR            Gaussians before and after tanh"""


def theory(argv: list[str]) -> int:
    """Compute certainty equivalents, exact and not: dualac theory --values 0 1 5 --beta -0.2"""
    if argv and argv[0] in FIGURES:
        return FIGURES[argv[0]](argv[1:])
    if argv and not argv[0].startswith("-"):
        raise UsageError(
            f"dualac theory knows the figures {', '.join(FIGURES)}, not {argv[0]!r}; values go "
            "behind --values"
        )
    args = _theory_parser().parse(argv)
    values, betas = read_numbers("--values", args.values), read_numbers("--beta", args.beta)
    weights = None if args.weights is None else read_numbers("--weights", args.weights)
    import jax

    figures = []
    with jax.enable_x64(True):
        comparison = compare_forms(values, betas, weights)
        if args.plot:
            from dualac.inspection.theory_figures import theory_figures

            figures = theory_figures(values, betas[0], weights, require_directory(args.plot))
    if args.json:
        paths = [str(path) for path in figures]
        print(json.dumps(without_nan(comparison | {"figures": paths})))
    else:
        show_comparison(comparison)
        for path in figures:
            say(str(path))
    return 0


def _theory_parser() -> Parser:
    parser = Parser(
        prog="dualac theory",
        epilog=FIGURE_HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--values", nargs="+", metavar="V", required=True, help="what an ensemble of critics says")
    add(
        "--beta",
        nargs="+",
        metavar="B",
        default=["-0.2"],
        help="attitudes to risk: negative shuns it, positive seeks it (-0.2)",
    )
    add("--weights", nargs="+", metavar="W", help="their probabilities (all alike)")
    add(
        "--json", action="store_true", help="one object, gradients included; null is what overflows"
    )
    add(
        "--plot",
        type=Path,
        metavar="DIR",
        help=(
            "draw utility, premium, errors and gradients into this directory; of several betas the "
            "first"
        ),
    )
    return parser


def compare_forms(
    values: list[float], betas: list[float], weights: list[float] | None
) -> dict[str, Any]:
    """Compute, for each beta, the forms, the argument of the series and the gradients."""
    from dualac.theory import forms, gradients, series_argument, spread
    from dualac.theory.moments import lottery, mean

    v, w = lottery(values, weights)
    rows = []
    for beta in betas:
        argument = float(series_argument(v, beta, w))
        slopes = gradients(v, beta, w)._asdict()
        row = {
            "beta": beta,
            "series_argument": argument,
            "series_converges": argument <= 1.0,
            **{name: float(form) for name, form in forms(v, beta, w)._asdict().items()},
            "gradients": {name: slope.tolist() for name, slope in slopes.items()},
        }
        rows.append(row)
    return {
        "values": v.tolist(),
        "weights": None if w is None else w.tolist(),
        "mean": float(mean(v, w)),
        "spread": float(spread(v, w)),
        "betas": rows,
    }


def show_comparison(comparison: dict[str, Any]) -> None:
    from dualac.theory import Forms

    names = Forms._fields
    titles = "".join(f" {name:>13}" for name in names)
    lines = ["certainty equivalent", f"{'beta':>10}{titles} {'2 beta^2 Var':>13}"]
    for row in comparison["betas"]:
        numbers = "".join(f" {row[name]:>13.8g}" for name in names)
        beyond = "" if row["series_converges"] else "  the series diverges"
        argument = row["series_argument"]
        lines.append(f"{row['beta']:>10.6g}{numbers} {argument:>13.6g}{beyond}")
    lines += ["", "what an actor climbs: the weight of each value in the gradient"]
    lines.append(f"{'beta':>10} {'value':>13}{titles}")
    for row in comparison["betas"]:
        for number, value in enumerate(comparison["values"]):
            slopes = "".join(f" {row['gradients'][name][number]:>13.6f}" for name in names)
            lines.append(f"{row['beta']:>10.6g} {value:>13.6g}{slopes}")
    count, mean, spread = len(comparison["values"]), comparison["mean"], comparison["spread"]
    say(f"{count} values, mean {mean:.8g}, spread {spread:.8g}\n")
    say("\n".join(lines))


def coverage(argv: list[str]) -> int:
    """Draw where critics disagree, and where pessimist and optimist act."""
    parser = Parser(prog="dualac theory coverage", allow_abbrev=False)
    parser.add_argument(
        "path",
        type=Path,
        metavar="RUN",
        help="a DAC run on a task with one action, gym/Pendulum-v1 say",
    )
    parser.add_argument(
        "--samples", type=int, default=500, help="actions of each actor that are drawn (500)"
    )
    parser.add_argument("--step", type=parse_count, help="the checkpoint of this step (the newest)")
    add_trust(parser)
    args = parse_picture(parser, argv)
    from dualac.analysis.figures import theory as draw
    from dualac.inspection.theory_figures import coverage as covered

    samples, (trained,) = read_samples(args.samples), read([args.path], args.step, trust=args.trust)
    shown = covered(trained, samples)
    say(
        f"critics' mean spread in visited states: {shown.pessimist:.4g} at the pessimist's "
        f"actions, {shown.optimist:.4g} at the optimist's"
    )
    say(str(draw.coverage(shown.plane, args.plot / "coverage.png")))
    return 0


def saturation(argv: list[str]) -> int:
    """Draw how far policies push into the flat ends of tanh."""
    parser = Parser(prog="dualac theory saturation", allow_abbrev=False)
    parser.add_argument(
        "paths",
        nargs="+",
        type=Path,
        metavar="RUN",
        help="runs to compare: with a temperature and without, say",
    )
    parser.add_argument(
        "--samples",
        type=int,
        default=2000,
        help="states that were visited last, of each run (2000)",
    )
    add_trust(parser)
    args = parse_picture(parser, argv)
    if len(args.paths) > 6:
        raise UsageError("more than six runs cannot be distinguished in one picture")
    import numpy as np

    from dualac.analysis.figures import theory as draw
    from dualac.inspection.theory_figures import describe
    from dualac.inspection.theory_figures import saturation as saturated

    samples, runs = read_samples(args.samples), read(args.paths, trust=args.trust)
    policies = [saturated(run, samples) for run in runs]
    title = ", ".join(dict.fromkeys(describe(run.loaded) for run in runs))
    for policy in policies:
        before, executed = np.abs(policy.before), np.abs(policy.actions)
        share = f"{(executed > 0.99).mean():.1%} of executed actions beyond 0.99"
        say(
            f"{policy.label}: mean |x| before tanh {before.mean():.3g}, {(before > 2).mean():.1%} "
            f"beyond 2; {share}"
        )
    path = draw.saturation(policies, title, args.plot / "saturation.png")
    say(str(path))
    return 0


def gaussians(argv: list[str]) -> int:
    """Draw Gaussians before and after tanh: dualac theory gaussians --plot DIR"""
    args = parse_picture(Parser(prog="dualac theory gaussians", allow_abbrev=False), argv)
    from dualac.inspection.theory_figures import gaussians as transformed

    say(str(transformed(args.plot)))
    return 0


FIGURES = {"coverage": coverage, "saturation": saturation, "gaussians": gaussians}


def read(paths: list[Path], step: int | None = None, *, trust: bool) -> list[Any]:
    """Read trained runs; warn of a damaged checkpoint that was passed over."""
    from dualac.inspection.theory_figures import read as read_one

    runs = [read_one(path, step, trust=trust) for path in paths]
    for run in runs:
        for sentence in run.loaded.damaged:
            warn(sentence)
    return runs


def parse_picture(parser: Parser, argv: list[str]) -> argparse.Namespace:
    parser.add_argument(
        "--plot",
        type=Path,
        metavar="DIR",
        required=True,
        help="the directory that the picture goes into",
    )
    args = parser.parse(argv)
    require_directory(args.plot)
    return args


def require_directory(path: Path) -> Path:
    """Refuse what cannot be a directory before computing anything for it."""
    new = [folder for folder in (path, *path.parents) if not folder.exists()]
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{path} cannot be a directory ({error.strerror})") from None
    finally:
        with contextlib.suppress(OSError):
            for folder in new:
                folder.rmdir()
    return path


def read_samples(samples: int) -> int:
    if not 1 <= samples <= 100_000:
        raise UsageError(f"--samples must be between 1 and 100000, not {samples}")
    return samples


def read_numbers(option: str, texts: list[str]) -> list[float]:
    """Read real numbers, typed apart or with commas between them."""
    try:
        return [parse(float, number) for text in texts for number in text.split(",")]
    except UsageError as error:
        raise UsageError(f"{option}: {error}") from None
