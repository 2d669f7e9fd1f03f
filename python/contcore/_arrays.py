"""What callers hand in, as arrays the extension takes: no copy where none is needed."""

from __future__ import annotations

import os
from typing import Any, Optional, Tuple, Union

import numpy as np
from numpy.typing import NDArray

from ._errors import InputError, UsageError

DeviceName = Any
"""What computes: "auto" (a GPU where one can be used), "cpu", "cuda", "cuda:1" and so on, or a
torch.device. The answers are the same."""
Path = Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]"]
_IN_PLACE = (np.float32, np.float16, np.uint8)


def as_array(given: Any, name: str) -> NDArray[Any]:
    """An array of what was given, in place if it can be: NumPy's own, whatever has the buffer
    protocol or DLPack (a torch tensor on the CPU), or lists of numbers."""
    if not isinstance(given, np.ndarray) and hasattr(given, "__dlpack__"):
        try:
            return np.from_dlpack(given)
        except (RuntimeError, BufferError, TypeError, ValueError) as error:
            raise TypeError(
                f"{name}: cannot be used as it is ({error}); hand in a tensor on the CPU that needs "
                "no gradient, such as x.detach().cpu(), of float32, float16 or uint8"
            ) from error
    if isinstance(given, np.ma.MaskedArray) and bool(np.any(given.mask)):
        raise InputError(f"{name}: some values are masked; fill them, or leave their rows out")
    try:
        return np.asarray(given)
    except ValueError as error:  # rows of different lengths
        raise TypeError(f"{name}: is no array of numbers ({error})") from error


def as_vectors(given: Any, name: str) -> NDArray[Any]:
    """Two dimensions, C-contiguous, of float32, float16 or uint8. Other numbers become float32."""
    array = as_array(given, name)
    if array.dtype.kind not in "fiub":
        raise TypeError(
            f"{name}: vectors are of float32, float16 or uint8, not of {array.dtype}; convert them"
        )
    if array.ndim != 2:
        raise UsageError(
            f"{name}: vectors are rows of an array of two dimensions, not of {array.ndim}; "
            "reshape it, such as x.reshape(-1, d)"
        )
    if array.shape[1] == 0:
        raise InputError(f"{name}: vectors of no numbers")
    if array.dtype not in _IN_PLACE:
        array = as_float32(array, name)
    return np.ascontiguousarray(array)


def as_float32(array: NDArray[Any], name: str) -> NDArray[np.float32]:
    """Rounded; what is infinite or no number stays so, and nothing else becomes it."""
    with np.errstate(over="ignore"):
        rounded = array.astype(np.float32)
    if array.dtype.kind == "f" and array.dtype.itemsize > 4:
        large = np.isinf(rounded) & np.isfinite(array)
        if bool(large.any()):
            row = int(np.argwhere(large)[0][0]) if array.ndim > 0 else 0
            raise InputError(f"{name}: row {row} is too large for float32; scale the numbers down")
    return rounded


def as_scores(good: Any, defect: Any) -> Tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Numbers of float32 that come in the same order as these, whatever they are of."""
    both = []
    for given, name in (good, "good"), (defect, "defect"):
        array = as_array(given, name)
        if array.dtype.kind not in "fiub":
            raise TypeError(f"{name}: numbers are needed, not {array.dtype}")
        if array.ndim != 1:
            raise UsageError(f"{name}: one dimension is needed, not {array.ndim}")
        both.append(array)
    scores = np.concatenate(both)
    with np.errstate(over="ignore", invalid="ignore"):
        rounded = scores.astype(np.float32)
        same = bool((rounded.astype(scores.dtype) == scores).all())
    if not same and bool(np.isfinite(scores).all()):
        distinct, ranks = np.unique(scores, return_inverse=True)
        if len(distinct) > 1 << 24:
            raise UsageError("good, defect: there are more than 16,777,216 different scores")
        rounded = ranks.astype(np.float32)
    return rounded[: len(both[0])], rounded[len(both[0]) :]


def as_indices(given: Any, name: str) -> NDArray[np.int64]:
    """One dimension of int64."""
    array = as_array(given, name)
    if array.size == 0:
        return np.zeros(0, dtype=np.int64)
    if array.dtype.kind not in "iu" or array.ndim != 1:
        raise TypeError(f"{name}: a list of whole numbers is needed")
    return np.ascontiguousarray(array, dtype=np.int64)


def is_path(given: Any) -> bool:
    return isinstance(given, (str, bytes, os.PathLike))


def as_path(given: Path) -> bytes:
    """A path as the file system has it."""
    if not is_path(given):
        raise TypeError(f"a path is needed, not a {type(given).__name__}")
    path = os.fsencode(given)
    if b"\0" in path:
        raise UsageError(f"{given!r} is no path: it has a byte of 0")
    return path


def as_image(given: Any, name: str = "image") -> NDArray[np.uint8]:
    """Height × width × 3 bytes, RGB, of an array (height × width, × 1, × 3 or × 4, of uint8 or
    uint16), a tensor of that shape or a PIL image. Gray becomes RGB, alpha is dropped, of 16 bits
    the upper 8 are taken: what reading the same pixels from a file would give."""
    if given is None or is_path(given):
        raise TypeError(f"{name}: an array or a PIL image is needed, not {given!r}")
    if hasattr(given, "getexif") and hasattr(given, "convert"):
        given = _of_pil(given, name)
    if isinstance(given, (list, tuple)) and any(is_path(one) or np.ndim(one) > 2 for one in given):
        raise TypeError(f"{name}: one image is needed, not {len(given)}; others take several")
    array = as_array(given, name)
    if array.dtype.kind == "u" and array.dtype.itemsize == 2:
        array = (array >> 8).astype(np.uint8)
    if array.dtype != np.uint8:
        if array.dtype.kind not in "fiub":
            raise TypeError(f"{name}: an array or a PIL image is needed, not {given!r:.80}")
        how = "(x * 255).astype(numpy.uint8) for numbers from 0 to 1"
        raise TypeError(
            f"{name}: pixels are of uint8, from 0 to 255, not of {array.dtype}; convert them, such "
            f"as {how}"
        )
    if array.ndim == 2:
        array = array[:, :, np.newaxis]
    if array.ndim != 3 or array.shape[2] not in (1, 3, 4):
        shape = " × ".join(str(n) for n in array.shape)
        raise UsageError(
            f"{name}: an image is height × width (gray), or × 3 (RGB), or × 4 (RGBA), not {shape}; "
            "channels come last: x.transpose(1, 2, 0) where they come first"
        )
    if array.shape[0] == 0 or array.shape[1] == 0:
        raise InputError(f"{name}: an image without pixels")
    if array.shape[2] == 1:
        array = np.broadcast_to(array, (*array.shape[:2], 3))
    return np.ascontiguousarray(array[:, :, :3])


def _of_pil(image: Any, name: str) -> Any:
    from PIL import ImageOps

    # Pillow has the 16 bits of a PNG file in a mode of 32.
    sixteen = image.mode.startswith("I;16") or (image.mode == "I" and image.format == "PNG")
    if image.mode in ("I", "F") and not sixteen:
        raise TypeError(
            f"{name}: what white is in a PIL image of mode {image.mode} is not known; convert it to "
            "an array of uint8"
        )
    try:
        upright = ImageOps.exif_transpose(image)
    except OSError as error:
        raise InputError(f"{name}: {error}") from error
    image = image if upright is None else upright
    if sixteen:
        return np.asarray(image).astype(np.uint16)
    try:
        return np.asarray(image if image.mode in ("RGB", "L") else image.convert("RGB"))
    except ValueError as error:
        raise TypeError(f"{name}: a PIL image of mode {image.mode}: {error}") from error


def parse_size(size: Union[int, str, None], name: str) -> int:
    """Bytes of 4096, "512M" or "1.5GiB", powers of 1024; None is 0."""
    if size is None:
        return 0
    if isinstance(size, (int, np.integer)) and not isinstance(size, bool):
        if not 0 <= size < 2**63:
            raise UsageError(f"{name}: {size} bytes cannot be")
        return int(size)
    if isinstance(size, str):
        text = size.strip().upper().removesuffix("B").removesuffix("I")
        unit = {"K": 10, "M": 20, "G": 30, "T": 40}.get(text[-1:], 0)
        try:
            value = float(text[:-1] if unit else text)
        except ValueError:
            value = -1.0
        if 0 <= value * 2**unit < 2.0**63:
            return int(value * 2**unit)
    raise UsageError(f"{name}: {size!r} is no size; give bytes, or a text such as '512M' or '2G'")


def whole(number: Any, name: str, least: int = 0) -> int:
    """A whole number from `least` on, of Python's or NumPy's."""
    if isinstance(number, bool) or not hasattr(number, "__index__"):
        raise TypeError(f"{name}: a whole number is needed, not {number!r}")
    value = int(number.__index__())
    if not least <= value < 2**63:
        raise UsageError(f"{name}: {value} cannot be; it is a whole number from {least} on")
    return value


def as_text(text: Any, what: str) -> str:
    """Text that the extension takes: half characters, as in names of files, have no UTF-8."""
    if not isinstance(text, str):
        raise TypeError(f"{what}: a name is needed, not {text!r}")
    if "\0" in text or any("\ud800" <= character <= "\udfff" for character in text):
        raise UsageError(f"{what}: {text!r} has a character that no text has")
    return text


def as_name(name: Any, what: str) -> str:
    """A name of something, such as a task."""
    if as_text(name, what) == "":
        raise UsageError(f"a {what} needs a name")
    return str(name)


def part(number: Any, name: str) -> float:
    """A number, such as a part of 1."""
    if isinstance(number, (str, bytes)) or not hasattr(number, "__float__"):
        raise TypeError(f"{name}: a number is needed, not {number!r}")
    return float(number)


def thread_count(threads: Optional[int]) -> int:
    """0 is one for each core."""
    count = 0 if threads is None else whole(threads, "threads", 1)
    if count > 1024:
        raise UsageError(f"threads: {count} are too many; give at most 1024, or leave it out")
    return count


def device_name(device: DeviceName) -> str:
    """As text."""
    if isinstance(device, str):
        return as_text(device, "device")
    if type(device).__module__.startswith("torch") and hasattr(device, "type"):
        return str(device)
    raise TypeError(f"device: a name such as 'auto', 'cpu' or 'cuda:0' is needed, not {device!r}")


def where(threads: Optional[int], device: DeviceName) -> Tuple[int, str]:
    """What is to compute, as the extension takes it."""
    return thread_count(threads), device_name(device)
