"""compare_sklearn.py PROGRAM: image measures against scikit-learn's, on seeded random cases.

PROGRAM is contcore_metrics_cases. Exits with 77 (skipped) where scikit-learn is not installed.
"""

import subprocess
import sys

try:
    import numpy as np
    from sklearn.metrics import average_precision_score, precision_recall_curve, roc_auc_score
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

CASES = 500
TOLERANCE = 1e-9
NAMES = ("AUROC", "AP", "max F1")


def make_case(rng, index):
    """Labels of both kinds and float32 scores: from two levels, nearly all tied, to no ties."""
    n = int(rng.integers(2, 400))
    labels = (rng.random(n) < rng.uniform(0.02, 0.98)).astype(int)
    labels[:2] = 0, 1
    scores = rng.normal(labels * rng.uniform(-0.5, 2), 1)
    levels = (2, 3, 10, 100, 0)[index % 5]
    if levels:
        scores = np.floor(scores * levels / 4) / levels
    if index % 7 == 0:
        scores = np.where(rng.random(n) < 0.2, -0.0, scores)
    return labels, scores.astype(np.float32)


def expected(labels, scores):
    precision, recall, _ = precision_recall_curve(labels, scores)
    total = precision + recall
    f1 = np.divide(2 * precision * recall, total, out=np.zeros_like(total), where=total > 0)
    return roc_auc_score(labels, scores), average_precision_score(labels, scores), f1.max()


def main():
    rng = np.random.default_rng(20)
    cases = [make_case(rng, index) for index in range(CASES)]
    lines = [
        " ".join([str(len(labels)), *map(str, labels), *(repr(float(s)) for s in scores)])
        for labels, scores in cases
    ]
    run = subprocess.run(
        [sys.argv[1]], input="\n".join(lines) + "\n", capture_output=True, text=True, check=True
    )
    answers = np.array([line.split() for line in run.stdout.splitlines()], dtype=float)
    if answers.shape != (CASES, len(NAMES)):
        sys.exit(f"expected {CASES} lines of {len(NAMES)} numbers, got {answers.shape}")
    difference = np.abs(answers - np.array([expected(*case) for case in cases]))
    for name, column in zip(NAMES, difference.T):
        worst = int(column.argmax())
        print(f"{name}: worst difference {column[worst]:.3g}, case {worst}")
    if not (difference <= TOLERANCE).all():
        sys.exit(f"differs by more than {TOLERANCE:g}")


if __name__ == "__main__":
    main()
