#!/usr/bin/python3
"""Exports the paper's backbones and a small vision transformer to ONNX, with random weights.

  export_backbones.py FOLDER

The weights are seeded, and so are the batch norms' means and variances: a network fresh from its constructor
has means of 0 and variances of 1, on which folding them wrongly would go unnoticed. Needs Debian's
python3-torch and python3-torchvision.
"""
import math
import os
import sys
import warnings

import torch
import torchvision


class Layers(torch.nn.Module):
    """The outputs of some modules of a network, under their own names."""

    def __init__(self, network, names):
        super().__init__()
        self.network = network
        self.outputs = {}
        for name in names:
            module = network.get_submodule(name)
            module.register_forward_hook(
                lambda _module, _inputs, output, name=name: self.outputs.update({name: output}))
        self.names = names

    def forward(self, image):
        self.network(image)
        return tuple(self.outputs[name] for name in self.names)


class Attention(torch.nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv = torch.nn.Linear(width, 3 * width)
        self.proj = torch.nn.Linear(width, width)

    def forward(self, x):
        batch, tokens, width = x.shape
        qkv = self.qkv(x).reshape(batch, tokens, 3, self.heads, width // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        weights = ((q * (width // self.heads) ** -0.5) @ k.transpose(-2, -1)).softmax(dim=-1)
        return self.proj((weights @ v).transpose(1, 2).reshape(batch, tokens, width))


class Block(torch.nn.Module):
    """As in DINOv2: layer norm first, and a learned scale on each branch."""

    def __init__(self, width, heads):
        super().__init__()
        self.norm1 = torch.nn.LayerNorm(width, eps=1e-6)
        self.attn = Attention(width, heads)
        self.scale1 = torch.nn.Parameter(torch.rand(width))
        self.norm2 = torch.nn.LayerNorm(width, eps=1e-6)
        self.mlp = torch.nn.Sequential(torch.nn.Linear(width, 4 * width), torch.nn.GELU(),
                                       torch.nn.Linear(4 * width, width))
        self.scale2 = torch.nn.Parameter(torch.rand(width))

    def forward(self, x):
        x = x + self.attn(self.norm1(x)) * self.scale1
        return x + self.mlp(self.norm2(x)) * self.scale2


class Transformer(torch.nn.Module):
    """Patches of 14 × 14 and a class token; the position embedding is stretched to the image's grid."""

    def __init__(self, width=192, depth=4, heads=3, grid=16):
        super().__init__()
        self.patch = torch.nn.Conv2d(3, width, 14, 14)
        self.token = torch.nn.Parameter(torch.randn(1, 1, width) * 0.02)
        self.position = torch.nn.Parameter(torch.randn(1, 1 + grid * grid, width) * 0.02)
        self.grid = grid
        self.blocks = torch.nn.ModuleList(Block(width, heads) for _ in range(depth))
        self.norm = torch.nn.LayerNorm(width, eps=1e-6)

    def forward(self, image):
        x = self.patch(image)
        height, width = x.shape[-2:]
        x = x.flatten(2).transpose(1, 2)
        position = self.position[:, 1:].reshape(1, self.grid, self.grid, -1).permute(0, 3, 1, 2)
        position = torch.nn.functional.interpolate(position, size=(height, width), mode="bicubic",
                                                   align_corners=False)
        position = position.permute(0, 2, 3, 1).reshape(1, -1, x.shape[-1])
        x = torch.cat([self.token.expand(x.shape[0], -1, -1) + self.position[:, :1], x + position], 1)
        for block in self.blocks:
            x = block(x)
        return self.norm(x)


def randomise(network):
    """Weights that keep the signal alive, and batch norms that have seen something."""
    for module in network.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            torch.nn.init.uniform_(module.weight, 0.5, 1.5)
            torch.nn.init.normal_(module.bias, 0, 0.1)
            torch.nn.init.normal_(module.running_mean, 0, 0.2)
            torch.nn.init.uniform_(module.running_var, 0.5, 2)
        elif isinstance(module, torch.nn.Conv2d):
            fan = module.weight[0].numel()
            torch.nn.init.normal_(module.weight, 0, math.sqrt(1.5 / fan))


def export(network, folder, name, layers=None):
    if layers:
        randomise(network)
        network = Layers(network, list(layers))
    network.eval()
    path = os.path.join(folder, name + ".onnx")
    outputs = list(layers.values()) if layers else ["tokens"]
    free = {2: "height", 3: "width"}
    torch.onnx.export(network, torch.randn(1, 3, 224, 224), path, opset_version=13,
                      input_names=["image"], output_names=outputs, dynamic_axes={"image": free})
    print(path)


def main(folder):
    warnings.filterwarnings("ignore")
    models = torchvision.models
    os.makedirs(folder, exist_ok=True)
    torch.manual_seed(1)
    export(models.wide_resnet50_2(), folder, "wide_resnet50_2",
           {"layer2": "layer2", "layer3": "layer3"})
    export(models.densenet201(), folder, "densenet201",
           {"features.denseblock2": "denseblock2", "features.denseblock3": "denseblock3"})
    export(models.efficientnet_b1(), folder, "efficientnet_b1",
           {"features.4": "features4", "features.6": "features6"})
    export(models.mobilenet_v2(), folder, "mobilenet_v2",
           {"features.6": "features6", "features.13": "features13"})
    export(Transformer(), folder, "vit")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
