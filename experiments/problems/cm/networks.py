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
    first = (ConvLayer("conv0", 16, 32, 32, (Read(IMAGE, 3, 1, 1),)),)
    return ConvNetwork("resnet20", (32, 32, 3), _with_residual_blocks(first, 32, (16, 32, 64), 3))


def resnet18() -> ConvNetwork:
    """For 224x224: shortcuts as in ResNet-20."""
    first = (
        ConvLayer("conv0", 64, 112, 112, (Read(IMAGE, 7, 2, 3),)),
        ConvLayer("pool", 64, 56, 56, (Read("conv0", 3, 2, 1),), matrix=False),
    )
    return ConvNetwork("resnet18", (224, 224, 3), _with_residual_blocks(first, 56, (64, 128, 256, 512), 2))


def _with_residual_blocks(
    first: tuple[ConvLayer, ...], size: int, widths: tuple[int, ...], blocks: int
) -> tuple[ConvLayer, ...]:
    """`first`, then for each number of channels so many blocks of two 3x3 convolutions and a shortcut; every group but the first
    halves the image, which has `size` rows and columns after `first`."""
    layers = list(first)
    for group, channels in enumerate(widths):
        for block in range(blocks):
            stride = 2 if group and not block else 1
            before, side = layers[-1].name, size >> group
            convolution = ConvLayer(f"conv{group}.{block}a", channels, side, side, (Read(before, 3, stride, 1),))
            reads = (Read(convolution.name, 3, 1, 1), Read(before, 1, stride))
            layers += [convolution, ConvLayer(f"conv{group}.{block}b", channels, side, side, reads)]
    return tuple(layers)


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
