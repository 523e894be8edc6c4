"""Published networks by their layers, without weights: stem, pools, joins and classifier, as they classify.

Batch normalisation is folded into the convolution before it, as for a file. What is used in training only (dropout,
GoogLeNet's auxiliary classifiers) is left out. Softmax is the host's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType

from kilotune.codegen.onnx.graph import Graph
from kilotune.codegen.onnx.topology import IMAGE, Topology

IMAGENET = (3, 224, 224)


def chain(length: int, width: int, kernel: int = 3, height: int | None = None, channels: int = 16) -> Graph:
    """Same-padded convolutions one after another, nothing between them."""
    net = Topology(f"chain-{length}", (channels, height or width, width))
    x = IMAGE
    for k in range(length):
        x = net.conv(x, f"conv{k}", channels, kernel)
    return net.graph(x)


def resnet20(net: Topology) -> str:
    """For CIFAR: 19 convolutions, shortcuts without weights (option A: every other pixel, more channels of zeros) and a
    fully connected layer (He, Zhang, Ren and Sun: Deep residual learning for image recognition, CVPR 2016, Section 4.2)."""
    x = _normalised(net, IMAGE, "conv0", 16, 3)
    for group, channels in enumerate((16, 32, 64)):
        for block in range(3):
            name, stride = f"{group}.{block}", 2 if group and not block else 1
            y = _normalised(net, x, f"conv{name}a", channels, 3, stride)
            y = _convolved(net, y, f"conv{name}b", channels, 3)
            short = x if stride == 1 else _padded_shortcut(net, x, f"short{name}", channels)
            x = net.node("Relu", [net.node("Add", [y, short], f"add{name}")], f"relu{name}")
    return _classifier(net, x, 10)


def _padded_shortcut(net: Topology, source: str, name: str, channels: int) -> str:
    missing = channels - net.shape(source)[0]
    sliced = {"starts": (0, 0), "ends": net.shape(source)[1:], "axes": (2, 3), "steps": (2, 2)}
    x = net.node("Slice", [source], f"{name}.pixels", constants=sliced)
    return net.node("Pad", [x], name, constants={"pads": [0, missing // 2, 0, 0, 0, missing - missing // 2, 0, 0]})


def resnet18(net: Topology) -> str:
    """Two residual blocks of two 3x3 convolutions for each of four sizes, projections where the size changes (option B; He
    et al. 2016, Table 1)."""
    x = _residual_stem(net)
    for group, channels in enumerate((64, 128, 256, 512)):
        for block in range(2):
            name, stride = f"{group}.{block}", 2 if group and not block else 1
            y = _normalised(net, x, f"conv{name}a", channels, 3, stride)
            y = _convolved(net, y, f"conv{name}b", channels, 3)
            x = _joined(net, x, y, name, stride)
    return _classifier(net, x, 1000)


def resnet50(net: Topology) -> str:
    """Bottlenecks of 1x1, 3x3 and 1x1 convolutions (He et al. 2016, Table 1). The 3x3 has the stride, as in torchvision and in
    the model that the onnx package ships; the paper's first 1x1 has it in the authors' own model."""
    x = _residual_stem(net)
    for group, (channels, blocks) in enumerate(((64, 3), (128, 4), (256, 6), (512, 3))):
        for block in range(blocks):
            name, stride = f"{group}.{block}", 2 if group and not block else 1
            y = _normalised(net, x, f"conv{name}a", channels, 1)
            y = _normalised(net, y, f"conv{name}b", channels, 3, stride)
            y = _convolved(net, y, f"conv{name}c", 4 * channels, 1)
            x = _joined(net, x, y, name, stride)
    return _classifier(net, x, 1000)


def _residual_stem(net: Topology) -> str:
    x = _normalised(net, IMAGE, "conv0", 64, 7, 2)
    return net.pool("MaxPool", x, "pool0", 3, 2, 1)


def _joined(net: Topology, x: str, y: str, name: str, stride: int) -> str:
    """relu(x + y); x through a 1x1 convolution when its shape is another."""
    if net.shape(x) != net.shape(y):
        x = _convolved(net, x, f"project{name}", net.shape(y)[0], 1, stride)
    return net.node("Relu", [net.node("Add", [y, x], f"add{name}")], f"relu{name}")


def vgg16(net: Topology) -> str:
    """13 convolutions of 3x3 and three fully connected layers (Simonyan and Zisserman: Very deep convolutional networks for
    large-scale image recognition, ICLR 2015, configuration D)."""
    x = IMAGE
    for group, (count, channels) in enumerate(((2, 64), (2, 128), (3, 256), (3, 512), (3, 512))):
        for k in range(count):
            x = _rectified(net, x, f"conv{group}.{k}", channels, 3)
        x = net.pool("MaxPool", x, f"pool{group}", 2, 2)
    for k in range(2):
        x = net.node("Relu", [net.linear(x, f"fc{k}", 4096)], f"fc{k}.relu")
    return net.node("Softmax", [net.linear(x, "fc2", 1000)], "probabilities")


def squeezenet(net: Topology, version: str) -> str:
    """Fire modules: 1x1 convolutions, then 1x1 and 3x3 side by side (Iandola et al.: SqueezeNet, 2016, Table 1). Version 1.1
    has a smaller stem and pools earlier (its authors' repository)."""
    squeezes, channels, stem = (16, 16, 32, 32, 48, 48, 64, 64), (64, 64, 128, 128, 192, 192, 256, 256), (96, 7)
    pools: Sequence[int] = (2, 6)
    if version == "1.1":
        stem, pools = (64, 3), (1, 3)
    x = _rectified(net, IMAGE, "conv1", *stem, stride=2, padding=0)
    x = net.pool("MaxPool", x, "pool1", 3, 2, up=True)
    for number, (narrow, wide) in enumerate(zip(squeezes, channels, strict=True)):
        name = f"fire{number + 2}"
        x = _rectified(net, x, f"{name}.squeeze", narrow, 1)
        sides = [_rectified(net, x, f"{name}.expand{kernel}x{kernel}", wide, kernel) for kernel in (1, 3)]
        x = net.node("Concat", sides, name, axis=1)
        if number in pools:
            x = net.pool("MaxPool", x, f"{name}.pool", 3, 2, up=True)
    x = _rectified(net, x, "conv10", 1000, 1)
    x = net.node("GlobalAveragePool", [x], "average")
    return net.node("Softmax", [net.node("Flatten", [x], "flat")], "probabilities")


INCEPTIONS: Mapping[str, tuple[int, int, int, int, int, int]] = MappingProxyType(
    {
        "3a": (64, 96, 128, 16, 32, 32),
        "3b": (128, 128, 192, 32, 96, 64),
        "4a": (192, 96, 208, 16, 48, 64),
        "4b": (160, 112, 224, 24, 64, 64),
        "4c": (128, 128, 256, 24, 64, 64),
        "4d": (112, 144, 288, 32, 64, 64),
        "4e": (256, 160, 320, 32, 128, 128),
        "5a": (256, 160, 320, 32, 128, 128),
        "5b": (384, 192, 384, 48, 128, 128),
    }
)
"""GoogLeNet's modules: channels of 1x1, 3x3 reduce, 3x3, 5x5 reduce, 5x5 and pool projection (its Table 1)."""


def googlenet(net: Topology) -> str:
    """Nine inception modules (Szegedy et al.: Going deeper with convolutions, CVPR 2015, Table 1 and Figure 3), without the
    auxiliary classifiers; biases, no batch normalisation, two local response normalisations with the constants of Krizhevsky,
    Sutskever and Hinton (2012), the sum divided by its five channels as ONNX and Caffe do."""
    x = net.pool("MaxPool", _rectified(net, IMAGE, "conv1", 64, 7, 2), "pool1", 3, 2, up=True)
    x = _response_normalised(net, x, "norm1")
    x = _rectified(net, _rectified(net, x, "conv2.reduce", 64, 1), "conv2", 192, 3)
    x = _response_normalised(net, x, "norm2")
    x = net.pool("MaxPool", x, "pool2", 3, 2, up=True)
    for name, (single, reduce3, wide3, reduce5, wide5, projected) in INCEPTIONS.items():
        branches = [
            _rectified(net, x, f"{name}.1x1", single, 1),
            _rectified(net, _rectified(net, x, f"{name}.3x3.reduce", reduce3, 1), f"{name}.3x3", wide3, 3),
            _rectified(net, _rectified(net, x, f"{name}.5x5.reduce", reduce5, 1), f"{name}.5x5", wide5, 5),
            _rectified(net, net.pool("MaxPool", x, f"{name}.pool", 3, 1, 1), f"{name}.project", projected, 1),
        ]
        x = net.node("Concat", branches, name, axis=1)
        if name in ("3b", "4e"):
            x = net.pool("MaxPool", x, f"{name}.pooled", 3, 2, up=True)
    return net.node("Softmax", [_classifier(net, x, 1000)], "probabilities")


def _response_normalised(net: Topology, source: str, name: str) -> str:
    return net.node("LRN", [source], name, size=5, alpha=1e-4, beta=0.75, bias=1.0)


INVERTED_RESIDUALS = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)
"""MobileNetV2's bottlenecks: expansion, channels, how many, stride of the first (its Table 2)."""


def mobilenet_v2(net: Topology) -> str:
    """Inverted residuals with depthwise convolutions and ReLU6 (Sandler et al.: MobileNetV2, CVPR 2018, Table 2)."""
    x = _limited(net, IMAGE, "conv0", 32, 3, 2)
    for group, (expansion, channels, count, first_stride) in enumerate(INVERTED_RESIDUALS):
        for block in range(count):
            name, before, stride = f"{group}.{block}", x, 1 if block else first_stride
            wide = net.shape(x)[0] * expansion
            y = x if expansion == 1 else _limited(net, x, f"expand{name}", wide, 1)
            y = _limited(net, y, f"depthwise{name}", wide, 3, stride, groups=wide)
            x = _convolved(net, y, f"project{name}", channels, 1)
            if net.shape(before) == net.shape(x):
                x = net.node("Add", [before, x], f"add{name}")
    return _classifier(net, _limited(net, x, "conv1", 1280, 1), 1000)


def _classifier(net: Topology, source: str, classes: int) -> str:
    return net.linear(net.node("GlobalAveragePool", [source], "average"), "fc", classes)


def _rectified(
    net: Topology, source: str, name: str, channels: int, kernel: int, stride: int = 1, padding: int | None = None
) -> str:
    """A convolution with a bias, and ReLU."""
    return net.node("Relu", [net.conv(source, name, channels, kernel, stride, padding, bias=True)], f"{name}.relu")


def _normalised(net: Topology, source: str, name: str, channels: int, kernel: int, stride: int = 1) -> str:
    """A convolution, batch normalisation and ReLU."""
    return net.node("Relu", [_convolved(net, source, name, channels, kernel, stride)], f"{name}.relu")


def _convolved(
    net: Topology, source: str, name: str, channels: int, kernel: int, stride: int = 1, groups: int = 1
) -> str:
    """A convolution and batch normalisation; the two are one layer, and `name` is what it has computed."""
    return net.normal(net.conv(source, f"{name}.sums", channels, kernel, stride, groups=groups), name)


def _limited(
    net: Topology, source: str, name: str, channels: int, kernel: int, stride: int = 1, groups: int = 1
) -> str:
    """A convolution, batch normalisation and ReLU6."""
    x = _convolved(net, source, name, channels, kernel, stride, groups)
    return net.node("Clip", [x], f"{name}.relu6", constants={"low": 0.0, "high": 6.0})


LAYERS: Mapping[str, tuple[tuple[int, int, int], Callable[[Topology], str]]] = MappingProxyType(
    {
        "resnet20": ((3, 32, 32), resnet20),
        "resnet18": (IMAGENET, resnet18),
        "resnet50": (IMAGENET, resnet50),
        "vgg16": (IMAGENET, vgg16),
        "squeezenet1.0": (IMAGENET, partial(squeezenet, version="1.0")),
        "squeezenet1.1": (IMAGENET, partial(squeezenet, version="1.1")),
        "googlenet": (IMAGENET, googlenet),
        "mobilenet-v2": (IMAGENET, mobilenet_v2),
    }
)
"""The image and the layers of every network that is known without its weights."""


def topology_of(name: str) -> tuple[Topology, str]:
    """A network of `LAYERS` and the name of its output."""
    image, layers = LAYERS[name]
    topology = Topology(name, image)
    return topology, layers(topology)


def weightless(name: str) -> Graph:
    """The graph of a network of `LAYERS`."""
    topology, output = topology_of(name)
    return topology.graph(output)
