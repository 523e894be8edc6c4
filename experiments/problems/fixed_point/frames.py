"""How a program gets its input: --streaming, a frame at a time, samples in the order of frames; --overwrite-input, when it asks."""

from __future__ import annotations

import dataclasses

import numpy as np

from kilotune.codegen import ir
from kilotune.codegen.bundle import Bundle
from kilotune.codegen.emit.streaming import streamed
from kilotune.codegen.feature_order import FeatureOrder
from kilotune.codegen.feature_scaling import FeatureScaling
from kilotune.codegen.time_steps import FramedProgram, over_frames
from kilotune.experiments.problems.fixed_point.model import ModelOptions


def check_given(options: ModelOptions) -> None:
    """ValueError, a sentence, for ways to give the input that exclude or need one another."""
    if options.hop and not options.streaming:
        raise ValueError(f"--hop {options.hop}: expected --streaming, to which it belongs.")
    if options.streaming and options.overwrite_input:
        raise ValueError("--overwrite-input: expected no --streaming, with which a frame is all that RAM holds.")


def as_given(bundle: Bundle, options: ModelOptions) -> Bundle:
    """The model for the way in which the options give the input. ValueError, a sentence, for one that cannot be given it so."""
    if options.streaming:
        return in_frames(bundle, options.hop)
    if options.overwrite_input and not streamed(bundle.program)[1].whole:
        found = "a loop over its frames, of which --streaming holds one"
        raise ValueError(f"--overwrite-input: expected a model that reads its sample as a whole, found {found}.")
    return bundle


def in_frames(bundle: Bundle, hop: int) -> Bundle:
    """The model as a loop over frames of its input: as it is where it is one, as a recurrent network, else with its layers walking along
    time. `hop`: after how many further frames the next window ends, 0 where windows do not overlap.

    ValueError, a sentence, for a model that is neither, and for a hop that it cannot have.
    """
    try:
        streamed(bundle.program, pushed=True)
    except ValueError:
        if not any(isinstance(operation, ir.Windowed) for operation in ir.operations(bundle.program.body)):
            raise
        framed = over_frames(bundle.program, overlapping=hop > 0)
        _check_hop(framed, hop)
        return _reordered(bundle, framed)
    if hop:
        raise ValueError(
            "--hop: expected a model of convolutions along time, found a loop, whose state would have to go back."
        )
    return bundle


def _check_hop(framed: FramedProgram, hop: int) -> None:
    if not hop:
        return
    if not framed.hop:
        expected = "a model without padding along time"
        raise ValueError(f"--hop {hop}: expected {expected}, found one whose windows have ends of their own.")
    frames = streamed(framed.program, pushed=True)[1].frames
    if hop % framed.hop or hop > frames:
        expected = (
            f"a multiple of {framed.hop} frames (the strides of its layers)"
            if framed.hop > 1
            else "a whole number of frames"
        )
        raise ValueError(f"--hop: expected {expected}, at most {frames}, found {hop}.")


def _reordered(bundle: Bundle, framed: FramedProgram) -> Bundle:
    """The bundle with that program, and features in the order of its frames."""
    order = np.asarray(framed.order)
    parts = [
        None if part is None else dataclasses.replace(part, features=np.ascontiguousarray(part.features[:, order]))
        for part in (bundle.train, bundle.test)
    ]
    scaling = bundle.scaling
    if isinstance(scaling, FeatureScaling):
        scaling = FeatureScaling(
            tuple(scaling.exponents[place] for place in framed.order),
            tuple(scaling.offsets[place] for place in framed.order),
        )
    moved = None if framed.order == tuple(range(len(framed.order))) else FeatureOrder(framed.order)
    return dataclasses.replace(
        bundle, program=framed.program, train=parts[0], test=parts[1], scaling=scaling, order=moved
    )
