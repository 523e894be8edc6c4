"""ResNet-20, ResNet-18 and VGG-16 by their shapes (He et al. 2016; Simonyan and Zisserman 2015), and uniform chains."""

from __future__ import annotations

from kilotune.spaces.cm.layers import IMAGE, ConvLayer, ConvNetwork, Read


def chain(length: int, width: int, kernel: int = 3, height: int | None = None, channels: int = 16) -> ConvNetwork:
    """Same-padded convolutions one after another."""
    layers, source = [], IMAGE
    for k in range(length):
        read = Read(source, kernel, 1, kernel // 2)
        layers.append(ConvLayer(f"conv{k}", channels, height or width, width, (read,)))
        source = layers[-1].name
    return ConvNetwork(f"chain-{length}", (height or width, width, channels), tuple(layers))


def resnet20() -> ConvNetwork:
    """For CIFAR: 19 convolutions, shortcuts without weights (He's option A)."""
    layers = [ConvLayer("conv0", 16, 32, 32, (Read(IMAGE, 3, 1, 1),))]
    for group, channels in enumerate((16, 32, 64)):
        size = 32 >> group
        for block in range(3):
            stride = 2 if group and not block else 1
            before = layers[-1].name
            first = ConvLayer(f"conv{group}.{block}a", channels, size, size, (Read(before, 3, stride, 1),))
            reads = (Read(first.name, 3, 1, 1), Read(before, 1, stride))
            layers += [first, ConvLayer(f"conv{group}.{block}b", channels, size, size, reads)]
    return ConvNetwork("resnet20", (32, 32, 3), tuple(layers))


def resnet18() -> ConvNetwork:
    """For 224x224: shortcuts as in ResNet-20."""
    layers = [
        ConvLayer("conv0", 64, 112, 112, (Read(IMAGE, 7, 2, 3),)),
        ConvLayer("pool", 64, 56, 56, (Read("conv0", 3, 2, 1),), matrix=False),
    ]
    for group, channels in enumerate((64, 128, 256, 512)):
        size = 56 >> group
        for block in range(2):
            stride = 2 if group and not block else 1
            before = layers[-1].name
            first = ConvLayer(f"conv{group}.{block}a", channels, size, size, (Read(before, 3, stride, 1),))
            reads = (Read(first.name, 3, 1, 1), Read(before, 1, stride))
            layers += [first, ConvLayer(f"conv{group}.{block}b", channels, size, size, reads)]
    return ConvNetwork("resnet18", (224, 224, 3), tuple(layers))


def vgg16() -> ConvNetwork:
    """The 13 convolutions, and the pooling between the groups."""
    layers: list[ConvLayer] = []
    source, size, inputs = IMAGE, 224, 64
    for group, (count, channels) in enumerate(((2, 64), (2, 128), (3, 256), (3, 512), (3, 512))):
        if group:
            layers.append(ConvLayer(f"pool{group}", inputs, size, size, (Read(source, 2, 2),), matrix=False))
            source = layers[-1].name
        for k in range(count):
            layers.append(ConvLayer(f"conv{group}.{k}", channels, size, size, (Read(source, 3, 1, 1),)))
            source = layers[-1].name
        size, inputs = size // 2, channels
    return ConvNetwork("vgg16", (224, 224, 3), tuple(layers))
