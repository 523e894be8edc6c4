"""OpenCV's cascades of boosted stumps on Haar features, read from their XML files.

Numbers are kept in the precision in which OpenCV compares them (single, unless said).
"""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from kilotune.codegen.diagnostics import InputError

FRONTAL_FACE = "haarcascade_frontalface_default.xml"

STAGE_SLACK = np.float32(1e-5)
"""OpenCV passes windows whose votes are this much below a stage's threshold."""


@dataclass(frozen=True)
class WeightedRectangle:
    """Pixels `[left, left + width)` times `[top, top + height)` of the window, rows counted downwards, and their weight."""

    left: int
    top: int
    width: int
    height: int
    weight: int


@dataclass(frozen=True)
class Stump:
    """A vote: `below` where the normalised feature is less than the threshold, else `above`."""

    feature: int
    threshold: np.float32
    below: np.float32
    above: np.float32


@dataclass(frozen=True)
class CascadeStage:
    """A window passes when the votes (added in double precision) reach the threshold, which has its slack already."""

    stumps: tuple[Stump, ...]
    threshold: np.float32


@dataclass(frozen=True)
class Cascade:
    """Features are sums of weighted rectangles in a window of `width` times `height` pixels."""

    width: int
    height: int
    stages: tuple[CascadeStage, ...]
    features: tuple[tuple[WeightedRectangle, ...], ...]


def frontal_face_file() -> Path:
    """The frontal-face cascade that OpenCV ships. Raises `ModuleNotFoundError` (a sentence) where there is none."""
    try:
        from cv2 import data
    except ImportError as error:
        raise ModuleNotFoundError("Face detection needs OpenCV 4: pip install 'kilotune[faces]'.") from error
    path = Path(data.haarcascades) / FRONTAL_FACE
    if not path.is_file():
        raise ModuleNotFoundError(
            f"This OpenCV ships no {FRONTAL_FACE} (version 5 has none): pip install 'kilotune[faces]'."
        )
    return path


def read_cascade(path: Path) -> Cascade:
    """A cascade of upright Haar features and trees of depth one. Raises `InputError` for any other file."""
    try:
        root = ElementTree.parse(path).getroot()
    except ElementTree.ParseError as error:
        line, column = error.position
        raise InputError(str(path), line=line, column=column + 1, expected="XML", found=str(error)) from None
    node = root.find("cascade")
    try:
        if node is None or _text(node, "featureType") != "HAAR":
            raise ValueError("no cascade of Haar features")
        features = tuple(_feature(entry) for entry in _entries(node, "features"))
        stages = tuple(_stage(entry, len(features)) for entry in _entries(node, "stages"))
        return Cascade(int(_text(node, "width")), int(_text(node, "height")), stages, features)
    except (ValueError, IndexError) as error:
        expected = "an OpenCV cascade of upright Haar features with stumps"
        raise InputError(str(path), line=1, column=1, expected=expected, found=str(error)) from None


def _entries(node: ElementTree.Element, name: str) -> list[ElementTree.Element]:
    found = node.find(name)
    if found is None:
        raise ValueError(f"no <{name}>")
    return list(found)


def _text(node: ElementTree.Element, name: str) -> str:
    found = node.findtext(name)
    if found is None:
        raise ValueError(f"no <{name}>")
    return found.strip()


def _feature(entry: ElementTree.Element) -> tuple[WeightedRectangle, ...]:
    if (entry.findtext("tilted") or "0").strip() != "0":
        raise ValueError("a tilted feature")
    rectangles = []
    for row in _entries(entry, "rects"):
        left, top, width, height, weight = (row.text or "").split()
        if float(weight) != int(float(weight)):
            raise ValueError(f"the weight {weight}, not an integer")
        rectangles.append(WeightedRectangle(int(left), int(top), int(width), int(height), int(float(weight))))
    return tuple(rectangles)


def _stage(entry: ElementTree.Element, features: int) -> CascadeStage:
    stumps = []
    for weak in _entries(entry, "weakClassifiers"):
        inner, leaves = _text(weak, "internalNodes").split(), _text(weak, "leafValues").split()
        if len(inner) != 4 or len(leaves) != 2:
            raise ValueError("a tree deeper than a stump")
        feature = int(inner[2])
        if not 0 <= feature < features:
            raise ValueError(f"feature {feature} of {features}")
        stumps.append(Stump(feature, np.float32(inner[3]), np.float32(leaves[0]), np.float32(leaves[1])))
    return CascadeStage(tuple(stumps), np.float32(_text(entry, "stageThreshold")) - STAGE_SLACK)
