"""What a command or a call asks of the spaces `seedot` and `shiftry`, read and refused."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from kilotune.evaluators.architectures.registry import priced_shapes
from kilotune.evaluators.on_device import missing_tools
from kilotune.experiments.problems.family import CommandOptions
from kilotune.experiments.problems.fixed_point.frames import check_given
from kilotune.experiments.problems.fixed_point.model import ACCUMULATORS, ANY, ModelOptions
from kilotune.experiments.problems.fixed_point.source import data_options
from kilotune.experiments.requests.request import ACCURACY
from kilotune.spaces.objectives import DEFAULT, LIMITED, TOTAL_RAM
from kilotune.spaces.shiftry.candidates import ShiftryOptions

LIMIT_OPTIONS = MappingProxyType({name: quantity.option for name, quantity in LIMITED.items() if quantity.option})
"""Options of a request by what --limit calls them."""

SEEDOT_OPTIONS = MappingProxyType({"accuracy_drop": "seedot_drop", "permitted_loss": "seedot_loss"})
"""Where a request for seedot holds what --drop and --loss say: without them it wants the most precise program, while the fields of
their own names always have a number."""

OF_FORMATS = MappingProxyType(
    {
        **{
            name: f"--{name}"
            for name in (
                "narrow",
                "truer",
                "finer",
                "codebook",
                "offsets",
                "wide",
                "equalise",
                "fitted",
                "trained",
                "pruned",
                "front",
            )
        },
        **{"rounding": "--rounding", "accumulator_bits": "--accumulator-bits"},
    }
)
"""Options that mean nothing where formats are those of a file, by their names in a command."""


def read_options(space: str, asked: CommandOptions) -> dict[str, Any]:
    """`ModelOptions` as JSON. ValueError for one that cannot be used."""
    given, limits = {**asked.given, **data_options(asked.given)}, asked.limits
    if ACCURACY in limits:
        raise ValueError(f"--limit accuracy is for networks of the space reverse-split; the space {space} has --drop.")
    if space == "seedot":
        given |= {own: given.pop(name) for name, own in SEEDOT_OPTIONS.items() if name in given}
    bits = given.pop("accumulator_bits", "auto")
    front = tuple(name for name in given.pop("front", "").split(",") if name)
    if front and space != "shiftry":
        raise ValueError(f"--front: expected the space shiftry, found {space}.")
    further = {name: amount for name, amount in limits.items() if name not in LIMIT_OPTIONS}
    if asked.device is not None:
        further.setdefault(TOTAL_RAM, asked.device["ram_bytes"])
    stated: dict[str, Any] = {option: limits.get(name) for name, option in LIMIT_OPTIONS.items()}
    if asked.device is not None and not {"level", "shape"} & set(given):
        given |= {"level": ANY, "shape": ANY}
    options = ModelOptions(
        **given,
        accumulator=bits if bits == ANY else ACCUMULATORS[bits].value,
        **stated,
        further_limits=further,
        device=asked.device,
        objective=asked.objective or DEFAULT,
        front=front,
    )
    _check_build(options)
    _check_shape(options)
    _check_linked(space, options)
    if options.keep_quantisation:
        _check_kept(space, asked.given)
    check_given(options)
    _check_decided(space, options)
    if options.pruned:
        _check_pruned(space, options)
    if options.trained and (space != "shiftry" or front):
        raise ValueError(
            f"--trained: expected the space shiftry without --front, found {'--front' if front else space}."
        )
    if front:  # refused here, not when the model has been loaded
        ShiftryOptions(timing=options.timing, objective=options.objective, front=front)
    return {**dataclasses.asdict(options), "front": list(front)}


def _check_decided(space: str, options: ModelOptions) -> None:
    """ValueError, a sentence, for a space whose searches do not decide what is to be decided."""
    for option, value in (("--rounding", options.rounding), ("--accumulator-bits", options.accumulator)):
        if value == ANY and space != "shiftry":
            raise ValueError(f"{option} any: expected the space shiftry, whose searches decide it, found {space}.")


def _check_pruned(space: str, options: ModelOptions) -> None:
    """ValueError, a sentence, where no search decides which units are left out."""
    if space != "shiftry":
        raise ValueError(f"--pruned: expected the space shiftry, found {space}.")
    if options.front:
        return
    limited = options.further_limits or any(getattr(options, name) is not None for name in LIMIT_OPTIONS.values())
    if not limited or options.objective != DEFAULT:
        found = f"--objective {options.objective}" if options.objective != DEFAULT else "neither"
        raise ValueError(
            "--pruned: expected --front, or a --limit or --device within which the most precise program is searched for, "
            f"found {found}."
        )


def _check_build(options: ModelOptions) -> None:
    """ValueError, a sentence, where builds are to be compared on no device."""
    for option, value in (("--level", options.level), ("--shape", options.shape)):
        if value == ANY and options.board is None:
            raise ValueError(f"{option} any: builds are compared on a device: expected --device too, found none.")


def _check_shape(options: ModelOptions) -> None:
    """ValueError, a sentence, for code in a shape of which nothing can be foretold on the device that it is for."""
    board = options.board
    if board is None or options.shape_name in priced_shapes(board.processor):
        return
    known = ", ".join(priced_shapes(board.processor))
    raise ValueError(
        f"--shape: expected one that {board.name} can gain by ({known}), found {options.shape_name}, whose cycles there nothing "
        f"predicts; `tune export --shape {options.shape_name}` writes a program in it."
    )


def _check_linked(space: str, options: ModelOptions) -> None:
    """ValueError, a sentence, where linked programs are asked for and cannot be told of."""
    if not options.asks_for_linked:
        return
    if space != "shiftry" or options.keep_quantisation:
        raise ValueError(
            "Linked flash is estimated from the widths of variables: expected the space shiftry, which decides them."
        )
    if options.board is None:
        raise ValueError("Linked flash depends on the processor: expected --device too, found none.")
    missing = missing_tools(options.board)
    if missing is not None:
        raise ValueError(f"Linked flash takes the device's compiler. {missing}")


def _check_kept(space: str, given: Mapping[str, Any]) -> None:
    """ValueError, a sentence, for what asks for other formats than the file's own."""
    if space != "shiftry":
        raise ValueError(f"--keep-quantisation: expected the space shiftry, found {space}.")
    asked = [option for name, option in OF_FORMATS.items() if given.get(name) not in (None, False)]
    if asked:
        raise ValueError(
            f"--keep-quantisation leaves no formats to decide: expected none of what is about them, found {asked[0]}."
        )


def command_options(options: Mapping[str, Any]) -> CommandOptions:
    """What `read_options` has read, under the command's names."""
    widths = {ANY: ANY, **{accumulator.value: bits for bits, accumulator in ACCUMULATORS.items()}}
    given = {
        **options,
        "accumulator_bits": widths.get(str(options.get("accumulator"))),
        "front": ",".join(options.get("front", ())) or None,
    }
    given |= {name: given[own] for name, own in SEEDOT_OPTIONS.items() if given.get(own) is not None}
    limits = {name: options[option] for name, option in LIMIT_OPTIONS.items() if options.get(option) is not None}
    limits |= options.get("further_limits", {})
    return CommandOptions(given, limits, options.get("objective"), options.get("device"))
