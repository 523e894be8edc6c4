"""Networks of digits for the chip by name, trained by `experiments/papers/analognet_training.py`: kernel files with a `network`."""

from __future__ import annotations

from importlib import resources

from kilotune.codegen.scamp.kernel_files import KernelFile, parse_kernel_file

NETWORKS = ("analognet2-digits", "ternary8-digits")
"""AnalogNet2's kernels with dense layers of our own, and eight ternary kernels; both for 28 x 28 digits."""


def bundled_text(name: str) -> str:
    """The file of one of `NETWORKS`, as JSON."""
    return resources.files(__name__).joinpath(f"{name}.json").read_text(encoding="utf-8")


def bundled_file(name: str) -> KernelFile:
    """The file of one of `NETWORKS`."""
    return parse_kernel_file(bundled_text(name), f"{name}.json")
