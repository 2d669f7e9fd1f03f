"""PaDiM as a method of contcore.evaluate: a Gaussian for each place of the image.

    python3 padim.py DATASET [--report FOLDER]

Of each task it keeps a mean and a covariance for every place, of features in 100 random dimensions.
The score of a patch is its Mahalanobis distance, by the task it is nearest to.
"""

import argparse
from typing import Any, List, Tuple

import contcore
import numpy as np


class PaDiM:
    def __init__(self, dimensions: int = 100, seed: int = 0) -> None:
        self.dimensions, self.seed = dimensions, seed
        self.tasks: List[Tuple[Any, Any]] = []
        self.numbers = 0

    def _chosen(self, features: Any) -> Any:
        """Places × images × dimensions."""
        n, height, width, d = features.shape
        order = np.random.default_rng(self.seed).permutation(d)[: self.dimensions]
        return features[..., order].astype(np.float32).reshape(n, height * width, -1).swapaxes(0, 1)

    def learn(self, task: int, images: contcore.MethodImages) -> None:
        x = self._chosen(images.features)
        mean = x.mean(axis=1, keepdims=True)
        covariance = (x - mean).swapaxes(1, 2) @ (x - mean) / max(x.shape[1] - 1, 1)
        covariance += 0.01 * np.mean(np.trace(covariance, axis1=1, axis2=2)) / x.shape[2] * np.eye(x.shape[2])
        self.tasks.append((mean, np.linalg.inv(covariance)))
        self.numbers += mean.size + covariance.size

    def score(self, images: contcore.MethodImages) -> Any:
        _, height, width, _ = images.features.shape
        x = self._chosen(images.features)
        squared = [np.sum((x - mean) @ inverse * (x - mean), axis=2) for mean, inverse in self.tasks]
        grids = np.sqrt(np.min(squared, axis=0)).T.reshape(-1, height, width)
        maps = [contcore.anomaly_map(grid, image.size) for grid, image in zip(grids, images)]
        return [float(found.max()) for found in maps], maps


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="PaDiM beside contcore")
    parser.add_argument("dataset")
    parser.add_argument("--backbone", help="an ONNX file, resnet50 or builtin")
    parser.add_argument("--classes", nargs="+", help="only these")
    parser.add_argument("--report", help="folder for a page")
    given = parser.parse_args()
    print(
        contcore.evaluate(
            given.dataset,
            methods=["contcore", PaDiM()],
            classes=given.classes,
            backbone=given.backbone,
            report=given.report,
            progress=True,
        )
    )
