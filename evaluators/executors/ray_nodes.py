"""What the nodes of a Ray cluster have of what an evaluation needs: this package, and a C compiler for its kernels."""

from __future__ import annotations

import importlib
import importlib.metadata
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kilotune.evaluators.executors.cache import hash_of_sources
from kilotune.evaluators.executors.ray_connection import first_line

PATIENCE_S = 120.0
"""For a node to answer: it may have to compile a kernel first."""

FLOORS = ("kilotune.search", "kilotune.codegen", "kilotune.evaluators")
UNKNOWN = "unknown"


@dataclass(frozen=True)
class Installation:
    """What of kilotune a machine has. `version` is None where there is none; `compiler` is None where kernels cannot be built."""

    version: str | None
    sources: str = UNKNOWN
    compiler: str | None = None


def installation() -> Installation:
    """This machine's."""
    from kilotune.evaluators.fixed_point.kernel import load_kernel

    kernel = load_kernel()
    folders = [Path(str(importlib.import_module(name).__file__)).parent for name in FLOORS]
    compiler = None if kernel is None else kernel.compiler
    return Installation(importlib.metadata.version("kilotune"), hash_of_sources(folders), compiler)


def check_nodes(ray: Any) -> list[str]:
    """A sentence on every node that can evaluate. ValueError, a sentence for each, when some cannot, or would measure something
    else than this machine."""
    nodes = [node for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU")]
    found = {_name(node): answer for node, answer in zip(nodes, _ask(ray, nodes), strict=True)}
    here = installation()
    refusals = [text for name, answer in found.items() if (text := refusal(name, answer, here)) is not None]
    if refusals:
        raise ValueError(" ".join(refusals))
    return [description(name, answer) for name, answer in found.items() if isinstance(answer, Installation)]


def refusal(node: str, there: Installation | str, here: Installation) -> str | None:
    """Why a node cannot be used, with what to do; None when it can. `there` is a reason where it did not answer."""
    if isinstance(there, str):
        return f"The Ray node {node} did not answer ({there})."
    if there.version is None:
        return f"The Ray node {node} has no kilotune: `pip install kilotune=={here.version}` there."
    if there.version != here.version:
        return f"The Ray node {node} has kilotune {there.version}, and this is {here.version}: install the same there."
    if there.sources != here.sources:
        return f"The Ray node {node} has a kilotune {there.version} of other sources than this one: install the same there."
    return None


def description(node: str, there: Installation) -> str:
    """What a usable node has."""
    kernels = f"kernels built by {there.compiler}"
    if there.compiler is None:
        kernels = "no C compiler, so that evaluations take many times as long (on Debian: apt install gcc libc6-dev)"
    return f"Ray node {node}: kilotune {there.version}, {kernels}"


def _name(node: Any) -> str:
    return f"{node['NodeManagerHostname']} ({node['NodeManagerAddress']})"


def _ask(ray: Any, nodes: Sequence[Any]) -> list[Installation | str]:
    def look() -> tuple[
        str | None, str, str | None
    ]:  # nested, so that it travels as code: the package may not be there
        import importlib.metadata

        try:
            import kilotune.search.space  # noqa: F401
        except ImportError:
            return None, "", None
        version = importlib.metadata.version("kilotune")
        try:
            from kilotune.evaluators.executors.ray_nodes import installation
        except ImportError:
            return version, "", None
        found = installation()
        return version, found.sources, found.compiler

    remote = ray.remote(num_cpus=0, max_retries=0)(look)
    affinity = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy
    calls = [remote.options(scheduling_strategy=affinity(node["NodeID"], soft=False)).remote() for node in nodes]
    ray.wait(calls, num_returns=len(calls), timeout=PATIENCE_S)
    answers: list[Installation | str] = []
    for call in calls:
        try:
            answers.append(Installation(*ray.get(call, timeout=0)))
        except ray.exceptions.GetTimeoutError:
            answers.append(f"not within {PATIENCE_S:.0f} s")
        except ray.exceptions.RayError as error:
            answers.append(first_line(error))
    return answers
