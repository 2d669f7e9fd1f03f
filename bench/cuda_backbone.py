"""ResNet-50 up to layer3 in PyTorch, float16, channels last: the peer of cuda_backbone.cc. Random weights.

    python3 bench/cuda_backbone.py SIDE BATCH...
"""

import statistics
import sys
import time

import torch
from torchvision.models import resnet50


class UpToLayer3(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.net = resnet50(weights=None)
        del self.net.layer4, self.net.fc

    def forward(self, x):
        net = self.net
        x = net.maxpool(net.relu(net.bn1(net.conv1(x))))
        second = net.layer2(net.layer1(x))
        return second, net.layer3(second)


def fold(model):
    """Batch norm into the convolutions, as every engine does."""
    from torch.nn.utils.fusion import fuse_conv_bn_eval

    net = model.net
    net.conv1, net.bn1 = fuse_conv_bn_eval(net.conv1, net.bn1), torch.nn.Identity()
    for layer in (net.layer1, net.layer2, net.layer3):
        for block in layer:
            for i in (1, 2, 3):
                conv, norm = getattr(block, f"conv{i}"), getattr(block, f"bn{i}")
                setattr(block, f"conv{i}", fuse_conv_bn_eval(conv, norm))
                setattr(block, f"bn{i}", torch.nn.Identity())
            if block.downsample is not None:
                block.downsample = torch.nn.Sequential(fuse_conv_bn_eval(*block.downsample))
    return model


def graph_of(model, x):
    """The model's launches as a CUDA graph."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            model(x)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        model(x)
    return graph.replay


def milliseconds(work, in_a_row):
    for _ in range(3):
        work()
    torch.cuda.synchronize()
    times = []
    for _ in range(9):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        for _ in range(in_a_row):
            work()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) / in_a_row)
    return statistics.median(times)


@torch.inference_mode()
def main():
    side = int(sys.argv[1])
    torch.backends.cudnn.benchmark = True
    model = fold(UpToLayer3().eval()).cuda().half().to(memory_format=torch.channels_last)
    for batch in map(int, sys.argv[2:]):
        x = torch.randn(batch, 3, side, side, device="cuda").half().to(memory_format=torch.channels_last)
        in_a_row = 20 if batch == 1 else 4
        rows = [("plain", lambda: model(x)), ("graph", graph_of(model, x))]
        try:
            start = time.time()
            torch._dynamo.reset()
            compiled = torch.compile(model, dynamic=False)
            compiled(x)
            rows.append(("compiled, graph", graph_of(compiled, x)))
            print(f"compiled in {time.time() - start:.0f} s", flush=True)
        except Exception as error:  # no compiler on the machine, perhaps
            print(f"not compiled: {str(error)[:200]}", flush=True)
        for name, work in rows:
            taken = milliseconds(work, in_a_row) / batch
            print(f"torch fp16 channels last, batch {batch}, {name}: {taken:.4f} ms an image", flush=True)


main()
