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
from kilotune.experiments.problems.family import Asked, Family
from kilotune.experiments.problems.registry import find_offer
from kilotune.experiments.studies.request import TuneRequest

LIMITS = (
    ("flash_limit_bytes", "flash", "{:.0f}"),
    ("ram_limit_bytes", "ram", "{:.0f}"),
    ("cycles_limit", "cycles", "{:.15g}"),
    ("latency_limit_ms", "latency", "{:.15g}ms"),
)
"""Option of a request, what --limit calls it, and how an amount is written."""


def command_line(request: TuneRequest, budget: str) -> str:
    """For a shell, in whatever folder. A bundled input goes by its name, what was left out stays out."""
    family, _ = find_offer(request.space)
    name = input_name(request, family)
    if Path(name).exists():  # a file beside whoever asks now, and not a bundled one
        name = request.input
    parts = ["tune", "--space", request.space, *(["--input", name] if name else []), "--strategy", request.strategy]
    if request.seed:
        parts += ["--seed", str(request.seed)]
    if budget != "unlimited":
        parts += ["--budget", budget]
    return shlex.join([*parts, *given_options(request, family)])


def input_name(request: TuneRequest, family: Family | None = None) -> str:
    """The name of what is bundled, or the path. `family`: of the request's space, where that is not on the list."""
    door = (family or find_offer(request.space)[0]).front_door
    path = Path(request.input)
    for name in (path.name, path.stem):
        try:
            if str(door.resolve_input(name)) == request.input:
                return name
        except (InputError, OSError):
            continue
    return request.input


def given_options(request: TuneRequest, family: Family) -> list[str]:
    """Options that say something else than the family's defaults."""
    options, defaults = request.options, family.front_door.read_options(request.space, Asked())
    parts = list(_device_and_limits(options))
    objective = options.get("objective")
    if objective is not None and objective != defaults.get("objective"):
        parts += ["--objective", str(objective)]
    for option in family.options:
        name = str(option.name)
        value, default = _value(name, options), _value(name, defaults)
        if value is None or value == default or value in ((), []):
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


def _device_and_limits(options: Mapping[str, Any]) -> Iterator[str]:
    device = options.get("device") or {}
    if device:
        shipped = any(known.as_json() == device for known in boards())
        yield from ("--device", str(device["name"]) if shipped else _device_file(device))
    implied = {"flash_limit_bytes": device.get("flash_bytes"), "ram_limit_bytes": device.get("ram_bytes")}
    for name, word, form in LIMITS:
        limit = options.get(name)
        if limit is not None and limit != implied.get(name):
            yield from ("--limit", f"{word}={form.format(limit)}")


def _value(name: str, options: Mapping[str, Any]) -> Any:
    """An option as the command line writes it."""
    if name == "capacity":
        return options.get("capacity_bytes")
    if name == "accumulator_bits":
        from kilotune.experiments.problems.fixed_point.problem import ACCUMULATORS

        widths = {accumulator.value: bits for bits, accumulator in ACCUMULATORS.items()}
        return widths.get(str(options.get("accumulator")))
    value = options.get(name)
    return "x".join(map(str, value)) if name == "image_shape" and value else value
