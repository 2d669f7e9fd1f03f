"""Measures, schedules, data sets, and evaluation, also of methods that are written in Python."""

from __future__ import annotations

import copy
import json
import os
from dataclasses import dataclass, field
from typing import (
    Any,
    Callable,
    Dict,
    Iterator,
    List,
    NamedTuple,
    Optional,
    Protocol,
    Sequence,
    Tuple,
    Union,
    overload,
)

import numpy as np
from numpy.typing import NDArray

from . import _contcore
from ._arrays import (
    DeviceName,
    Path,
    as_array,
    as_float32,
    as_path,
    as_scores,
    as_text,
    is_path,
    parse_size,
    part,
    thread_count,
    where,
    whole,
)
from ._detector import _options, _several
from ._errors import UsageError
from ._progress import Progress, told

# ---- measures ------------------------------------------------------------------------------------


class Ranking(NamedTuple):
    """How well scores tell defects from good ones; None where there are none of one kind."""

    auroc: Optional[float]
    """Area under the ROC curve."""
    ap: Optional[float]
    """Average precision."""
    f1_max: Optional[float]
    """The largest F1 over all thresholds."""


def rank(good: Any, defect: Any, *, threads: Optional[int] = None) -> Ranking:
    """Measures of the scores of good and of defective things, exact, ties included.

    >>> rank(good=[1, 2, 3], defect=[3, 4])
    Ranking(auroc=0.9166666666666666, ap=0.8333333333333333, f1_max=0.8)
    """
    a, b = as_scores(good, defect)
    return Ranking(*_contcore.rank(a, b, thread_count(threads)))


class PixelMeasures(NamedTuple):
    """Measures of the pixels of many images together."""

    auroc: Optional[float]
    ap: Optional[float]
    f1_max: Optional[float]
    aupro: Optional[float]
    """Area under the per-region-overlap curve up to a false-positive rate of 0.3."""


class PixelScores:
    """The pixels of many images together.

    >>> import numpy as np
    >>> pixels = PixelScores()
    >>> pixels.add(np.array([[0.1, 0.2], [0.3, 0.9]]), mask=np.array([[0, 0], [0, 1]]))
    >>> pixels.measure().auroc
    1.0
    """

    def __init__(self) -> None:
        self._pixels = _contcore.PixelScores()

    def add(self, map: Any, mask: Any = None) -> None:
        """An image's anomaly map, and its mask of the same size: not 0 where the defect is. Without
        a mask it has none. Maps are of float32: what differs by less is a tie."""
        values = np.ascontiguousarray(as_float32(as_array(map, "map"), "map"))
        where = None
        if mask is not None:
            where = np.ascontiguousarray(as_array(mask, "mask") != 0, dtype=np.uint8)
            if where.shape != values.shape:
                raise UsageError(f"the mask is {where.shape}, and the map {values.shape}")
        self._pixels.add(values, where)

    def measure(self, *, threads: Optional[int] = None) -> PixelMeasures:
        """Measures of all that were added."""
        ranking, aupro = self._pixels.measure(thread_count(threads))
        return PixelMeasures(*ranking, aupro)


def anomaly_map(distances: Any, size: Tuple[int, int]) -> NDArray[np.float32]:
    """A grid of patch distances (height × width) as an anomaly map of `size` (height, width):
    enlarged bilinearly, and smoothed by a Gaussian of σ = 4 at a side of 224.

    >>> anomaly_map([[0.0, 1.0]], (4, 8)).shape
    (4, 8)
    """
    grid = np.ascontiguousarray(as_array(distances, "distances"), dtype=np.float32)
    height, width = (whole(side, "size", 1) for side in size)
    if grid.ndim != 2 or grid.size == 0:
        raise UsageError("distances: height × width are needed, and at least one")
    return _contcore.anomaly_map(grid, height, width)


# ---- schedules and data sets ---------------------------------------------------------------------


def parse_schedule(
    text: str, sizes: Sequence[int], datasets: Optional[Sequence[str]] = None
) -> List[List[int]]:
    """Task after task, indices of classes: "1x15", "3x5", "10-1x5", …, for data sets of so many
    classes; or names of data sets joined by ">".

    >>> parse_schedule("2-1x2", [4])
    [[0, 1], [2], [3]]
    """
    names = [f"set{i}" for i in range(len(sizes))] if datasets is None else list(datasets)
    if len(names) != len(sizes):
        raise UsageError("sizes and datasets are of the same sets")
    return _contcore.parse_schedule(text, names, [whole(size, "sizes", 1) for size in sizes])


def class_order(text: str, classes: Sequence[str]) -> List[int]:
    """The order in which classes come: "alphabetical", "shuffle:SEED", or all names with commas.

    >>> class_order("b,a", ["a", "b"])
    [1, 0]
    """
    return _contcore.class_order(text, list(classes))


class TestImage(NamedTuple):
    """An image to test with."""

    file: str
    kind: str
    """"good", or the defect's name."""
    defect: bool
    mask: str
    """Empty: good, or none is there."""


class Product(NamedTuple):
    """One class of a data set."""

    name: str
    train: List[str]
    """Good images."""
    test: List[TestImage]
    masks: bool
    """Whether there are defective test images and each has a mask."""
    folder: str
    """Of the data set: what reports name files by starts there."""


@dataclass
class Dataset:
    """Products, with good images to learn and images to test with."""

    name: str
    products: List[Product]
    layout: str = "mvtec"
    notes: List[str] = field(default_factory=list)
    """What a person should know: masks that are missing, …"""


def open_dataset(root: Path, layout: str = "auto") -> Dataset:
    """A data set in the layout of MVTec AD, VisA or Real-IAD ("mvtec", "visa", "real-iad"), found
    by looking. No image is opened."""
    facts = _contcore.open_dataset(as_path(root), layout)
    facts["products"] = [
        Product(name, train, [TestImage(*image) for image in test], masks, folder)
        for name, train, test, masks, folder in facts["products"]
    ]
    return Dataset(**facts)


# ---- methods -------------------------------------------------------------------------------------


class MethodInfo(NamedTuple):
    """A method that is there already."""

    name: str
    about: str
    online: bool
    maps: bool


def methods() -> List[MethodInfo]:
    """The methods that `evaluate` knows by name."""
    return [MethodInfo(*info) for info in _contcore.methods()]


@dataclass(frozen=True)
class MethodImage:
    """An image that a method is given."""

    file: str
    product: str
    features: NDArray[Any]
    """Its patch vectors, height × width × dimension, from the cache; read-only."""
    size: Tuple[int, int]
    """Height and width of what the backbone saw: maps may be of that size, or of the features'."""
    seen: Tuple[float, float, float, float]
    """Left, top, right and bottom of that in the image's own pixels."""
    _evaluation: Any = field(repr=False, compare=False)

    @property
    def pixels(self) -> NDArray[np.uint8]:
        """What the backbone saw: resized and cropped, height × width × 3, RGB. Read anew."""
        return _contcore.Evaluation.pixels(self._evaluation, os.fsencode(self.file))


class MethodImages(Sequence[MethodImage]):
    """The images that a method is given: of a task to learn, or to be scored."""

    def __init__(self, parts: List[Dict[str, Any]], evaluation: Any) -> None:
        self._evaluation = evaluation
        self._images: List[MethodImage] = []
        self._vectors = [part["vectors"] for part in parts]
        self.products: List[str] = [part["product"] for part in parts]
        """The classes they are of."""
        for part in parts:
            row = 0
            for i, file in enumerate(part["files"]):
                height, width = part["grids"][i]
                rows = part["vectors"][row : row + height * width]
                row += height * width
                self._images.append(
                    MethodImage(
                        file,
                        part["product"],
                        rows.reshape(height, width, -1),
                        part["sizes"][i],
                        part["seen"][i],
                        evaluation,
                    )
                )

    def __len__(self) -> int:
        return len(self._images)

    @overload
    def __getitem__(self, index: int) -> MethodImage: ...

    @overload
    def __getitem__(self, index: slice) -> List[MethodImage]: ...

    def __getitem__(self, index: Union[int, slice]) -> Union[MethodImage, List[MethodImage]]:
        return self._images[index]

    @property
    def files(self) -> List[str]:
        return [image.file for image in self._images]

    @property
    def features(self) -> NDArray[Any]:
        """Patch vectors of all, images × height × width × dimension. Of one class they are in
        place, and read-only; of several they are copied."""
        shapes = {image.features.shape for image in self._images}
        if len(shapes) != 1:
            raise UsageError(
                "the images differ in the shape of their features; take them image by image, or "
                "square them with resize=N instead of 'short:N'"
            )
        vectors = self._vectors[0] if len(self._vectors) == 1 else np.concatenate(self._vectors)
        features: NDArray[Any] = vectors.reshape(len(self), *shapes.pop())
        return features


class Method(Protocol):
    """What `evaluate` takes beside the names of methods. It may have a `name` for the report (its
    class's otherwise), and say how much it keeps: `vectors`, `numbers`."""

    def learn(self, task: int, images: MethodImages) -> None:
        """The next task, counted from 0: good images."""

    def score(self, images: MethodImages) -> Any:
        """A number for each image, the larger the more a defect; or these and an anomaly map for
        each: a tuple (scores, maps). A map is of the features' height × width (it is enlarged and
        smoothed as those of the other methods) or of `size` (it is taken as it is). Both become
        float32: what differs by less is a tie."""


AnyMethod = Union[str, Method, Callable[[], Method]]
"""A method's name, an object, or what makes one."""


class _Adapter:
    """A Python method as the extension calls it."""

    def __init__(self, method: Any, evaluation: Any) -> None:
        self._method = method
        self._evaluation = evaluation
        self.name = _method_name(method)

    def learn(self, task: int, parts: List[Dict[str, Any]]) -> None:
        self._method.learn(task, MethodImages(parts, self._evaluation))

    def score(self, part: Dict[str, Any]) -> List[Tuple[float, Optional[NDArray[np.float32]]]]:
        images = MethodImages([part], self._evaluation)
        answer = self._method.score(images)
        maps: Any = None
        if isinstance(answer, tuple):
            if len(answer) != 2:
                raise UsageError(f"{self.name}: score gives scores, or (scores, maps)")
            answer, maps = answer
        scores = _numbers(answer, self.name, "scores")
        if scores.shape != (len(images),):
            raise UsageError(
                f"{self.name}: score gave {scores.shape} numbers for {len(images)} images; one for "
                "each is needed"
            )
        if maps is not None and len(maps) != len(images):
            raise UsageError(f"{self.name}: score gave {len(maps)} maps for {len(images)} images")
        return [
            (float(score), None if maps is None else _map(maps[i], self.name))
            for i, score in enumerate(scores)
        ]

    @property
    def vectors(self) -> int:
        return whole(getattr(self._method, "vectors", 0), f"{self.name}: vectors")

    @property
    def numbers(self) -> int:
        return whole(getattr(self._method, "numbers", 0), f"{self.name}: numbers")


def _numbers(given: Any, name: str, what: str) -> NDArray[np.float32]:
    """What a method gave, of torch too."""
    values = given.detach().cpu() if hasattr(given, "detach") else given
    try:
        array = np.asarray(values)
        if array.dtype.kind not in "fiub":
            array = array.astype(np.float64)
    except (TypeError, ValueError) as error:
        raise UsageError(
            f"{name}: score gave {what} that are no numbers ({error}); it gives scores, or a tuple "
            "(scores, maps)"
        ) from error
    return as_float32(array, f"{name}: {what}")


def _map(given: Any, name: str) -> Optional[NDArray[np.float32]]:
    if given is None:
        return None
    values = np.ascontiguousarray(_numbers(given, name, "maps"))
    if values.ndim != 2 or values.size == 0:
        raise UsageError(f"{name}: a map is height × width, not {values.shape}")
    return values


def _method_name(method: Any) -> str:
    name = getattr(method, "name", None) or type(method).__name__
    if not isinstance(name, str):
        raise TypeError(f"a method's name is a text, not {name!r}")
    return as_text(name, "method")


# ---- evaluation ----------------------------------------------------------------------------------

Measures = Dict[str, Optional[float]]
"""image_auroc, image_ap, image_f1, pixel_auroc, pixel_ap, pixel_f1 and aupro, as parts of 1; None
where a measure is undefined."""


class RunResult:
    """One method over the whole schedule."""

    def __init__(self, result: _contcore.RunResult) -> None:
        self._result = result
        facts = json.loads(result.json())
        setting = facts["setting"]
        self.method: str = setting["method"]
        self.m: int = setting["m"]
        self.p: float = setting["p"]
        self.q: float = setting["q"]
        self.seed: int = setting["seed"]
        self.order: str = setting["order"]
        self.backbone: str = setting["backbone"]
        self.tasks: List[List[str]] = facts["tasks"]
        """The classes of each task."""
        self.steps: List[List[Measures]] = facts["steps"]
        """steps[s][c]: class c, in the order of the tasks, after task s."""
        self.vectors: int = facts["vectors"]
        self.numbers: int = facts["numbers"]
        self.train_seconds: float = facts["train_seconds"]
        self.test_seconds: float = facts["test_seconds"]
        """For one image."""
        average, forgetting, classes = result.summary()
        self.average: Measures = average
        """The mean over the tasks after the last."""
        self.forgetting: Measures = forgetting
        """The mean over all tasks but the last of what each lost since it was best."""
        self.classes: Measures = classes
        """The mean over the classes after the last task."""

    def __getstate__(self) -> str:
        return self._result.json()

    def __setstate__(self, text: str) -> None:
        RunResult.__init__(self, _contcore.RunResult.of_json(text, "a pickled result"))

    def __repr__(self) -> str:
        return (
            f"<contcore.RunResult {self.method}: image AUROC {_percent(self.average, 'image_auroc')}"
            f", pixel AUROC {_percent(self.average, 'pixel_auroc')}>"
        )


def _percent(measures: Measures, key: str) -> str:
    value = measures[key]
    return "–" if value is None else f"{100 * value:.1f}"


class Results(Sequence[RunResult]):
    """What `evaluate` found, a run each."""

    def __init__(self, runs: List[RunResult], title: str, dataset: str, schedule: str) -> None:
        self._runs = runs
        self._title, self._dataset, self._schedule = title, dataset, schedule

    def __len__(self) -> int:
        return len(self._runs)

    @overload
    def __getitem__(self, index: int) -> RunResult: ...

    @overload
    def __getitem__(self, index: slice) -> List[RunResult]: ...

    def __getitem__(self, index: Union[int, slice]) -> Union[RunResult, List[RunResult]]:
        return self._runs[index]

    def rows(self) -> List[Dict[str, Any]]:
        """A row for each run: its setting, the measures after the last task, and forgetting."""
        return [
            {
                "method": run.method,
                "m": run.m,
                "p": run.p,
                "q": run.q,
                "seed": run.seed,
                "order": run.order,
                "backbone": run.backbone,
                **run.average,
                **{f"forgetting_{key}": value for key, value in run.forgetting.items()},
                "vectors": run.vectors,
                "train_seconds": run.train_seconds,
                "test_seconds": run.test_seconds,
            }
            for run in self._runs
        ]

    def step_rows(self) -> List[Dict[str, Any]]:
        """A row for each run, task and class: its measures after that task."""
        return [
            {"method": run.method, "seed": run.seed, "m": run.m, "task": s, "class": name, **measured}
            for run in self._runs
            for s, step in enumerate(run.steps)
            for name, measured in zip([name for task in run.tasks for name in task], step)
        ]

    def to_pandas(self, *, steps: bool = False) -> Any:
        """`rows()` as a pandas DataFrame, or (steps) `step_rows()`."""
        try:
            import pandas
        except ImportError as error:
            raise ImportError("to_pandas() needs pandas; rows() does without") from error
        return pandas.DataFrame(self.step_rows() if steps else self.rows())

    def write_report(self, folder: Path) -> None:
        """Leaves index.html, with tables, curves and pictures, and the same as JSON, CSV, Markdown,
        LaTeX and SVG in the folder."""
        _contcore.write_report(
            as_path(folder),
            [run._result for run in self._runs],
            self._title,
            self._dataset,
            self._schedule,
            "contcore.evaluate(…)",
        )

    def _lines(self) -> List[List[str]]:
        return [
            [
                run.method,
                str(run.m),
                f"{_percent(run.average, 'image_auroc')} / {_percent(run.average, 'pixel_auroc')}",
                f"{_percent(run.forgetting, 'image_auroc')} / "
                f"{_percent(run.forgetting, 'pixel_auroc')}",
                f"{_percent(run.average, 'aupro')}",
            ]
            for run in self._runs
        ]

    _HEAD = ["method", "m", "AUROC im/px", "forgetting im/px", "AUPRO"]

    def __repr__(self) -> str:
        table = [self._HEAD, *self._lines()]
        widths = [max(len(row[i]) for row in table) for i in range(len(self._HEAD))]
        return "\n".join(
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip()
            for row in table
        )

    def _repr_html_(self) -> str:
        from html import escape

        def row(cells: List[str], tag: str) -> str:
            return "<tr>" + "".join(f"<{tag}>{escape(cell)}</{tag}>" for cell in cells) + "</tr>"

        rows = "".join(row(line, "td") for line in self._lines())
        return f"<table>{row(self._HEAD, 'th')}{rows}</table>"


def default_cache() -> str:
    """Where the command keeps features and finished runs."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(base, "contcore", "evaluate")


def evaluate(
    data: Union[Path, Dataset, Sequence[Union[Path, Dataset]]],
    schedule: str = "",
    *,
    methods: Union[AnyMethod, Sequence[AnyMethod]] = "contcore",
    m: int = 20000,
    p: Optional[float] = None,
    q: float = 0.75,
    seeds: int = 1,
    orders: Union[str, Sequence[str]] = "",
    classes: Union[str, Sequence[str], None] = None,
    backbone: Optional[Path] = None,
    layers: Union[str, Sequence[str], None] = None,
    precision: Optional[str] = None,
    dimension: Optional[int] = None,
    resize: Union[int, str, None] = None,
    crop: Union[int, str, None] = None,
    tile: Union[int, str, None] = None,
    overlap: Union[int, str, None] = None,
    score: Optional[str] = None,
    cache: Union[Path, None, bool] = True,
    cache_limit: Union[int, str, None] = None,
    fresh: bool = False,
    report: Optional[Path] = None,
    threads: Optional[int] = None,
    device: DeviceName = "auto",
    progress: Progress = None,
) -> Results:
    """Methods that learn a schedule of tasks, measured on all classes after each.

    `data` is a data set's folder or a `Dataset`, or several. `methods` are names (`methods()` lists
    them) and objects of your own (see `Method`): they are given the same features from the same
    cache, and measured by the same code. Where there are several orders or seeds, the first run has
    the object itself, the others copies of what it was; a class, or a function that makes one, is
    called for each run. Other options are as
    the command has them (`contcore evaluate --help`); `cache=False` keeps nothing. `report` leaves a
    page in that folder."""
    single = isinstance(methods, str) or callable(methods) or hasattr(methods, "learn")
    chosen: List[Any] = [methods] if single else _several(methods, "methods")
    if not chosen:
        raise UsageError("methods: there are none to evaluate")
    known = {facts[0]: MethodInfo(*facts) for facts in _contcore.methods()}
    for method in chosen:
        if isinstance(method, str):
            if method not in known:
                raise UsageError(f"there is no method {method!r}; there are {', '.join(known)}")
        elif not callable(method) and not (hasattr(method, "learn") and hasattr(method, "score")):
            raise TypeError(f"{method!r} is no method: it has no learn(task, images) and score(images)")
    one_alone = is_path(data) or isinstance(data, Dataset)
    given: List[Any] = [data] if one_alone else _several(data, "data")
    datasets = [one if isinstance(one, Dataset) else open_dataset(one) for one in given]
    options = _options(
        layers=layers,
        precision=precision,
        dimension=dimension,
        resize=resize,
        crop=crop,
        tile=tile,
        overlap=overlap,
        backbone=backbone,
        schedule=as_text(schedule, "schedule"),
        classes=None if classes is None else _classes(classes),
        score=score,
        fresh=fresh,
    )
    options["datasets"] = [
        {**vars(one), "products": [tuple(product) for product in one.products]} for one in datasets
    ]
    if cache is True:
        options["cache"] = default_cache()
    elif cache is not None and cache is not False:
        options["cache"] = os.fsdecode(as_path(cache))
    if cache_limit is not None:
        options["cache_limit"] = parse_size(cache_limit, "cache_limit")
    ordered = _names(orders, "orders")
    if not ordered:
        raise UsageError("orders: there are none to evaluate")
    runs: List[RunResult] = []
    total = len(ordered) * len(chosen) * whole(seeds, "seeds", 1)
    again = len(ordered) * seeds > 1
    chosen = [method if isinstance(method, str) else _Maker(method, again) for method in chosen]
    with told(progress, "evaluating") as callback:
        for order in ordered:
            evaluation = _contcore.Evaluation({**options, "order": order})
            for method in chosen:
                for seed in range(seeds):
                    done = len(runs)

                    def so_far(of_one: float, done: int = done) -> Any:
                        assert callback is not None
                        return callback((done + of_one) / total)

                    online = isinstance(method, str) and known[method].online
                    setting: Dict[str, Any] = {
                        "m": whole(m, "m", 1),
                        "p": (0.1 if online else 0.01) if p is None else part(p, "p"),
                        "q": part(q, "q"),
                        "seed": seed,
                    }
                    own = None
                    if isinstance(method, str):
                        setting["method"] = method
                    else:
                        own = _Adapter(method.make(), evaluation)
                    result = evaluation.run(
                        setting, own, where(threads, device), None if callback is None else so_far
                    )
                    runs.append(RunResult(result))
    name = ">".join(one.name for one in datasets)
    shown = schedule or f"1x{len(runs[0].tasks)}"
    results = Results(runs, f"{name}, {shown}", name, shown)
    if report is not None:
        results.write_report(report)
    return results


def _names(given: Union[str, Sequence[str]], what: str) -> List[str]:
    """One name, or several."""
    listed = [given] if isinstance(given, str) else _several(given, what)
    return [as_text(name, what) for name in listed]


def _classes(given: Union[str, Sequence[str]]) -> List[str]:
    """Also with commas, as the command has them."""
    return given.split(",") if isinstance(given, str) else _names(given, "classes")


class _Maker:
    """A method for each run: the object itself, then copies of what it was; or what makes them."""

    def __init__(self, method: Any, again: bool) -> None:
        self._makes = isinstance(method, type) or not hasattr(method, "learn")
        self._method = method
        self._first = True
        if again and not self._makes:
            try:
                self._untouched = copy.deepcopy(method)
            except Exception as error:
                raise TypeError(
                    f"{_method_name(method)}: cannot be copied for several runs ({error}); give its "
                    "class, or a function that makes one"
                ) from error

    def make(self) -> Any:
        if self._makes:
            made = self._method()
            if not (hasattr(made, "learn") and hasattr(made, "score")):
                raise TypeError(
                    f"{self._method!r} made {made!r}, which has no learn(task, images) and score(images)"
                )
            return made
        if not self._first:
            return copy.deepcopy(self._untouched)
        self._first = False
        return self._method
