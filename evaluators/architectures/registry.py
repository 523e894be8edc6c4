"""Which processor architectures there are."""

from __future__ import annotations

import importlib
import pkgutil

from kilotune.codegen.emit.project import GENERAL_TARGETS
from kilotune.codegen.emit.shape import COMPACT
from kilotune.codegen.emit.targets.target import ProjectTarget
from kilotune.evaluators import architectures as folder
from kilotune.evaluators.architectures.architecture import Architecture
from kilotune.evaluators.device import Device
from kilotune.evaluators.fpga import project as hardware


def architectures() -> tuple[Architecture, ...]:
    """Those of all folders beside this module, in the order of the folders' names."""
    names = [found.name for found in pkgutil.iter_modules(folder.__path__) if found.ispkg]
    return tuple(importlib.import_module(f"{folder.__name__}.{name}.definition").ARCHITECTURE for name in names)


def architecture_of(processor: str) -> Architecture:
    """The one that has the processor. ValueError, a sentence, when none has."""
    for architecture in architectures():
        if architecture.has(processor):
            return architecture
    raise ValueError(f"There is no processor {processor!r}; there are {known_processors()}.")


def code_shapes(processor: str) -> tuple[str, ...]:
    """Names of how a processor's inner loops may be written (`codegen.emit.shape`), the fastest first."""
    return architecture_of(processor).shapes(processor)


def priced_shapes(processor: str) -> tuple[str, ...]:
    """Names of those that its table of costs was fitted to: those that it may gain by, and the smallest."""
    return tuple(dict.fromkeys((*code_shapes(processor), COMPACT)))


def known_processors() -> str:
    """What a device's description may name, in words."""
    words = [architecture.processors for architecture in reversed(architectures())]
    return ", or ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def boards() -> tuple[Device, ...]:
    """The boards of all architectures."""
    return tuple(board for architecture in architectures() for board in architecture.boards)


def project_targets() -> dict[str, ProjectTarget]:
    """By name, what a folder with a program can be made for."""
    own = [target for architecture in architectures() for target in architecture.projects]
    return {target.name: target for target in (*GENERAL_TARGETS, *own, hardware.TARGET)}


def project_target(name: str) -> ProjectTarget:
    """The one of that name. ValueError, a sentence, when there is none."""
    targets = project_targets()
    if name not in targets:
        raise ValueError(f"There is no target {name!r}; there are {', '.join(targets)}.")
    return targets[name]
