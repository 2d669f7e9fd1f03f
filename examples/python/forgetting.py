"""What forgetting is: an autoencoder of patch features that is trained on task after task.

    python3 forgetting.py DATASET [--report FOLDER]

The network (torch) is fine-tuned on each task as it comes, plainly and with elastic weight
consolidation (EWC), which holds on to the weights that earlier tasks needed. A patch's score is the
error of its reconstruction. Beside them contcore learns the same features.
"""

import argparse
from typing import Any, List, Tuple

import contcore
import numpy as np
import torch


class Autoencoder:
    """Patch features through a bottleneck and back."""

    def __init__(self, name: str = "fine-tuning", ewc: float = 0.0, steps: int = 300, seed: int = 0) -> None:
        self.name, self.ewc, self.steps = name, ewc, steps
        self.random = torch.Generator().manual_seed(seed)
        self.network: Any = None
        self.held: List[Tuple[List[torch.Tensor], List[torch.Tensor]]] = []  # weights, importance

    @property
    def numbers(self) -> int:
        own = sum(int(weight.numel()) for weight in self.network.parameters())
        return own * (1 + 2 * len(self.held))

    def _vectors(self, features: Any) -> torch.Tensor:
        """A row for each patch, as large as the first task's are on average."""
        rows = torch.from_numpy(np.array(features, dtype=np.float32).reshape(-1, features.shape[-1]))
        if self.network is None:
            self._build(rows)
        return (rows - self.mean) / self.scale

    def _build(self, rows: torch.Tensor) -> None:
        self.mean, self.scale = rows.mean(dim=0), rows.std()
        d = rows.shape[1]
        state = torch.random.get_rng_state()
        torch.manual_seed(int(torch.randint(1 << 30, (1,), generator=self.random)))
        self.network = torch.nn.Sequential(
            torch.nn.Linear(d, 256), torch.nn.ReLU(), torch.nn.Linear(256, 32),
            torch.nn.Linear(32, 256), torch.nn.ReLU(), torch.nn.Linear(256, d),
        )  # fmt: skip
        torch.random.set_rng_state(state)

    def _batch(self, rows: torch.Tensor, size: int = 512) -> torch.Tensor:
        return rows[torch.randint(len(rows), (size,), generator=self.random)]

    def _error(self, rows: torch.Tensor) -> Any:
        return ((self.network(rows) - rows) ** 2).mean(dim=1)

    def learn(self, task: int, images: contcore.MethodImages) -> None:
        rows = self._vectors(images.features)
        weights = list(self.network.parameters())
        optimizer = torch.optim.Adam(weights, lr=1e-3)
        for _ in range(self.steps):
            loss = self._error(self._batch(rows)).mean()
            for old, importance in self.held:
                moved = (((w - o) ** 2 * i).sum() for w, o, i in zip(weights, old, importance))
                loss = loss + self.ewc * sum(moved)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if self.ewc:
            self.held.append(self._importance(rows, weights))

    def _importance(self, rows: torch.Tensor, weights: List[torch.Tensor]) -> Any:
        """The weights, and the mean squared gradient of each (the Fisher information's diagonal)."""
        found = [torch.zeros_like(weight) for weight in weights]
        for _ in range(64):
            gradients = torch.autograd.grad(self._error(self._batch(rows, 16)).sum(), weights)
            for total, gradient in zip(found, gradients):
                total += gradient**2 / 64
        return [weight.detach().clone() for weight in weights], found

    def score(self, images: contcore.MethodImages) -> Any:
        n, height, width, _ = images.features.shape
        with torch.no_grad():
            errors = self._error(self._vectors(images.features)).reshape(n, height, width)
        maps = [contcore.anomaly_map(e.numpy(), image.size) for e, image in zip(errors, images)]
        return [float(found.max()) for found in maps], maps


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="forgetting, beside contcore")
    parser.add_argument("dataset")
    parser.add_argument("--schedule", default="", help="such as 1x5 (default: a class each)")
    parser.add_argument("--classes", nargs="+", help="only these")
    parser.add_argument("--backbone", help="an ONNX file, resnet50 or builtin")
    parser.add_argument("--report", help="folder for a page")
    given = parser.parse_args()
    results = contcore.evaluate(
        given.dataset,
        given.schedule,
        methods=["contcore", Autoencoder(), Autoencoder("EWC", ewc=10.0)],
        classes=given.classes,
        backbone=given.backbone,
        report=given.report,
        progress=True,
    )
    print(results)
    first = results[0].tasks[0][0]
    for run in results:
        course = " → ".join(f"{100 * (step[0]['image_auroc'] or 0):.1f}" for step in run.steps)
        print(f"{run.method}: image AUROC of {first} after each task: {course}")
