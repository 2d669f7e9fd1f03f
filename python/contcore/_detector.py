"""Images to patch vectors, and the detector: learn good images, inspect others."""

from __future__ import annotations

import getpass
import itertools
import json
import os
import warnings
from dataclasses import dataclass
from typing import (
    Any,
    Dict,
    Iterable,
    Iterator,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
    Union,
)

import numpy as np
from numpy.typing import NDArray

from . import _contcore
from ._arrays import (
    DeviceName,
    Path,
    as_image,
    as_name,
    as_path,
    as_text,
    is_path,
    parse_size,
    part,
    where,
    whole,
)
from ._errors import Cancelled, InputError, ReviewWarning, UsageError
from ._memory import Memory
from ._progress import Progress, told

Size = Union[int, str, None]


def read_image(path: Path) -> NDArray[np.uint8]:
    """An image file as height × width × 3 bytes, RGB: PNG, JPEG, BMP, TIFF, WebP, PGM or PPM."""
    return _contcore.read_image(as_path(path))


def write_image(path: Path, image: Any) -> None:
    """Writes an array or a PIL image, whole or not at all, as the name's ending says: .png, .jpg or .jpeg."""
    _contcore.write_image(as_path(path), as_image(image))


def find_images(paths: Union[Path, Sequence[Path]]) -> List[str]:
    """The images in files and folders, searched to the bottom, in order of their names."""
    return _contcore.find_images([as_path(path) for path in _listed(paths)])


def _listed(images: Any) -> List[Any]:
    """One image or path, or several, as a list."""
    if is_path(images) or hasattr(images, "getexif"):
        return [images]
    if isinstance(images, np.ndarray) or hasattr(images, "__dlpack__"):
        return list(images) if images.ndim == 4 else [images]
    try:
        return list(images)
    except TypeError:
        raise TypeError(f"an image, a path or several are needed, not {images!r}") from None


def _files_of(listed: List[Any]) -> List[Any]:
    """Those in folders, too; images as they are."""
    paths = [is_path(image) for image in listed]
    if not any(paths):
        return listed
    if not all(paths):
        raise TypeError("give either paths or images, not both in one call")
    return list(find_images(listed))


def _given(images: Sequence[Any]) -> List[Any]:
    """What the extension takes: names of files as bytes, or pixels."""
    if images and all(is_path(image) for image in images):
        return [as_path(image) for image in images]
    if any(is_path(image) for image in images):
        raise TypeError("give either paths or images, not both in one call")
    return [as_image(image, f"image {i}") for i, image in enumerate(images)]


def _several(given: Any, name: str) -> List[Any]:
    try:
        return list(given)
    except TypeError:
        raise TypeError(f"{name}: a list is needed, not {given!r}") from None


def _pixels(image: Any) -> NDArray[np.uint8]:
    return read_image(image) if is_path(image) else as_image(image)


def _options(**given: Any) -> Dict[str, Any]:
    """Those that were given."""
    options = {name: value for name, value in given.items() if value is not None}
    for name in ("resize", "crop", "tile", "overlap"):
        if name in options:
            options[name] = as_text(str(options[name]), name)
    if isinstance(options.get("layers"), str):
        options["layers"] = [name.strip() for name in options["layers"].split(",")]
    if "layers" in options:
        options["layers"] = [as_name(one, "layer") for one in _several(options["layers"], "layers")]
    if "backbone" in options:
        options["backbone"] = os.fsdecode(as_path(options["backbone"]))
    if "memory" in options:
        options["memory"] = parse_size(options["memory"], "memory")
        if "capacity" in options:
            raise UsageError("memory and capacity say the same; give one of them")
    if "q" in options:
        options["q"] = part(options["q"], "q")
    if not isinstance(options.get("paper", False), (bool, np.bool_)):
        raise TypeError(f"paper: True or False is needed, not {options['paper']!r}")
    for name in ("precision", "consolidate", "score"):
        if name in options:
            options[name] = as_name(options[name], name)
    for name in ("dimension", "capacity"):
        if name in options:
            options[name] = whole(options[name], name, 1)
    return options


@dataclass(frozen=True, eq=False)
class Patches:
    """The patch vectors of one image, and where they lie."""

    vectors: NDArray[Any]
    """A row for each place, row after row of the grid; uint8 in 8 bits, float32 in float."""
    grid: Tuple[int, int]
    """Height and width, in patches."""
    seen: Tuple[float, float, float, float]
    """Left, top, right and bottom of what the backbone saw, in the image's own pixels."""
    size: Tuple[int, int]
    """Height and width of the image."""
    input: Tuple[int, int]
    """Height and width of what the backbone was given."""

    @property
    def map(self) -> NDArray[Any]:
        """The same vectors as height × width × dimension."""
        return self.vectors.reshape(*self.grid, -1)


class ExtractedImage(NamedTuple):
    """Which rows of a file of patch vectors are an image's."""

    file: str
    first: int
    rows: int
    grid: Tuple[int, int]
    seen: Tuple[float, float, float, float]
    size: Tuple[int, int]


class Extraction(NamedTuple):
    """Patch vectors of many images, and which are whose."""

    vectors: NDArray[Any]
    """Mapped from the file that they were written to, if one was named."""
    images: List[ExtractedImage]
    skipped: List[Tuple[str, str]]
    """Files that could not be read, and why."""


class Extractor:
    """A backbone that turns images into patch vectors, for any use.

    `backbone` is an ONNX file, "resnet50" or "builtin"; by default resnet50 if it was fetched
    (`python -m contcore backbone fetch resnet50`). `precision` is "8bit" (vectors of bytes) or
    "float". `resize` 384 squares the image, "short:384" keeps its shape; `crop` cuts a square from
    its centre. `tile` 384 sees large images in tiles of that side that `overlap`; `resize` "50%" is
    for these.

    >>> import numpy as np
    >>> extractor = Extractor("builtin", resize=64, dimension=32)
    >>> patches = extractor.extract(np.zeros((48, 64, 3), dtype=np.uint8))
    >>> patches.map.shape, patches.vectors.dtype
    ((8, 8, 32), dtype('uint8'))
    """

    def __init__(
        self,
        backbone: Optional[Path] = None,
        *,
        layers: Union[str, Sequence[str], None] = None,
        precision: Optional[str] = None,
        dimension: Optional[int] = None,
        resize: Union[int, str, None] = None,
        crop: Union[int, str, None] = None,
        tile: Union[int, str, None] = None,
        overlap: Union[int, str, None] = None,
    ) -> None:
        self._extractor = _contcore.Extractor(
            _options(
                backbone=backbone,
                layers=layers,
                precision=precision,
                dimension=dimension,
                resize=resize,
                crop=crop,
                tile=tile,
                overlap=overlap,
            )
        )

    @property
    def source(self) -> Dict[str, str]:
        """What its vectors are made by, as text: a memory keeps it as its source."""
        return self._extractor.source()

    @property
    def dimension(self) -> int:
        """Numbers of a patch vector."""
        return self._extractor.dimension()

    @property
    def precision(self) -> str:
        """8bit or float."""
        return self._extractor.precision()

    def __repr__(self) -> str:
        return f"<contcore.Extractor {self.source.get('backbone')}: {self.dimension} numbers, {self.precision}>"

    def extract(
        self, image: Any, *, threads: Optional[int] = None, device: DeviceName = "auto"
    ) -> Patches:
        """The patch vectors of one image: a path, an array or a PIL image."""
        return Patches(**self._extractor.extract(_pixels(image), where(threads, device)))

    def extract_to(
        self,
        out: Path,
        images: Union[Path, Sequence[Path]],
        *,
        strict: bool = False,
        threads: Optional[int] = None,
        device: DeviceName = "auto",
        progress: Progress = None,
    ) -> Extraction:
        """The patch vectors of image files and folders, one after the other in the .npy file `out`,
        which appears when all is there. It may be larger than the machine's memory. An image that
        cannot be read is left out and reported, or (strict) stops it all."""
        files = [os.fsencode(file) for file in find_images(images)]
        path = as_path(out)
        with told(progress, "extracting") as callback:
            report = self._extractor.extract_to(
                files, path, strict, where(threads, device), callback
            )
        vectors = np.load(os.fsdecode(path), mmap_mode="r")
        return Extraction(
            vectors, [ExtractedImage(*image) for image in report["images"]], report["skipped"]
        )


class Region(NamedTuple):
    """A part of the image above the threshold: its box, its pixels and the largest value in it."""

    x: int
    y: int
    width: int
    height: int
    area: int
    score: float


@dataclass(frozen=True, eq=False)
class Inspection:
    """What was seen in one image. In a notebook it shows itself as a picture."""

    verdict: str
    """"good"; "defect"; "unknown" for what is no known product; "uncalibrated" where there is no
    threshold yet; "error" for an image that could not be read."""
    score: float
    """The larger, the more a defect. NaN where the image could not be read."""
    threshold: Optional[float]
    """Above it is a defect; None: not calibrated yet."""
    false_alarms: Optional[float]
    """The rate that the threshold promises; None where it was set by hand."""
    product: Optional[str]
    """The task whose images it resembles, or that was named."""
    resembles: Optional[str]
    """What a stranger to the product that was named is like."""
    reason: str
    """The verdict in words."""
    stranger: bool
    """As a whole unlike the product."""
    regions: List[Region]
    """What lies above the threshold, in the image's pixels, the largest score first."""
    map: Optional[NDArray[np.float32]]
    """The anomaly map, height × width of the image; None if it was not wanted."""
    peak: Tuple[int, int]
    """Column and row where the map is largest."""
    level: float
    """The map's value that the threshold comes to."""
    image: Optional[NDArray[np.uint8]]
    """The image, height × width × 3; None if it could not be read."""
    file: str
    """Its file, or "image" and its number."""
    seconds: float
    """It took."""
    error: Optional[str] = None
    """Why the image could not be read."""

    @property
    def rejected(self) -> bool:
        """A defect, or unknown."""
        return self.verdict in ("defect", "unknown")

    def picture(self) -> NDArray[np.uint8]:
        """The image with the heat, the outline of what is above the threshold and the verdict."""
        if self.image is None or self.map is None:
            raise UsageError("there is no picture without the image and its map")
        return _contcore.draw(
            np.ascontiguousarray(self.image),
            np.ascontiguousarray(self.map),
            self.score,
            self.threshold,
            self.level,
            self.verdict,
        )

    def _repr_png_(self) -> Optional[bytes]:
        if self.image is None or self.map is None:
            return None
        return _contcore.png(self.picture())

    def __repr__(self) -> str:
        if self.error is not None:
            return f"<contcore.Inspection error: {self.error}>"
        limit = "no threshold" if self.threshold is None else f"threshold {self.threshold:.4g}"
        return (
            f"<contcore.Inspection {self.verdict}: score {self.score:.4g}, {limit}, "
            f"product {self.product}>"
        )


def _inspection(facts: Dict[str, Any]) -> Inspection:
    if facts["error"] is not None:
        return Inspection(
            verdict="error",
            score=float("nan"),
            threshold=None,
            false_alarms=None,
            product=None,
            resembles=None,
            reason=facts["error"],
            stranger=False,
            regions=[],
            map=None,
            peak=(0, 0),
            level=float("nan"),
            image=None,
            **facts,
        )
    facts["regions"] = [Region(*region) for region in facts["regions"]]
    return Inspection(**facts)


class Remark(NamedTuple):
    """Something questionable about images to be learned."""

    kind: str
    text: str
    images: List[int]
    """Which of the report's files, where it is about some of them."""


@dataclass(frozen=True)
class LearnReport:
    """What was learned."""

    files: List[str]
    """What was given: the files that were found, in order of their names; or "image 0", …"""
    learned: int
    """Images."""
    different: int
    """Of these, by their features."""
    patches: int
    skipped: List[Tuple[str, str]]
    """Images that could not be read, and why."""
    remarks: List[Remark]
    """What a person should look at."""
    strangest: List[Tuple[int, float, float]]
    """The strangest images: which of the files, score by a memory of the others, what most of them
    score."""
    extract_seconds: float
    sample_seconds: float
    on_disk: bool
    """The features did not fit into the memory limit."""


class Detector:
    """Learns good images and inspects others: a backbone, a memory and thresholds together.

    `Detector()` begins with nothing; `Detector.open(path)` opens a memory's file to inspect with,
    `Detector.open_to_learn(path)` to learn too, or makes it. Images are paths (of files and, to
    learn, folders), arrays (height × width × 3 of uint8, RGB) or PIL images. Several threads may
    inspect at once; who learns waits for them, and they for it.

    >>> import numpy as np
    >>> shades = np.random.default_rng(0)
    >>> good = [shades.integers(90, 110, (64, 64, 3), dtype=np.uint8) for _ in range(30)]
    >>> detector = Detector(backbone="builtin", resize=64, memory="1M")
    >>> detector.learn(good, "plate").learned
    30
    >>> bad = good[0].copy()
    >>> bad[20:40, 20:40] = 255
    >>> seen = detector.inspect(bad)
    >>> seen.rejected, seen.map.shape
    (True, (64, 64))
    """

    def __init__(
        self,
        *,
        backbone: Optional[Path] = None,
        layers: Union[str, Sequence[str], None] = None,
        precision: Optional[str] = None,
        dimension: Optional[int] = None,
        resize: Union[int, str, None] = None,
        crop: Union[int, str, None] = None,
        tile: Union[int, str, None] = None,
        overlap: Union[int, str, None] = None,
        memory: Size = None,
        capacity: Optional[int] = None,
        consolidate: Optional[str] = None,
        q: Optional[float] = None,
        score: Optional[str] = None,
        paper: bool = False,
    ) -> None:
        """A new one. What is left out is as `contcore learn` has it; `paper` is all as in the
        paper. `memory` is the most bytes of its vectors, such as "8M"; `capacity` the same in
        vectors. With `tile`, such as 384, large images are seen in tiles of that side, which
        `overlap`. Without a `backbone` it is ResNet-50 if that was fetched (`python -m contcore
        backbone fetch resnet50`), and the built-in filters, which see less, with a warning if
        not."""
        options = _options(
            backbone=backbone,
            layers=layers,
            precision=precision,
            dimension=dimension,
            resize=resize,
            crop=crop,
            tile=tile,
            overlap=overlap,
            memory=memory,
            capacity=capacity,
            consolidate=consolidate,
            q=q,
            score=score,
            paper=paper,
        )
        self._detector = _contcore.Detector(options)
        self._path: Optional[bytes] = None
        self._backbone = b""
        self._warn_of_filters(backbone)

    def _warn_of_filters(self, backbone: Optional[Path]) -> None:
        if backbone is None and self.memory.source.get("backbone") == "builtin":
            warnings.warn(
                "the built-in filters are used, since ResNet-50 is not there: python -m contcore "
                "backbone fetch resnet50; backbone='builtin' says that they are meant",
                stacklevel=3,
            )

    @classmethod
    def _of(cls, detector: _contcore.Detector, path: Optional[bytes], backbone: bytes) -> Detector:
        made = cls.__new__(cls)
        made._detector = detector
        made._path = path
        made._backbone = backbone
        return made

    @classmethod
    def open(
        cls, path: Path, *, backbone: Optional[Path] = None, device: DeviceName = "auto"
    ) -> Detector:
        """A memory from its file, to inspect with. `backbone`: where its backbone is now. What a
        service was taught since it last saved is taken up, on the device."""
        file, network = as_path(path), b"" if backbone is None else as_path(backbone)
        return cls._of(
            _contcore.Detector.open(file, network, where(None, device)), None, network
        )

    @classmethod
    def open_to_learn(
        cls,
        path: Path,
        *,
        backbone: Optional[Path] = None,
        versions: Optional[int] = None,
        device: DeviceName = "auto",
        **options: Any,
    ) -> Detector:
        """The same, to learn; or a new one with the `options` of `Detector()` where there is no
        such file. Nobody else can write the file until this is closed, so that a `with` statement
        suits it. Nothing is written before `save()`. Lessons are written down beside the file
        with copies of their images (PATH.versions), so that they can be taken back; `versions=0`
        keeps nothing. Options that a file was not made with are an error."""
        file, network = as_path(path), b"" if backbone is None else as_path(backbone)
        kept = None if versions is None else whole(versions, "versions")
        unknown = set(options) - _OF_NEW
        if unknown:
            raise TypeError(f"open_to_learn() has no option {sorted(unknown)[0]!r}")
        wanted = _options(backbone=backbone, **options)
        made = cls._of(
            _contcore.Detector.open_to_learn(file, wanted, network, kept, where(None, device)),
            file,
            network,
        )
        if made.is_new:
            made._warn_of_filters(backbone)
            return made
        try:
            _check_same(made.memory, wanted, os.fsdecode(file))
        except InputError:
            made.close()
            raise
        return made

    @classmethod
    def of_memory(cls, memory: Memory, *, backbone: Optional[Path] = None) -> Detector:
        """A detector of a copy of this memory, with the backbone that its source names."""
        if not isinstance(memory, Memory):
            raise TypeError(f"a memory is needed, not {memory!r}")
        network = b"" if backbone is None else as_path(backbone)
        return cls._of(_contcore.Detector.of_memory(memory._memory, network), None, network)

    @staticmethod
    def merge(
        a: Detector,
        b: Detector,
        capacity: Optional[int] = None,
        *,
        threads: Optional[int] = None,
        device: DeviceName = "auto",
    ) -> Detector:
        """A detector that knows the tasks of both."""
        for one in a, b:
            if not isinstance(one, Detector):
                raise TypeError(f"two detectors are needed, not {one!r}")
        merged = Memory.merge(a.memory, b.memory, capacity, threads=threads, device=device)
        return Detector._of(
            _contcore.Detector.of_memory(merged._memory, a._backbone), None, a._backbone
        )

    @property
    def memory(self) -> Memory:
        """Its memory, to look at. It changes when the detector learns; `copy()` it to keep it."""
        return Memory._of(self._detector)

    @property
    def is_new(self) -> bool:
        """Whether there was no file yet (`open_to_learn`)."""
        return self._detector.is_new()

    def learn(
        self,
        images: Any,
        task: str,
        *,
        p: Optional[float] = None,
        online: bool = False,
        strict: bool = False,
        false_alarms: float = 0.05,
        memory_limit: Size = None,
        region: Any = None,
        threads: Optional[int] = None,
        device: DeviceName = "auto",
        progress: Progress = None,
    ) -> LearnReport:
        """Learns a task from good images. What is questionable about them (strangers among them,
        images learned before, …) is a `ReviewWarning`, and in the report; with `strict` it is an
        error, as is an image that cannot be read. The memory is as before if this raises.

        `images` are files and folders (of a data set with a split the good ones alone), or arrays
        or PIL images. `p` is the part of the patches that is taken (0.01; online 0.1); `online`
        learns one image at a time, each seen once. `region` is what is looked at, of a new task, which keeps it: a
        mask (True, or not black: inside) as an array, an image or its file, or polygons in pixels,
        `{"width": 640, "height": 480, "polygons": [[[10, 10], [630, 10], [320, 470]]]}`."""
        as_name(task, "task")
        rate = _rate(p)
        given = _given(_listed(images))
        if not given:
            raise InputError(f"task {task!r}: there are no images to learn")
        with told(progress, f"learning {task}") as callback:
            facts = self._detector.learn_images(
                given,
                task,
                rate,
                _region(region),
                online,
                strict,
                part(false_alarms, "false_alarms"),
                parse_size(memory_limit, "memory_limit"),
                _user(),
                where(threads, device),
                callback,
            )
        facts["remarks"] = [Remark(*remark) for remark in facts["remarks"]]
        for remark in facts["remarks"]:
            names = [os.path.basename(facts["files"][i]) for i in remark.images[:5]]
            which = f" ({', '.join(names)}{', …' if len(remark.images) > 5 else ''})" if names else ""
            warnings.warn(f"task {task!r}: {remark.text}{which}", ReviewWarning, stacklevel=2)
        return LearnReport(**facts)

    def learn_online(
        self,
        image: Any,
        task: str,
        *,
        p: Optional[float] = None,
        region: Any = None,
        threads: Optional[int] = None,
        device: DeviceName = "auto",
    ) -> None:
        """Learns one image. What it scores before that calibrates its task. `region` as in `learn`."""
        self._detector.learn_one(
            _pixels(image),
            as_name(task, "task"),
            _rate(p),
            _region(region),
            _user(),
            where(threads, device),
        )

    def learn_defect(
        self,
        image: Any,
        task: str,
        *,
        box: Optional[Tuple[float, float, float, float]] = None,
        mask: Any = None,
        threads: Optional[int] = None,
        device: DeviceName = "auto",
    ) -> None:
        """Shows a defect of a task that was learned: in a box (x, y, width, height), under a mask
        of the image's size (of True or 1, or brighter than half of 255), or in what the memory outlines itself. From ten
        such images on, what is like them scores higher."""
        self._detector.learn_defect(
            _pixels(image),
            as_name(task, "task"),
            None if box is None else _box(box),
            None if mask is None else _mask(mask),
            where(threads, device),
        )

    def inspect(
        self,
        image: Any,
        *,
        task: Optional[str] = None,
        false_alarms: float = 0.05,
        strangers: float = 0.01,
        map: bool = True,
        threads: Optional[int] = None,
        device: DeviceName = "auto",
    ) -> Inspection:
        """Inspects one image: a path, an array or a PIL image. `task` is the product, if it is
        known; it is recognised otherwise. `false_alarms` is the part of the good images that may be
        rejected, `strangers` the part that may be called unknown (0: none is)."""
        _check_rates(false_alarms, strangers)
        given: List[Any] = [as_path(image) if is_path(image) else as_image(image)]
        (facts,) = self._detector.inspect(
            given, _product(task), false_alarms, strangers, map, where(threads, device)
        )
        if facts["error"] is not None:
            raise InputError(facts["error"])
        return _inspection({**facts, "file": facts["file"] if is_path(image) else "image"})

    def inspect_all(
        self,
        images: Any,
        *,
        task: Optional[str] = None,
        false_alarms: float = 0.05,
        strangers: float = 0.01,
        map: bool = True,
        threads: Optional[int] = None,
        device: DeviceName = "auto",
        progress: Progress = None,
    ) -> Iterator[Inspection]:
        """Inspects many images, several at a time, and gives them in their order: files and
        folders, or arrays or PIL images. A file that is there and cannot be read has the verdict
        "error". Of an iterator, such as a generator, a few are taken at a time."""
        _check_rates(false_alarms, strangers)
        crew = where(threads, device)
        at_a_time = 4 * (crew[0] or os.cpu_count() or 1)
        how = (_product(task), false_alarms, strangers, map, crew)
        if isinstance(images, Iterator):
            if progress:
                raise UsageError("progress: how many images an iterator has is not known; list them")
            flat = (one for given in images for one in _files_of([given]))
            taken = iter(lambda: list(itertools.islice(flat, at_a_time)), [])
            return self._inspect_pieces(taken, how, 0, None)
        listed = _files_of(_listed(images))
        pieces = (listed[i : i + at_a_time] for i in range(0, len(listed), at_a_time))
        return self._inspect_pieces(pieces, how, len(listed), progress)

    def _inspect_pieces(
        self, pieces: Iterator[List[Any]], how: Tuple[Any, ...], count: int, progress: Progress
    ) -> Iterator[Inspection]:
        done = 0
        with told(progress, "inspecting") as callback:
            for piece in pieces:
                for i, facts in enumerate(self._detector.inspect(_given(piece), *how)):
                    if not is_path(piece[i]):
                        facts["file"] = f"image {done}"
                    done += 1
                    yield _inspection(facts)
                    if callback is not None and callback(done / count) is False:
                        raise Cancelled("stopped")

    def extract(
        self, image: Any, *, threads: Optional[int] = None, device: DeviceName = "auto"
    ) -> Patches:
        """The patch vectors that it sees in an image."""
        return Patches(**self._detector.extract(_pixels(image), where(threads, device)))

    def save(self, path: Optional[Path] = None) -> None:
        """Writes the memory's file, whole or not at all; by default the one it was opened from to
        learn."""
        if path is not None:
            self._detector.save_as(as_path(path))
        elif self._path is not None:
            self._detector.save_as(self._path)
        else:
            raise UsageError("say where to save it; it was not opened to learn")

    def shrink(
        self,
        count: Optional[int] = None,
        *,
        memory: Size = None,
        threads: Optional[int] = None,
        device: DeviceName = "auto",
    ) -> None:
        """Makes its memory smaller: at most `count` vectors, or `memory` bytes of them."""
        if (count is None) == (memory is None):
            raise UsageError("say how small it is to be: count or memory")
        if count is None:
            now = self.memory
            count = parse_size(memory, "memory") // (now.dimension * now.dtype.itemsize)
        self._detector.shrink_to(whole(count, "count", 1), where(threads, device))

    @property
    def lessons(self) -> List[Dict[str, Any]]:
        """What it was taught, the newest last (`open_to_learn`)."""
        return self._detector.lessons()

    @property
    def versions(self) -> List[Dict[str, Any]]:
        """Earlier files that are kept (`open_to_learn`)."""
        return self._detector.versions()

    def forget(
        self,
        *,
        lessons: Iterable[int] = (),
        tasks: Union[str, Iterable[str]] = (),
        exact: bool = True,
        threads: Optional[int] = None,
        device: DeviceName = "auto",
        progress: Progress = None,
    ) -> str:
        """Takes lessons back, or whole tasks: the memory is then what it would be without them.
        Where that is not exact any more it is an error, or (`exact=False`) as near as possible.
        What else there is to say."""
        with told(progress, "forgetting") as callback:
            _, _, note = self._detector.forget(
                [whole(lesson, "lesson") for lesson in lessons],
                [tasks] if isinstance(tasks, str) else [as_name(task, "task") for task in tasks],
                exact,
                where(threads, device),
                callback,
            )
        return note

    def restore(self, version: int) -> None:
        """Goes back to an earlier version."""
        self._detector.restore(whole(version, "version"))

    def rename_task(self, old: str, new: str) -> None:
        """Calls a task by another name."""
        self._detector.rename(as_name(old, "task"), as_name(new, "task"))

    def close(self) -> None:
        """Lets go of its file and its memory. What was not saved is lost."""
        self._detector.close()

    def __enter__(self) -> Detector:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def copy(self) -> Detector:
        """The same again, without a file, to be taught apart from this one."""
        return Detector._of(
            _contcore.Detector.of_memory(self._detector, self._backbone), None, self._backbone
        )

    def __copy__(self) -> Detector:
        return self.copy()

    def __deepcopy__(self, _: Dict[int, Any]) -> Detector:
        return self.copy()

    def __getstate__(self) -> Dict[str, Any]:
        if self._path is not None:
            raise TypeError(
                "cannot pickle a detector that holds its file to learn; pickle its copy(), or hand "
                "on the file's name"
            )
        return {"memory": self.memory, "backbone": self._backbone}

    def __setstate__(self, state: Dict[str, Any]) -> None:
        self._backbone = state["backbone"]
        self._path = None
        self._detector = _contcore.Detector.unpickled(state["memory"]._memory, self._backbone)

    def __repr__(self) -> str:
        return f"<contcore.Detector with {self.memory!r}>"

    def _repr_html_(self) -> Optional[str]:
        try:
            return self.memory._repr_html_()
        except UsageError:  # closed: the plain form says so
            return None


def _rate(p: Optional[float]) -> float:
    """The part of the patches that is taken; 0: as the library has it."""
    if p is None:
        return 0.0
    if not 0 < part(p, "p") <= 1:
        raise UsageError(f"p {p} is not a part; it must be above 0 and at most 1")
    return float(p)


def _product(task: Optional[str]) -> str:
    """The task that is named; "": none is."""
    return "" if task is None else as_text(task, "task")


def _box(box: Any) -> List[float]:
    sides = [part(side, "box") for side in _several(box, "box")]
    if len(sides) != 4:
        raise UsageError(f"box: x, y, width and height are needed, not {box!r}")
    return sides


def _mask(mask: Any) -> NDArray[np.uint8]:
    array = read_image(mask) if is_path(mask) else np.asarray(mask)
    marks = array.dtype == np.bool_ or (array.dtype.kind in "iu" and array.size > 0 and array.max() <= 1)
    return as_image((array != 0).astype(np.uint8) * 255 if marks else array, "mask")


def _region(region: Any) -> str:
    """As the engine reads it: polygons, or a mask's runs of pixels outside, inside, outside, …"""
    if region is None:
        return ""
    if isinstance(region, Mapping):
        return json.dumps(region, default=_plain)
    if is_path(region):
        return _contcore.read_region(as_path(region))
    if isinstance(region, np.ma.MaskedArray) and bool(np.any(region.mask)):
        raise InputError("region: some values are masked; fill them")
    mask = np.asarray(region)
    if mask.ndim == 3 and mask.shape[2] == 1:
        mask = region = mask[:, :, 0]
    labels = mask.ndim == 2 and mask.dtype.kind in "biu"  # whatever numbers they are
    if hasattr(region, "getexif"):  # of a palette they are not
        labels = labels and region.mode.startswith("I")
    inside = mask != 0 if labels else as_image(region, "region").any(axis=2)
    flat = inside.ravel()
    ends = [*(np.flatnonzero(flat[1:] != flat[:-1]) + 1).tolist(), flat.size]
    counts = np.diff(ends, prepend=0).tolist()
    height, width = inside.shape
    first: List[int] = [0] if flat.size and flat[0] else []
    return json.dumps({"width": width, "height": height, "counts": first + counts})


def _plain(value: Any) -> Any:
    """NumPy's numbers and arrays, for JSON."""
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"region: polygons are lists of points, and no {type(value).__name__}")


_OF_NEW = {
    "layers", "precision", "dimension", "resize", "crop", "tile", "overlap", "memory", "capacity",
    "consolidate", "q", "score", "paper",
}  # fmt: skip
"""Options of a new detector, beside the backbone."""


def _check_same(memory: Memory, wanted: Dict[str, Any], file: str) -> None:
    """That an opened memory was made with the options that were given."""
    source = memory.source
    has = {
        "precision": "8bit" if memory.dtype == np.uint8 else "float",
        "resize": source.get("resize"),
        "crop": source.get("crop"),
        "tile": source.get("tile", "none"),
        "overlap": source.get("overlap", "none"),
        "layers": source.get("layers", "").split(","),
        "dimension": memory.dimension,
        "capacity": memory.capacity,
        "consolidate": memory.consolidate,
        "q": memory._memory.consolidation()[1],
        "score": source.get("score", "patch"),
    }
    asked = dict(wanted)
    if asked.pop("paper", False):
        asked = {"consolidate": "paper", "precision": "float", "dimension": 1024, **asked}
    if "memory" in asked:
        asked["capacity"] = asked.pop("memory") // (memory.dimension * memory.dtype.itemsize)
    for name in sorted(set(asked) & set(has)):
        if asked[name] != has[name]:
            raise InputError(
                f"{file}: was made with {name} {has[name]}, not {asked[name]}; leave the option out, "
                "or learn into a new memory"
            )


def _check_rates(false_alarms: float, strangers: float) -> None:
    if not 0 < part(false_alarms, "false_alarms") < 1:
        raise UsageError("false_alarms must be above 0 and below 1, such as 0.05")
    if not 0 <= part(strangers, "strangers") < 1:
        raise UsageError("strangers must be from 0 to below 1, such as 0.01")


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return ""
