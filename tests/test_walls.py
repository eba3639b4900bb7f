"""The walls between the rooms, read from the imports themselves."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src"
PACKAGE = SOURCE / "dualac"
MODULES = sorted(PACKAGE.rglob("*.py"))
NAMELESS = {"utils", "util", "common", "base", "helpers", "helper", "misc", "core", "tools"}
LONGEST = 400


def dotted(path: Path) -> str:
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(path: Path, *, when_run: bool = True) -> set[str]:
    """Every module a file may import, wherever in it; with `when_run` not those that only a type
    checker sees.
    """
    tree = ast.parse(path.read_text())
    hidden = {
        node
        for branch in ast.walk(tree)
        if when_run
        and isinstance(branch, ast.If)
        and isinstance(branch.test, ast.Name)
        and branch.test.id == "TYPE_CHECKING"
        for line in branch.body
        for node in ast.walk(line)
    }
    found = set()
    for node in ast.walk(tree):
        if node in hidden:
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute here"
            found |= {str(node.module)} | {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def crossing(room: str, forbidden: tuple[str, ...]) -> list[str]:
    files = [path for path in MODULES if dotted(path).startswith(f"dualac.{room}")]
    assert files
    return [
        f"{dotted(path)} imports {name}"
        for path in files
        for name in imports(path)
        if any(name == no or name.startswith(no + ".") for no in forbidden)
    ]


@pytest.mark.parametrize(
    ("room", "forbidden"),
    [
        (
            "agents",
            (
                "numpy",
                "gymnasium",
                "dualac.training",
                "dualac.envs",
                "dualac.analysis",
                "dualac.cli",
                "dualac.api",
                "os",
                "pathlib",
                "json",
            ),
        ),
        (
            "theory",
            (
                "numpy",
                "flax",
                "optax",
                "gymnasium",
                "dualac.agents",
                "dualac.training",
                "dualac.envs",
                "dualac.analysis",
                "dualac.cli",
                "os",
                "pathlib",
            ),
        ),
        (
            "analysis",
            (
                "jax",
                "flax",
                "optax",
                "dualac.agents",
                "dualac.training",
                "dualac.envs",
                "dualac.theory",
                "dualac.cli",
                "dualac.types",
            ),
        ),
        (
            "envs",
            (
                "jax",
                "flax",
                "optax",
                "dualac.agents",
                "dualac.training",
                "dualac.analysis",
                "dualac.cli",
                "dualac.types",
            ),
        ),
        ("training", ("dualac.cli", "dualac.api", "dualac.cli.progress", "rich")),
        (
            "ops",
            (
                "flax",
                "gymnasium",
                "dualac.agents",
                "dualac.training",
                "dualac.envs",
                "dualac.types",
                "dualac.cli",
            ),
        ),
    ],
)
def test_a_room_does_not_reach_where_it_must_not(room, forbidden):
    assert crossing(room, forbidden) == []


def test_nothing_imports_the_command_line():
    others = [
        path
        for path in MODULES
        if not dotted(path).startswith("dualac.cli") and path.name != "__main__.py"
    ]
    assert [
        dotted(path)
        for path in others
        if {name for name in imports(path) if name.split(".")[:2] == ["dualac", "cli"]}
    ] == []


def test_only_one_file_knows_flax():
    assert [
        dotted(path)
        for path in MODULES
        if any(name.split(".")[0] == "flax" for name in imports(path))
    ] == ["dualac.agents.networks"]


def test_seeds_are_vmapped_in_one_file():
    assert [
        dotted(path)
        for path in MODULES
        if "training" in path.parts and "jax.vmap" in path.read_text()
    ] == ["dualac.training.learner"]


@pytest.mark.parametrize(
    "module",
    [
        "dualac.analysis.report.make",
        "dualac.analysis.figures.theory",
        "dualac.analysis.data.collect",
        "dualac.analysis.data.status",
        "dualac.envs",
        "dualac.parts.spelling",
        "dualac.cli",
        "dualac",
    ],
)
def test_it_can_be_imported_without_jax(module):
    code = (
        f"import sys, {module}; print([name for name in ('jax', 'jaxlib', 'flax') if name in "
        "sys.modules])"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "[]"


def test_no_name_hides_what_a_room_is_for():
    assert [dotted(path) for path in MODULES if NAMELESS & set(dotted(path).split("."))] == []


def test_nothing_on_disk_is_ever_executed():
    """No pickle in any of its disguises, no eval, no yaml."""
    forbidden = {
        "pickle",
        "cPickle",
        "cloudpickle",
        "dill",
        "joblib",
        "shelve",
        "marshal",
        "yaml",
        "torch",
    }
    found = [
        f"{dotted(path)} imports {name}"
        for path in MODULES
        for name in imports(path)
        if name.split(".")[0] in forbidden
    ]
    for path in MODULES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                name = ast.unparse(node.func)
                allows = [
                    word
                    for word in node.keywords
                    if word.arg == "allow_pickle" and ast.unparse(word.value) != "False"
                ]
                if (
                    name
                    in (
                        "eval",
                        "exec",
                        "compile",
                        "__import__",
                        "yaml.load",
                        "np.load",
                        "numpy.load",
                        "os.system",
                    )
                    or allows
                ):
                    found.append(f"{dotted(path)}:{node.lineno} calls {name}")
                if any(word.arg == "shell" for word in node.keywords):
                    found.append(f"{dotted(path)}:{node.lineno} asks a shell")
    assert found == []


def test_no_algorithm_is_chosen_by_its_name():
    """Behaviour is in the row, and the row is data."""
    from dualac.agents.algorithms import ALGORITHMS

    names = "|".join(ALGORITHMS)
    chosen = re.compile(
        rf"""(==|!=|\bin|\bcase)\s*[\[({{]?\s*["']({names})["']|["']({names})["']\s*(==|!=|\bin\b)"""
    )
    assert [
        f"{dotted(path)}: {line.strip()}"
        for path in MODULES
        for line in path.read_text().splitlines()
        if chosen.search(line)
    ] == []


def test_no_exception_is_swallowed_without_being_named():
    without_optimizers = [
        dotted(path)
        for path in MODULES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ExceptHandler) and node.type is None
    ]
    assert without_optimizers == []


def test_a_file_fits_on_six_screens():
    assert {
        dotted(path): length
        for path in MODULES
        if (length := len(path.read_text().splitlines())) > LONGEST
    } == {}
