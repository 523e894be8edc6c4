"""The house rules that a machine can hold: imports run downhill, every folder ships, names say something."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.import_graph import ImportGraph
from tests.parsed_sources import nodes, parsed

pytestmark = pytest.mark.xdist_group("architecture")  # one process parses the sources

ROOT = Path(__file__).parents[1]
FLOORS = ("search", "codegen", "evaluators", "spaces", "experiments")
FACE = "public"  # what `import kilotune` gives: it may import all floors, and no floor may import it
SOURCES = sorted(path for floor in (*FLOORS, FACE) for path in (ROOT / floor).rglob("*.py"))
ALLOWED_BELOW = {
    "search": {"search"},
    "codegen": {"codegen"},
    "evaluators": {"evaluators", "codegen", "search"},
    "spaces": {"spaces", "evaluators", "codegen", "search"},
    "experiments": set(FLOORS),
    FACE: set(FLOORS),
}


def test_tests_of_one_group_share_a_process(request: pytest.FixtureRequest) -> None:
    """Clusters, browsers and what is parsed once are made in every process where the groups of pytest-xdist are ignored."""
    if request.config.getoption("loadgroup", default=False):
        assert request.node.nodeid.endswith("@architecture")


def imported_floors(path: Path) -> set[str]:
    modules: list[str] = []
    for node in nodes(path):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute here"
            modules.append(node.module or "")
        elif isinstance(node, ast.Import):
            modules += [alias.name for alias in node.names]
    assert path.is_relative_to(ROOT / FACE) or "kilotune" not in modules, f"{path}: a floor imports the public face"
    own = ("kilotune.testing", "kilotune.drawing") if path.is_relative_to(ROOT / FACE) else ()
    return {module.split(".")[1] for module in modules if module.startswith("kilotune.") and not module.startswith(own)}


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_run_downhill(path: Path) -> None:
    floor = path.relative_to(ROOT).parts[0]
    assert imported_floors(path) <= ALLOWED_BELOW[floor]


def test_import_linter_agrees_and_sees_every_floor(tmp_path: Path) -> None:
    """In a folder that holds the floors alone, as `make lint` makes one: it takes no root below a regular package."""
    (tmp_path / "kilotune").mkdir()
    for floor in FLOORS:
        (tmp_path / "kilotune" / floor).symlink_to(ROOT / floor)
    command = [str(Path(sys.executable).parent / "lint-imports"), "--no-cache"]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_folder_with_code_is_a_package() -> None:
    """Then `setup.py` finds it."""
    assert {p.parent for p in SOURCES if p.name == "__init__.py"} == {p.parent for p in SOURCES}


PROBLEMS = ROOT / "experiments" / "problems"
FAMILIES = [folder.parent for folder in PROBLEMS.glob("*/family.py")]
NOT_INSTALLED = [
    ROOT / "experiments" / folder
    for folder in tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["kilotune"]["developers"]
]
PRODUCT = [path for path in SOURCES if not any(path.is_relative_to(folder) for folder in NOT_INSTALLED)]


def imported_modules(path: Path) -> set[str]:
    """Every module and name that a file imports, as dotted names."""
    found = set()
    for node in nodes(path):
        if isinstance(node, ast.ImportFrom):
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return found


def is_within(module: str, folder: Path) -> bool:
    package = "kilotune." + ".".join(folder.relative_to(ROOT).parts)
    return module == package or module.startswith(package + ".")


@pytest.mark.slow
def test_nobody_but_the_folders_themselves_imports_a_concrete_problem() -> None:
    """The registry finds them. They may use one another: a placement can come from a model."""
    found = {
        f"{path.relative_to(ROOT)}: {module}"
        for path in PRODUCT
        if not any(path.is_relative_to(folder) for folder in FAMILIES)
        for module in imported_modules(path)
        if any(is_within(module, folder) for folder in FAMILIES)
    }
    assert len(FAMILIES) >= 4
    assert found == set()


@pytest.mark.slow
def test_what_is_installed_imports_nothing_that_is_not() -> None:
    found = {
        f"{path.relative_to(ROOT)}: {module}"
        for path in PRODUCT
        for module in imported_modules(path)
        if any(is_within(module, folder) for folder in NOT_INSTALLED)
    }
    assert found == set()


def test_above_the_problems_nobody_names_a_space() -> None:
    """A name in the code is a case that a new space does not get. Names that are words besides count where they stand alone."""
    from kilotune.experiments.problems.registry import entries

    names = [entry.space for entry in entries()]
    found = {}
    for path in PRODUCT:
        if path.is_relative_to(ROOT / "experiments") and not any(path.is_relative_to(folder) for folder in FAMILIES):
            for node in nodes(path):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    for name in names:
                        if node.value == name or f"--space {name}" in node.value:
                            found[f"{path.relative_to(ROOT)}:{node.lineno}"] = node.value
    assert found == {}


def test_names_say_something() -> None:
    for path in SOURCES:
        assert not {part.removesuffix(".py") for part in path.parts} & {"util", "utils", "common", "helpers", "misc"}, (
            path
        )


@pytest.mark.slow
def test_nothing_changes_the_working_directory_or_prints_from_below() -> None:
    for path in SOURCES:
        calls = [n.func for n in nodes(path) if isinstance(n, ast.Call)]
        in_child = path.relative_to(ROOT) == Path("experiments/fuzz/sandbox.py")  # of a process of its own
        assert in_child or not [c for c in calls if isinstance(c, ast.Attribute) and c.attr == "chdir"], path
        if path.relative_to(ROOT).parts[0] != "experiments":
            assert not [c for c in calls if isinstance(c, ast.Name) and c.id == "print"], path


@pytest.mark.slow
def test_no_mutable_state_in_modules() -> None:
    for path in SOURCES:
        for node in parsed(path).body:
            if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(node.value, ast.List | ast.Set):
                raise AssertionError(f"{path}:{node.lineno}: a module-level list or set can be changed by anyone")


LOADED_ONCE = {  # libraries, tables and parsed text that few arguments have
    *("codegen/cm/routing.py route_tables", "codegen/scamp/plan.py _row", "spaces/shiftry/formats.py parse_format"),
    *(
        "codegen/fixed/exponential.py " + name
        for name in ("_shifted_arrays", "shiftry_exponential", "seedot_exponential")
    ),
    *("evaluators/compiled_library.py _version", "spaces/reverse_split/programs.py needs"),
    "spaces/reverse_split/term_prices.py term_prices",
    *("evaluators/fpga/cost_model.py gate_costs", "evaluators/fpga/synthesis.py _version"),
}


@pytest.mark.slow
def test_what_is_computed_for_a_candidate_belongs_to_an_object_that_is_dropped() -> None:
    """A cache of a module outlives its search: the next run of a comparison would find what an earlier one has paid for."""
    found = set()
    for path in SOURCES:
        name = str(path.relative_to(ROOT))
        for node in nodes(path):
            if isinstance(node, ast.FunctionDef) and not name.startswith("experiments/"):
                texts = {ast.unparse(decorator).removeprefix("functools.") for decorator in node.decorator_list}
                takes = node.args.args or node.args.vararg
                if any(t == "cache" or t.startswith("lru_cache") for t in texts) and takes:
                    found.add(f"{name} {node.name}")
    assert found == LOADED_ONCE


SCRATCH = {  # files of a temporary folder, or of kilotune's own cache
    *("evaluators/compiled_library.py", "evaluators/executors/cache.py"),
}
BUILDERS = (
    "evaluators/architectures/",  # a processor's folder builds in a temporary one, and runs there
    "evaluators/fpga/",  # and so do the tools of hardware
)
WRITERS = {
    "experiments/artefacts/whole_file.py",
    "experiments/artefacts/folder.py",
    "experiments/artefacts/output_file.py",
    "experiments/problems/cm/runner.py",  # which is exported, and run by whoever has it
}
DEVELOPERS = ("experiments/models/train/", "experiments/benchmarks/", "experiments/soak/", "experiments/fuzz/")
WRITING = {
    *("write_text", "write_bytes", "rename", "unlink", "rmdir", "rmtree", "touch", "symlink_to", "hardlink_to", "link"),
    *("copyfile", "copytree", "move", "savez", "savez_compressed", "to_csv", "write_image", "write_html"),
}


def writes(call: ast.Call) -> bool:
    """Whether a call changes files: one of WRITING, a `replace` of one path, or an `open` for anything but reading."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    mode = [a.value for a in call.args[:2] if isinstance(a, ast.Constant) and isinstance(a.value, str)]
    if name == "open":
        return any(set(text) <= set("rwabxt+U") and set(text) & set("wax+") for text in mode)
    alone = isinstance(call.func, ast.Attribute) and len(call.args) == 1 and not call.keywords
    return (
        (name in WRITING and isinstance(call.func, ast.Attribute))
        or (name == "replace" and alone)
        or ast.unparse(call.func) == "np.save"
    )


@pytest.mark.slow
def test_files_are_written_in_one_place() -> None:
    """Everything else says what is in them: that is how nothing of the user's is lost."""
    found = {}
    for path in SOURCES:
        place = str(path.relative_to(ROOT))
        if place not in SCRATCH | WRITERS and not place.startswith((*DEVELOPERS, *BUILDERS)):
            calls = [node for node in nodes(path) if isinstance(node, ast.Call)]
            found |= {f"{place}:{call.lineno}": ast.unparse(call.func) for call in calls if writes(call)}
    assert found == {}


MOST_LINES, MOST_C_LINES = 50, 80


@pytest.mark.slow
def test_functions_are_short() -> None:
    """Besides what they say of themselves."""
    long = {}
    for path in sorted([*SOURCES, *(ROOT / "tests").rglob("*.py"), *(ROOT / "docs").rglob("*.py")]):
        for node in nodes(path):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                said = node.body[0] if ast.get_docstring(node) is not None else None
                words = 0 if said is None else said.end_lineno - said.lineno + 1
                lines = node.end_lineno - node.lineno + 1 - words
                if lines > MOST_LINES:
                    long[f"{path.relative_to(ROOT)}:{node.lineno} {node.name}"] = lines
    assert long == {}


def c_functions(text: str) -> Iterator[tuple[int, int]]:
    """(first line, lines) of everything in braces at the outermost level."""
    text = re.sub(r"/\*.*?\*/", lambda comment: "\n" * comment[0].count("\n"), text, flags=re.DOTALL)
    text = re.sub(r'"(\\.|[^"\\])*"|\'(\\.|[^\'\\])*\'|//[^\n]*', "", text)
    depth, first = 0, 0
    for number, line in enumerate(text.splitlines(), start=1):
        for brace in re.findall(r"[{}]", line):
            first = number if depth == 0 else first
            depth += 1 if brace == "{" else -1
            if depth == 0:
                yield first, number - first + 1
    assert depth == 0


def test_c_functions_are_short() -> None:
    sources = sorted(
        path for floor in (*FLOORS, "tests") for suffix in "ch" for path in (ROOT / floor).rglob(f"*.{suffix}")
    )
    assert sources
    found = {(path, first): lines for path in sources for first, lines in c_functions(path.read_text())}
    assert max(found.values()) > 30  # it sees functions
    assert {f"{path.relative_to(ROOT)}:{at}": n for (path, at), n in found.items() if n > MOST_C_LINES} == {}


LATE = ("evaluators/executors/ray_nodes.py", "public/__init__.py")
"""Functions that Ray runs on other machines import what is there; the public face imports what is asked for."""


TUNE = ("kilotune.experiments.cli", *(f"kilotune.experiments.problems.{folder.name}.family" for folder in FAMILIES))
TUNE_LIST = (*TUNE, "kilotune.experiments.commands.listing")
"""What every command of `tune`, and every list of `tune list`, imports. The registry imports the families by what folders
there are."""


@pytest.mark.slow
def test_imports_in_functions_keep_something_slow_out() -> None:
    """Not a circle: an import in a function brings in a library that its module does without until then, or, in what every
    command of `tune` imports, a module that only some commands need."""
    found = ImportGraph.of(ROOT, SOURCES).pointless((TUNE, TUNE_LIST))
    places = (place.removeprefix(f"{ROOT}/") for place in found)
    assert [place for place in places if not place.startswith(LATE)] == []


MAKES_A_TYPE_VARIABLE = ("TypeVar", "ParamSpec", "TypeVarTuple")
GENERIC = {"Callable", "Generator", "Iterable", "Iterator", "Literal", "Mapping", "NDArray", "Sequence"}
GENERIC |= {"Annotated", "Collection", "Optional", "Union", "dict", "frozenset", "list", "set", "tuple", "type"}
PLAIN = {"bool", "bytes", "float", "int", "str"}


def is_type(value: ast.expr) -> bool:
    """Whether a module that assigns this to a name defines a type by it."""
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.BitOr):
        return is_type(value.left) and is_type(value.right)
    if isinstance(value, ast.Call):
        return ast.unparse(value.func).split(".")[-1] in ("NewType", "NamedTuple", "TypedDict")
    if isinstance(value, ast.Subscript):
        return ast.unparse(value.value).split(".")[-1] in GENERIC
    return isinstance(value, ast.Name) and value.id in PLAIN


def defined_types(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Name and line of every class, at any depth, and of every alias of the module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            yield node.name, node.lineno
    for statement in tree.body:
        for node in statement.body if isinstance(statement, ast.If) else (statement,):
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                if is_type(node.value):
                    yield node.targets[0].id, node.lineno
            elif isinstance(node, ast.AnnAssign) and ast.unparse(node.annotation).endswith("TypeAlias"):
                yield ast.unparse(node.target), node.lineno


def type_variables(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Name and line of the parameters of generic functions and classes."""
    for node in tree.body:
        called = node.value.func if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) else None
        if called is not None and ast.unparse(called).split(".")[-1] in MAKES_A_TYPE_VARIABLE:
            yield ast.unparse(node.targets[0]), node.lineno


@pytest.mark.slow
def test_each_type_has_a_name_of_its_own() -> None:
    """Classes and aliases, private ones too: a reader who searches for a name finds one thing."""
    places: dict[str, list[str]] = {}
    for path in SOURCES:
        for name, line in defined_types(parsed(path)):
            places.setdefault(name, []).append(f"{path.relative_to(ROOT)}:{line}")
    assert {name: found for name, found in places.items() if len(found) > 1} == {}
    assert {"Assignment", "Option", "CandidateKey", "IntArray", "Study", "Operation"} <= places.keys()


@pytest.mark.slow
def test_a_type_variable_is_not_taken_for_a_type() -> None:
    """It stands for a type in the signatures of its own module, so its name ends in T and may be in another module too."""
    trees = {path: parsed(path) for path in SOURCES}
    types = {name for tree in trees.values() for name, _ in defined_types(tree)}
    found = {name: f"{path}:{line}" for path, tree in trees.items() for name, line in type_variables(tree)}
    assert len(found) > 4
    assert {name: place for name, place in found.items() if not name.endswith("T") or name in types} == {}


def docstrings(tree: ast.Module) -> list[tuple[int, str]]:
    """Line and text of every docstring: of the module, of classes and functions, and of constants (a string after one)."""
    blocks = [node.body for node in ast.walk(tree) if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)]
    texts = [node.value for block in blocks for node in block if isinstance(node, ast.Expr)]
    return [(t.lineno, t.value) for t in texts if isinstance(t, ast.Constant) and isinstance(t.value, str)]


@pytest.mark.slow
def test_a_docstring_stands_alone() -> None:
    found = [(str(path.relative_to(ROOT)), *doc) for path in SOURCES for doc in docstrings(parsed(path))]
    assert len(found) > 1000
    assert [place for place in found if place[2].startswith(("Of ", "The same"))] == []


@pytest.mark.slow
def test_what_the_glossary_names_exists() -> None:
    rows = re.findall(r"^\| \*\*(.+?)\*\* \|.*\| `(.+?)` \|$", (ROOT / "docs" / "glossary.md").read_text(), re.M)
    trees = [parsed(path) for path in SOURCES]
    named = {name for tree in trees for name, _ in defined_types(tree)}
    named |= {node.name for tree in trees for node in tree.body if isinstance(node, ast.FunctionDef)}
    assert len(rows) > 60
    assert [row for row in rows if row[1] not in named and not (ROOT / row[1]).is_file()] == []
