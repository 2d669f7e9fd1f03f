"""contcore: visual anomaly detection that keeps learning in a fixed memory.

    import contcore

    detector = contcore.Detector()
    detector.learn("bottles/good", "bottle")
    seen = detector.inspect("part.png")
    print(seen.verdict, seen.score, seen.threshold)

Below it, on any vectors: `greedy_sample`, `NearestIndex`, `Memory`. Around it: `Extractor` (images to
patch vectors), `evaluate` (methods over schedules of tasks, your own among them), `contcore.sklearn`,
`contcore.compat`.
"""

try:
    import numpy as _numpy  # noqa: F401
except ImportError:  # the command does without: python -m contcore
    from typing import NoReturn

    def __getattr__(name: str) -> NoReturn:
        if name.startswith("__"):  # what Python itself asks for
            raise AttributeError(name)
        raise ImportError(f"contcore.{name} needs NumPy, 1.24 or later: pip install numpy")

else:
    from ._contcore import version as __version__
    from ._coreset import (
        Cover,
        GreedyResult,
        NearestIndex,
        Reservoir,
        cover,
        greedy_sample,
        hausdorff,
        herding_sample,
        overlap,
        patchcore_sample,
        random_sample,
        sliced_wasserstein,
    )
    from ._detector import (
        Detector,
        ExtractedImage,
        Extraction,
        Extractor,
        Inspection,
        LearnReport,
        Patches,
        Region,
        Remark,
        find_images,
        read_image,
        write_image,
    )
    from ._devices import Device, devices
    from ._errors import (
        Cancelled,
        DamagedError,
        Error,
        InputError,
        InternalError,
        ReviewWarning,
        UsageError,
    )
    from ._evaluate import (
        Dataset,
        Method,
        MethodImage,
        MethodImages,
        MethodInfo,
        PixelMeasures,
        PixelScores,
        Product,
        Ranking,
        Results,
        RunResult,
        TestImage,
        anomaly_map,
        class_order,
        evaluate,
        methods,
        open_dataset,
        parse_schedule,
        rank,
    )
    from ._memory import Memory, Task

    __all__ = [
        "__version__",
        "anomaly_map",
        "Cancelled",
        "class_order",
        "Cover",
        "cover",
        "DamagedError",
        "Dataset",
        "Detector",
        "Device",
        "devices",
        "Error",
        "evaluate",
        "ExtractedImage",
        "Extraction",
        "Extractor",
        "find_images",
        "greedy_sample",
        "GreedyResult",
        "hausdorff",
        "herding_sample",
        "InputError",
        "Inspection",
        "InternalError",
        "LearnReport",
        "Memory",
        "Method",
        "MethodImage",
        "MethodImages",
        "MethodInfo",
        "methods",
        "NearestIndex",
        "open_dataset",
        "overlap",
        "parse_schedule",
        "patchcore_sample",
        "Patches",
        "PixelMeasures",
        "PixelScores",
        "Product",
        "random_sample",
        "rank",
        "Ranking",
        "read_image",
        "Region",
        "Remark",
        "Reservoir",
        "Results",
        "ReviewWarning",
        "RunResult",
        "sliced_wasserstein",
        "Task",
        "TestImage",
        "UsageError",
        "write_image",
    ]
