"""The command that asks for a study again."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from kilotune.codegen.diagnostics import InputError
from kilotune.evaluators.architectures.registry import boards
from kilotune.experiments.problems.family import CommandOptions, SpaceFamily, command_options
from kilotune.experiments.problems.registry import find_entry
from kilotune.experiments.requests.request import TuneRequest, limit_text
from kilotune.spaces.objectives import TOTAL_RAM


def command_line(request: TuneRequest, budget: str) -> str:
    """For a shell, in whatever folder. A bundled input goes by its name, what was left out stays out."""
    family, _ = find_entry(request.space)
    name = input_name(request, family)
    if Path(name).exists():  # a file beside whoever asks now, and not a bundled one
        name = request.input
    parts = ["tune", "--space", request.space, *(["--input", name] if name else []), "--strategy", request.strategy]
    if request.seed:
        parts += ["--seed", str(request.seed)]
    if budget != "unlimited":
        parts += ["--budget", budget]
    return shlex.join([*parts, *given_options(request, family)])


def input_name(request: TuneRequest, family: SpaceFamily | None = None) -> str:
    """The name of what is bundled, or the path. `family`: of the request's space, where that is not on the list."""
    factory = (family or find_entry(request.space)[0]).factory
    path = Path(request.input)
    for name in (path.name, path.stem):
        try:
            if str(factory.resolve_input(name)) == request.input:
                return name
        except (InputError, OSError):
            continue
    return request.input


def given_options(request: TuneRequest, family: SpaceFamily) -> list[str]:
    """Options that say something else than the family's defaults for that device."""
    factory = family.factory
    asked = command_options(factory, request.options)
    default = command_options(factory, factory.read_options(request.space, CommandOptions(device=asked.device)))
    parts = list(_device_and_limits(asked))
    if asked.objective is not None and asked.objective != default.objective:
        parts += ["--objective", str(asked.objective)]
    for option in family.options:
        value = asked.given.get(str(option.name))
        if value is None or value == default.given.get(str(option.name)) or value in ((), []):
            continue
        if isinstance(value, bool):
            parts.append(option.opts[0] if value else option.secondary_opts[0])
            continue
        for each in value if isinstance(value, list | tuple) else (value,):
            parts += [option.opts[0], str(each)]
    return parts


def described_device(request: TuneRequest) -> tuple[str, str] | None:
    """Name and content of the file that the command reads, where the device is of the user's own: a study keeps what such
    a file said, not where it was. None for a shipped device, and without one."""
    device = request.options.get("device")
    if not device or any(shipped.as_json() == device for shipped in boards()):
        return None
    return _device_file(device), json.dumps(device, indent=2)


def _device_file(device: Mapping[str, Any]) -> str:
    stem = re.sub(r"[^\w.-]+", "-", str(device["name"])).strip(".-") or "device"
    return f"{stem}.json"


def _device_and_limits(asked: CommandOptions) -> Iterator[str]:
    device = asked.device or {}
    if device:
        shipped = any(known.as_json() == device for known in boards())
        yield from ("--device", str(device["name"]) if shipped else _device_file(device))
    implied = {"flash": device.get("flash_bytes"), "ram": device.get("ram_bytes"), TOTAL_RAM: device.get("ram_bytes")}
    for name, limit in asked.limits.items():
        if limit != implied.get(name):
            yield from ("--limit", limit_text(name, limit))
