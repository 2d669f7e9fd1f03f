"""What went wrong: one class for each kind, all of them `contcore.Error`."""


class Error(Exception):
    """Any error of contcore. The message names the thing, the reason and the remedy."""


class UsageError(Error, ValueError):
    """The call makes no sense: an unknown name, a count of zero."""


class InputError(Error, ValueError):
    """The data cannot be used: a NaN, another dimension, a file that is no image."""


class DamagedError(Error):
    """A file of contcore's that is cut short or altered."""


class Cancelled(Error):
    """The progress callback asked to stop. Nothing was changed."""


class InternalError(Error, RuntimeError):
    """A broken promise of contcore's own; please report it."""


class ReviewWarning(UserWarning):
    """Something about images to be learned that a person should look at."""
