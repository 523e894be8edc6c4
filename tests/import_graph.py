"""Which libraries a module of the project brings in when it is imported, read from the sources."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.parsed_sources import parsed

SLOW = frozenset(
    {
        *(
            "alembic",
            "amaranth",
            "choreographer",
            "cv2",
            "fcntl",
            "islpy",
            "jinja2",
            "kaleido",
            "lark",
            "numpy",
            "onnx",
            "onnxruntime",
            "tensorflow",
            "tflite_micro",
        ),
        *("optuna", "optuna_dashboard", "ortools", "pandas", "playwright", "plotly", "ray", "rich", "scipy", "skimage"),
        *("google", "skl2onnx", "sklearn", "sqlalchemy", "tflite", "torch", "waitress", "werkzeug", "z3"),
    }
)
"""Libraries that take a while to import, or that are not always there: what a function may import for itself."""


@dataclass(frozen=True)
class ImportGraph:
    """`direct`: by module, what it imports when it is imported itself."""

    paths: dict[str, Path]
    direct: dict[str, tuple[str, ...]]

    @classmethod
    def of(cls, root: Path, paths: Sequence[Path]) -> ImportGraph:
        """Of the files below `root`, whose folders are those of the package `kilotune`."""
        modules = {_module(path.relative_to(root)): path for path in paths}
        trees = {module: parsed(path) for module, path in modules.items()}
        return cls(
            modules,
            {
                module: tuple(name for node in _at_once(tree.body) for name in _names(node, modules))
                for module, tree in trees.items()
            },
        )

    def brought_in(self, module: str) -> frozenset[str]:
        """Every module that importing this one imports, itself and its packages among them; of other libraries those that a
        module of the project names."""
        waiting, seen = [module], set[str]()
        while waiting:
            name = waiting.pop()
            if name not in seen:
                seen.add(name)
                parts = name.split(".")
                waiting += [".".join(parts[:k]) for k in range(1, len(parts))] if parts[0] == "kilotune" else []
                waiting += self.direct.get(name, ())
        return frozenset(seen)

    def slow_libraries(self, module: str) -> frozenset[str]:
        """Those of SLOW that importing a module brings in."""
        return SLOW & {name.split(".")[0] for name in self.brought_in(module)}

    def pointless(self, programs: Sequence[Sequence[str]] = ()) -> Iterator[str]:
        """Imports in functions that keep nothing slow out: `path:line name`.

        Such an import keeps a slow library out of the import of its module. In a module that one of `programs` brings in when
        it starts it may as well keep a module out of that start; a program is the modules that it starts with.
        """
        starts = [frozenset[str]().union(*map(self.brought_in, modules)) for modules in programs]
        for module, place, name in self._in_functions():
            keeps_library_out = self.slow_libraries(name) - self.slow_libraries(module)
            if not keeps_library_out and not any(module in started and name not in started for started in starts):
                yield f"{place} {name}"

    def _in_functions(self) -> Iterator[tuple[str, str, str]]:
        """The imports in functions: the module, `path:line`, and what is imported."""
        for module, path in self.paths.items():
            for function in ast.walk(parsed(path)):
                if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                    for node in ast.walk(function):
                        if isinstance(node, ast.Import | ast.ImportFrom):
                            yield from ((module, f"{path}:{node.lineno}", name) for name in _names(node, self.paths))


def _module(path: Path) -> str:
    parts = ["kilotune", *path.with_suffix("").parts]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _names(node: ast.Import | ast.ImportFrom, modules: dict[str, Path]) -> list[str]:
    """The modules that a statement imports."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    full = [f"{node.module}.{alias.name}" for alias in node.names]
    return [name if name in modules else str(node.module) for name in full]


def _at_once(body: Sequence[ast.stmt]) -> Iterator[ast.Import | ast.ImportFrom]:
    """The import statements that run when the module is imported."""
    for node in body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield node
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            yield from _at_once(node.orelse)
        elif isinstance(node, ast.If | ast.Try | ast.With | ast.For | ast.ClassDef):
            for part in ("body", "orelse", "finalbody"):
                yield from _at_once(getattr(node, part, []))
            for handler in getattr(node, "handlers", []):
                yield from _at_once(handler.body)
