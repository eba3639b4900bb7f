"""The walls between the layers, read from the imports, and what every module keeps to."""

import ast
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
SOURCE = TESTS.parent / "src"
PACKAGE = SOURCE / "dualac"
MODULES = sorted(PACKAGE.rglob("*.py"))

# From top to bottom: a module imports from its own layer and from those below, wherever in its
# file the import stands. A package stands for all its modules.
LAYERS = (
    ("dualac.__init__", "dualac.__main__", "dualac.api"),
    ("dualac.cli",),
    ("dualac.inspection",),
    ("dualac.bench",),
    ("dualac.experiments",),
    ("dualac.execution",),
    ("dualac.training",),
    ("dualac.agents",),
    ("dualac.envs",),
    ("dualac.analysis",),
    ("dualac.theory",),
    ("dualac.ops",),
    ("dualac.runs",),
    ("dualac.machine",),
    ("dualac.parts",),
    ("dualac.errors", "dualac.types"),
)

# Modules that name a higher one in a string, for a process that imports it there.
NAMED_IN_STRINGS = {("dualac.experiments.cost", "dualac.bench.learner")}

# What a layer may not import although it does not lie above: agents and theory are pure JAX, and
# these rooms serve programs that have no JAX.
JAX = ("jax", "jaxlib", "jaxtyping")
OUTSIDE = ("numpy", "gymnasium", "os", "pathlib", "json", "io", "shutil", "tempfile")
FORBIDDEN = {
    "dualac.agents": (*OUTSIDE, "dualac.envs", "dualac.analysis", "dualac.runs", "dualac.machine"),
    "dualac.theory": (*OUTSIDE, "dualac.runs", "dualac.machine"),
    "dualac.analysis": (*JAX, "gymnasium", "dualac.theory", "dualac.ops", "dualac.types"),
    "dualac.envs": (*JAX, "dualac.analysis", "dualac.theory", "dualac.ops", "dualac.types"),
    "dualac.runs": (*JAX, "gymnasium", "dualac.types"),
    "dualac.parts": (*JAX, "gymnasium", "dualac.types"),
    "dualac.ops": ("gymnasium", "dualac.types"),
    "dualac.training": ("rich",),
}

# Rooms that are imported, all their modules, without JAX; of the command line what it imports to
# read a command's words.
WITHOUT_JAX = (
    "dualac.analysis",
    "dualac.runs",
    "dualac.machine",
    "dualac.parts",
    "dualac.envs",
    "dualac.cli.commands",
)

# What reads a file and runs what stands in it, and what runs a string.
EXECUTING_PACKAGES = {
    *("pickle", "cPickle", "cloudpickle", "dill", "joblib"),
    *("shelve", "marshal", "yaml", "torch"),
}
EXECUTING_CALLS = {
    *("eval", "exec", "compile", "__import__"),
    *("yaml.load", "np.load", "numpy.load", "os.system"),
}

LONGEST_FILE = 400
LONGEST_FUNCTION = 50
MOST_MODULES = 15
AT_THE_ROOT = {"__init__.py", "__main__.py", "api.py", "errors.py", "types.py", "py.typed"}
NAMELESS = {"utils", "util", "common", "base", "helpers", "helper", "misc", "core", "tools"}


def dotted(path: Path) -> str:
    """Name the module that a file is; a package's own file as `package.__init__`."""
    return ".".join(path.relative_to(SOURCE).with_suffix("").parts)


def layer_of(module: str) -> int:
    """Find the one layer of a module, by its name or by that of a package around it."""
    levels = [
        level
        for level, members in enumerate(LAYERS)
        for member in members
        if module == member or module.startswith(member + ".")
    ]
    assert len(levels) == 1, f"{module} is in {len(levels)} layers"
    return levels[0]


FILES = {dotted(path): path for path in MODULES}
TREES = {module: ast.parse(path.read_text()) for module, path in FILES.items()}


def resolve(name: str) -> str | None:
    """Find the module of this package that a dotted name means, if it means one."""
    parts = name.split(".")
    if parts[0] != "dualac":
        return None
    while len(parts) > 1:
        for candidate in (".".join(parts), ".".join([*parts, "__init__"])):
            if candidate in FILES:
                return candidate
        parts.pop()
    return "dualac.__init__"


def imports(module: str) -> set[str]:
    """List every name that a module may import, wherever in its file."""
    names = set()
    for node in ast.walk(TREES[module]):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}: imports are absolute here"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def own_imports(module: str) -> set[str]:
    """List the modules of this package that a module may import."""
    return {target for name in imports(module) if (target := resolve(name))} - {module}


def strings_naming_modules(module: str) -> set[str]:
    """List the modules of this package that a module names in a string, as code would."""
    return {
        target
        for node in ast.walk(TREES[module])
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and re.fullmatch(r"dualac(\.\w+)+(:\w+)?", node.value)
        and (target := resolve(node.value.partition(":")[0])) != "dualac.__init__"
        and target is not None
    }


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def test_every_module_is_in_one_layer():
    for module in FILES:
        layer_of(module)


def test_no_module_imports_a_higher_one():
    upwards = [
        f"{module} -> {target}"
        for module in FILES
        for target in own_imports(module)
        if layer_of(target) < layer_of(module)
    ]
    assert upwards == []


def test_modules_named_in_strings_are_listed():
    upwards = {
        (module, target)
        for module in FILES
        for target in strings_naming_modules(module)
        if layer_of(target) < layer_of(module)
    }
    assert upwards == NAMED_IN_STRINGS


@pytest.mark.parametrize("room", FORBIDDEN)
def test_a_room_does_not_import_what_it_must_not(room):
    inside = [module for module in FILES if module.startswith(room + ".")]
    assert inside
    crossings = [
        f"{module} -> {name}"
        for module in inside
        for name in imports(module)
        if any(name == no or name.startswith(no + ".") for no in FORBIDDEN[room])
    ]
    assert crossings == []


def test_rooms_and_the_library_s_doors_are_imported_without_jax():
    """One process imports them all, since each costs a second; it names those that bring JAX."""
    names = [
        module.removesuffix(".__init__")
        for room in WITHOUT_JAX
        for module in FILES
        if module.startswith(room + ".")
    ]
    code = f"""
import importlib, sys
for name in {["dualac", "dualac.cli", *names]!r}:
    importlib.import_module(name)
    if "jax" in sys.modules or "jaxlib" in sys.modules:
        sys.exit(f"{{name}} imports JAX")
"""
    answer = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert (answer.returncode, answer.stderr) == (0, "")


def test_no_library_of_networks_or_optimisers_is_imported():
    code = (
        "import sys, dualac\nfrom dualac.agents.algorithms import ALGORITHMS\n"
        "for name in ALGORITHMS: dualac.make_agent(name, 3, 2)\n"
        "print([name for name in ('flax', 'optax', 'chex', 'orbax') if name in sys.modules])"
    )
    answer = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert answer.stdout.strip() == "[]"


def test_seeds_are_vmapped_in_one_file():
    assert [
        module
        for module, path in FILES.items()
        if "training" in path.relative_to(SOURCE).parts and "jax.vmap" in path.read_text()
    ] == ["dualac.training.learner"]


def test_no_name_hides_what_a_room_is_for():
    assert [module for module in FILES if NAMELESS & set(module.split("."))] == []


def test_nothing_on_disk_is_ever_executed():
    """No pickle in any of its disguises, no eval, no yaml."""
    violations = [
        f"{module} imports {name}"
        for module in FILES
        for name in imports(module)
        if name.split(".")[0] in EXECUTING_PACKAGES
    ]
    for module, tree in TREES.items():
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call):
                continue
            keywords = {word.arg: ast.unparse(word.value) for word in node.keywords}
            name = ast.unparse(node.func)
            if name in EXECUTING_CALLS or keywords.get("allow_pickle", "False") != "False":
                violations.append(f"{module}:{node.lineno} calls {name}")
            if "shell" in keywords:
                violations.append(f"{module}:{node.lineno} asks a shell")
    assert violations == []


def test_no_algorithm_is_chosen_by_its_name():
    """Behaviour is in the row, and the row is data."""
    from dualac.agents.algorithms import ALGORITHMS

    names = "|".join(ALGORITHMS)
    chosen = re.compile(
        rf"""(==|!=|\bin|\bcase)\s*[\[({{]?\s*["']({names})["']|["']({names})["']\s*(==|!=|\bin\b)"""
    )
    assert [
        f"{module}: {line.strip()}"
        for module, path in FILES.items()
        for line in path.read_text().splitlines()
        if chosen.search(line)
    ] == []


def test_no_exception_is_swallowed_without_being_named():
    bare = [
        module
        for module, tree in TREES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ExceptHandler) and node.type is None
    ]
    assert bare == []


def test_a_file_fits_on_six_screens():
    long = [
        module
        for module, path in FILES.items()
        if len(path.read_text().splitlines()) > LONGEST_FILE
    ]
    assert long == []


def test_a_function_fits_on_a_screen():
    long = [
        f"{module}.{node.name}"
        for module, tree in TREES.items()
        for node in functions(tree)
        if (node.end_lineno or 0) - node.lineno + 1 > LONGEST_FUNCTION
    ]
    assert long == []


def test_no_class_has_an_alias():
    classes = {
        node.name
        for tree in TREES.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    }
    assigned = [
        f"{module}: {ast.unparse(node)}"
        for module, tree in TREES.items()
        for node in tree.body
        if isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Name | ast.Attribute)
        and ast.unparse(node.value).rpartition(".")[2] in classes
    ]
    imported = [
        f"{module}: {alias.name} as {alias.asname}"
        for module, tree in TREES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("dualac")
        for alias in node.names
        if alias.name in classes and alias.asname not in (None, alias.name)
    ]
    assert assigned + imported == []


def test_a_name_says_what_the_thing_is():
    """`told` was once a string, an int, a file, a process and an exception."""
    lines = [
        f"{path.relative_to(TESTS.parent)}: {line.strip()}"
        for path in (*MODULES, *sorted(TESTS.rglob("*.py")))
        if path != Path(__file__)
        for line in path.read_text().splitlines()
        if re.search(r"\btold\b", line)
    ]
    assert lines == []


def names_of_the_package(tree: ast.Module) -> set[str]:
    """List the names by which a test knows modules, classes and functions of this package."""
    return {
        alias.asname or alias.name.partition(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
        if (getattr(node, "module", None) or alias.name).partition(".")[0] == "dualac"
    }


def test_no_test_assigns_to_a_module_s_global():
    """A test that changes the code under test does not run what users run."""
    setting = []
    for path in sorted(TESTS.rglob("*.py")):
        tree = ast.parse(path.read_text())
        names = names_of_the_package(tree)
        for node in ast.walk(tree):
            if not (isinstance(node, ast.Call) and node.args):
                continue
            if not re.search(r"\b(patch|monkeypatch)\.(setattr|object)$", ast.unparse(node.func)):
                continue
            target = ast.unparse(node.args[0]).strip("'\"")
            if target.partition(".")[0] in {*names, "dualac"}:
                setting.append(f"{path.relative_to(TESTS.parent)}:{node.lineno}: {target}")
    assert setting == []


def test_a_folder_can_be_taken_in_at_a_glance():
    counts = Counter(path.parent for path in MODULES if path.name != "__init__.py")
    assert {str(folder): count for folder, count in counts.items() if count > MOST_MODULES} == {}
    assert {path.name for path in PACKAGE.iterdir() if path.is_file()} == AT_THE_ROOT
