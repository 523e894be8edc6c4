"""A PyTorch module as an ONNX file."""

from __future__ import annotations

import io
import logging
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np


def is_module(model: Any) -> bool:
    """Whether something is a torch.nn.Module, without importing PyTorch."""
    return any(
        (kind.__module__, kind.__name__) == ("torch.nn.modules.module", "Module") for kind in type(model).__mro__
    )


def module_bytes(model: Any, rows: np.ndarray[Any, Any]) -> bytes:
    """The ONNX file of a module as it is after training, for one sample at a time.

    rows: [samples, ..] as the module takes a batch of them. The module's mode (training or not) stays as it is. ValueError, a sentence, for
    a module that PyTorch cannot write.
    """
    import torch

    example, training = torch.from_numpy(rows[:1].astype(np.float32)), model.training
    model.eval()
    try:
        with _quiet():
            return _written(torch, model, example)
    except Exception as error:  # PyTorch raises what it likes for what it cannot follow
        said = re.sub(r"\x1b\[[0-9;]*m", "", str(error.__cause__ or error))  # without colours
        reason = " ".join(said.split())[:200]
        shape = "x".join(map(str, example.shape))
        raise ValueError(
            f"model: expected a module that torch.onnx.export writes for samples {shape}, found {type(model).__name__} ({reason})."
        ) from None
    finally:
        model.train(training)


@contextmanager
def _quiet() -> Iterator[None]:
    """Keeps from the user what the exporter remarks on itself: packages that it could use, buffers that it renames. Errors are raised."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)


def _written(torch: Any, model: Any, example: Any) -> bytes:
    """By the exporter that follows the module's Python, or, without onnxscript or with an old PyTorch, by the one that watches it run."""
    try:
        program = torch.onnx.export(model, (example,), dynamo=True, verbose=False)
        return bytes(program.model_proto.SerializeToString())
    except (ImportError, TypeError):
        buffer = io.BytesIO()
        torch.onnx.export(model, (example,), buffer, dynamo=False)
        return buffer.getvalue()
