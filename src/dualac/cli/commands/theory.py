"""The theorem on the command line: `dualac theory`."""

import argparse
import contextlib
import json
from pathlib import Path
from typing import Any

from dualac.cli.options import Parser, console, warn
from dualac.errors import UsageError
from dualac.parts.text import parse, parse_count
from dualac.runs.files import without_nan

FIGURE_HELP = """also figures of trained runs, each into the directory --plot DIR:
  dualac theory coverage RUN --plot DIR         critics' spread and both actors (DAC, one action)
  dualac theory saturation RUN... --plot DIR    pre-tanh means and actions of one or more runs
  dualac theory gaussians --plot DIR            Gaussians before and after tanh"""


def theory(words: list[str]) -> int:
    """the certainty equivalent, exact and approximate: dualac theory --values 0 1 5 --beta -0.2"""
    if words and words[0] in FIGURES:
        return FIGURES[words[0]](words[1:])
    if words and not words[0].startswith("-"):
        raise UsageError(
            f"dualac theory knows the figures {', '.join(FIGURES)}, not {words[0]!r}; values go "
            "behind --values"
        )
    parser = Parser(
        prog="dualac theory",
        epilog=FIGURE_HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "--values", nargs="+", metavar="V", required=True, help="what an ensemble of critics says"
    )
    parser.add_argument(
        "--beta",
        nargs="+",
        metavar="B",
        default=["-0.2"],
        help="attitudes to risk: negative shuns it, positive seeks it (-0.2)",
    )
    parser.add_argument("--weights", nargs="+", metavar="W", help="their probabilities (all alike)")
    parser.add_argument(
        "--json", action="store_true", help="one object, gradients included; null is what overflows"
    )
    parser.add_argument(
        "--plot",
        type=Path,
        metavar="DIR",
        help=(
            "draw utility, premium, errors and gradients into this directory; of several betas the "
            "first"
        ),
    )
    asked = parser.parse(words)
    values, betas = numbers("--values", asked.values), numbers("--beta", asked.beta)
    weights = None if asked.weights is None else numbers("--weights", asked.weights)
    import jax

    with jax.enable_x64(True):
        found = comparison(values, betas, weights)
        drawn = []
        if asked.plot:
            from dualac.inspection.theory_figures import theory_figures

            drawn = theory_figures(values, betas[0], weights, directory(asked.plot))
    if asked.json:
        print(json.dumps(without_nan(found | {"figures": [str(path) for path in drawn]})))
    else:
        show(found)
        for path in drawn:
            console.print(str(path), soft_wrap=True)
    return 0


def comparison(
    values: list[float], betas: list[float], weights: list[float] | None
) -> dict[str, Any]:
    """All that is known of these values, as numbers: for each beta the forms, the argument of the
    series and the gradients.
    """
    from dualac.theory import forms, gradients, series_argument, spread
    from dualac.theory.moments import lottery, mean

    v, w = lottery(values, weights)
    rows = []
    for beta in betas:
        argument = float(series_argument(v, beta, w))
        slopes = {name: slope.tolist() for name, slope in gradients(v, beta, w)._asdict().items()}
        told = {name: float(form) for name, form in forms(v, beta, w)._asdict().items()}
        rows.append(
            {
                "beta": beta,
                "series_argument": argument,
                "series_converges": argument <= 1.0,
                **told,
                "gradients": slopes,
            }
        )
    return {
        "values": v.tolist(),
        "weights": None if w is None else w.tolist(),
        "mean": float(mean(v, w)),
        "spread": float(spread(v, w)),
        "betas": rows,
    }


def show(found: dict[str, Any]) -> None:
    from dualac.theory import Forms

    names = Forms._fields
    lines = ["certainty equivalent"]
    lines.append(
        f"{'beta':>10}" + "".join(f" {name:>13}" for name in names) + f" {'2 beta^2 Var':>13}"
    )
    for row in found["betas"]:
        beyond = "" if row["series_converges"] else "  the series diverges"
        lines.append(
            f"{row['beta']:>10.6g}"
            + "".join(f" {row[name]:>13.8g}" for name in names)
            + f" {row['series_argument']:>13.6g}{beyond}"
        )
    lines += ["", "what an actor climbs: the weight of each value in the gradient"]
    lines.append(f"{'beta':>10} {'value':>13}" + "".join(f" {name:>13}" for name in names))
    for row in found["betas"]:
        for number, value in enumerate(found["values"]):
            slopes = "".join(f" {row['gradients'][name][number]:>13.6f}" for name in names)
            lines.append(f"{row['beta']:>10.6g} {value:>13.6g}{slopes}")
    console.print(
        f"{len(found['values'])} values, mean {found['mean']:.8g}, spread {found['spread']:.8g}\n",
        soft_wrap=True,
    )
    console.print("\n".join(lines), soft_wrap=True)


def coverage(words: list[str]) -> int:
    """where critics disagree, and where pessimist and optimist act: dualac theory coverage RUN
    --plot DIR
    """
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
    asked = picture(parser, words)
    from dualac.analysis.figures import theory as draw
    from dualac.inspection.theory_figures import coverage as covered

    samples, (trained,) = some(asked.samples), read([asked.path], asked.step)
    found = covered(trained, samples)
    console.print(
        f"critics' mean spread in visited states: {found.pessimist:.4g} at the pessimist's "
        f"actions, {found.optimist:.4g} at the optimist's",
        soft_wrap=True,
    )
    console.print(str(draw.coverage(found.plane, asked.plot / "coverage.png")), soft_wrap=True)
    return 0


def saturation(words: list[str]) -> int:
    """how far policies push into the flat ends of tanh: dualac theory saturation RUN... --plot
    DIR
    """
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
    asked = picture(parser, words)
    if len(asked.paths) > 6:
        raise UsageError("more than six runs cannot be told apart in one picture")
    import numpy as np

    from dualac.analysis.figures import theory as draw
    from dualac.inspection.theory_figures import saturation as saturated
    from dualac.inspection.theory_figures import told

    samples, runs = some(asked.samples), read(asked.paths)
    policies, title = (
        [saturated(run, samples) for run in runs],
        ", ".join(dict.fromkeys(told(run.loaded) for run in runs)),
    )
    for one in policies:
        flat, executed = np.abs(one.before), np.abs(one.actions)
        share = f"{(executed > 0.99).mean():.1%} of executed actions beyond 0.99"
        console.print(
            f"{one.label}: mean |x| before tanh {flat.mean():.3g}, {(flat > 2).mean():.1%} beyond "
            f"2; {share}",
            soft_wrap=True,
        )
    console.print(
        str(draw.saturation(policies, title, asked.plot / "saturation.png")), soft_wrap=True
    )
    return 0


def gaussians(words: list[str]) -> int:
    """Gaussians before and after tanh: dualac theory gaussians --plot DIR"""
    asked = picture(Parser(prog="dualac theory gaussians", allow_abbrev=False), words)
    from dualac.inspection.theory_figures import gaussians as transformed

    console.print(str(transformed(asked.plot)), soft_wrap=True)
    return 0


FIGURES = {"coverage": coverage, "saturation": saturation, "gaussians": gaussians}


def read(paths: list[Path], step: int | None = None) -> list[Any]:
    """Trained runs; of a damaged checkpoint that was passed over a warning."""
    from dualac.inspection.theory_figures import read as read_one

    runs = [read_one(path, step) for path in paths]
    for sentence in (sentence for run in runs for sentence in run.loaded.damaged):
        warn(sentence)
    return runs


def picture(parser: Parser, words: list[str]) -> argparse.Namespace:
    parser.add_argument(
        "--plot",
        type=Path,
        metavar="DIR",
        required=True,
        help="the directory that the picture goes into",
    )
    asked = parser.parse(words)
    directory(asked.plot)
    return asked


def directory(path: Path) -> Path:
    """What cannot be a directory is said before anything is computed for it. It is made to try, and
    stays when there is a picture to put into it.
    """
    new = [one for one in (path, *path.parents) if not one.exists()]
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{path} cannot be a directory ({error.strerror})") from None
    finally:
        with contextlib.suppress(OSError):
            for one in new:
                one.rmdir()
    return path


def some(samples: int) -> int:
    if not 1 <= samples <= 100_000:
        raise UsageError(f"--samples must be between 1 and 100000, not {samples}")
    return samples


def numbers(option: str, texts: list[str]) -> list[float]:
    """Real numbers, as words of their own or with commas between them."""
    try:
        return [parse(float, text) for word in texts for text in word.split(",")]
    except UsageError as error:
        raise UsageError(f"{option}: {error}") from None
