"""ResNet-50 with random weights: forward and backward on a batch of images, compared with the CPU's.

Batch normalisation of few values amplifies rounding: the judge is the CPU in float64, and the device may be four times as far from it as the CPU in float32.

warpwright run --gpu h200 --timing off bench/pytorch/resnet50.py [--images 8] [--size 224]
"""

from __future__ import annotations

import argparse
import time

import torch
import torch.nn as nn
import torch.nn.functional as F


class Bottleneck(nn.Module):
    """Convolutions of 1, 3 and 1 taps around an addition."""

    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        wide = 4 * width
        self.conv1, self.bn1 = nn.Conv2d(channels, width, 1, bias=False), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width)
        self.conv3, self.bn3 = nn.Conv2d(width, wide, 1, bias=False), nn.BatchNorm2d(wide)
        self.shortcut = nn.Sequential()
        if stride != 1 or channels != wide:
            self.shortcut = nn.Sequential(nn.Conv2d(channels, wide, 1, stride, bias=False), nn.BatchNorm2d(wide))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.relu(self.bn1(self.conv1(x)))
        y = F.relu(self.bn2(self.conv2(y)))
        return F.relu(self.bn3(self.conv3(y)) + self.shortcut(x))


class ResNet50(nn.Module):
    """He et al. 2016, with the stride at the convolution of three taps."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)
        )
        layers, channels = [], 64
        for width, blocks, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
            for i in range(blocks):
                layers.append(Bottleneck(channels, width, stride if i == 0 else 1))
                channels = 4 * width
        self.layers = nn.Sequential(*layers)
        self.head = nn.Linear(channels, 1000)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.layers(self.stem(x)).mean((2, 3)))


def run(model: nn.Module, images: torch.Tensor, labels: torch.Tensor) -> tuple[float, torch.Tensor, torch.Tensor]:
    """Loss, logits and the gradient of the first convolution's filter."""
    model.zero_grad()
    logits = model(images)
    loss = F.cross_entropy(logits, labels)
    loss.backward()
    gradient = next(model.parameters()).grad
    assert gradient is not None
    return loss.item(), logits.detach().cpu(), gradient.detach().cpu().clone()


def difference(found: torch.Tensor, exact: torch.Tensor) -> float:
    """The largest one, relative to the largest value."""
    return ((found - exact).abs().max() / exact.abs().max()).item()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=8)
    parser.add_argument("--size", type=int, default=224)
    options = parser.parse_args()
    torch.manual_seed(0)
    model = ResNet50()
    images, labels = torch.randn(options.images, 3, options.size, options.size), torch.randint(1000, (options.images,))
    single = run(model, images, labels)
    exact = run(model.double(), images.double(), labels)
    began, wall = time.process_time(), time.time()
    found = run(model.float().cuda(), images.cuda(), labels.cuda())
    print(f"loss {found[0]:.6f}, CPU {single[0]:.6f}, in float64 {exact[0]:.6f}")
    for name, place in (("logits", 1), ("first gradient", 2)):
        ours, theirs = (difference(result[place], exact[place]) for result in (found, single))
        print(f"largest difference of the {name} from float64: {ours:.1e}, CPU {theirs:.1e}")
        assert ours < 4 * theirs + 1e-6, name
    print(f"{time.process_time() - began:.0f} s of CPU, {time.time() - wall:.0f} s")
    assert abs(found[0] - exact[0]) < 1e-3


if __name__ == "__main__":
    main()
