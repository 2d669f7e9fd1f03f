"""python -m contcore …: the command contcore."""

import os
import sys


def main() -> None:
    command = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "contcore")
    try:
        os.execv(command, ["contcore", *sys.argv[1:]])
    except OSError as error:
        sys.exit(f"contcore: {command}: {error.strerror}; install the package again, or make python")


if __name__ == "__main__":
    main()
