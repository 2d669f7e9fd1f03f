"""Other processes: fork, spawn, the command, and an interpreter that ends in the middle."""

import multiprocessing
import os
import subprocess
import sys
import textwrap

import contcore
import numpy as np
import pytest

POINTS = np.random.default_rng(0).normal(size=(2000, 16)).astype(np.float32)


def run(program, **how):
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        timeout=300,
        **how,
    )


def picks(points):
    return contcore.greedy_sample(points, 50).picks.tolist()


@pytest.mark.parametrize("way", ["fork", "spawn"])
def test_vectors_in_other_processes(way):
    expected = picks(POINTS)  # used before: its threads are not in a forked child
    with multiprocessing.get_context(way).Pool(2) as pool:
        assert pool.map_async(picks, [POINTS] * 4).get(timeout=300) == [expected] * 4


NETWORK = """
    import multiprocessing, numpy as np, contcore
    detector = contcore.Detector(backbone="builtin", resize=64, crop="none", memory="64K")
    images = np.random.default_rng(0).integers(90, 110, (20, 64, 64, 3), dtype=np.uint8)

    def score(detector):
        try:
            return detector.inspect(images[0]).score
        except contcore.Error as error:
            return str(error)

    if __name__ == "__main__":
        detector.learn(images, "a")
        with multiprocessing.get_context("WAY").Pool(1) as pool:
            other = pool.apply_async(score, (detector,)).get(timeout=200)
        print(other == score(detector), other)
"""


def test_networks_in_spawned_processes(tmp_path):
    file = tmp_path / "program.py"
    file.write_text(textwrap.dedent(NETWORK).replace("WAY", "spawn"))
    done = subprocess.run([sys.executable, file], capture_output=True, text=True, timeout=300)
    assert done.stdout.startswith("True"), done.stdout + done.stderr


def test_networks_refuse_in_forked_processes(tmp_path):
    # oneDNN's threads do not survive a fork: a clear word instead of waiting for ever.
    file = tmp_path / "program.py"
    file.write_text(textwrap.dedent(NETWORK).replace("WAY", "fork"))
    done = subprocess.run([sys.executable, file], capture_output=True, text=True, timeout=300)
    assert "spawn" in done.stdout, done.stdout + done.stderr


def test_module_is_the_command():
    command = os.path.join(os.path.dirname(contcore.__file__), "bin", "contcore")
    for arguments in (["--version"], ["inspect", "nothing.ccm", "x.png"], ["no such command"]):
        ours = subprocess.run([sys.executable, "-m", "contcore", *arguments], capture_output=True)
        theirs = subprocess.run([command, *arguments], capture_output=True)
        assert (ours.returncode, ours.stdout, ours.stderr) == (
            theirs.returncode,
            theirs.stdout,
            theirs.stderr,
        )


def test_without_numpy():
    done = run(
        """
        import sys
        sys.modules["numpy"] = None
        import contcore
        try:
            contcore.greedy_sample
        except ImportError as error:
            print(error)
        """
    )
    assert "NumPy" in done.stdout, done.stderr


def test_import_is_light():
    done = run(
        "import sys, contcore; print([m for m in ('torch', 'pandas', 'sklearn', 'PIL', 'tqdm', 'scipy') "
        "if m in sys.modules])"
    )
    assert done.stdout.strip() == "[]", done.stderr


def test_interpreter_ends_in_the_middle():
    done = run(
        """
        import threading, numpy as np, contcore
        detector = contcore.Detector(backbone="builtin", resize=64, crop="none", memory="64K")
        images = np.random.default_rng(0).integers(90, 110, (60, 64, 64, 3), dtype=np.uint8)
        detector.learn(images[:20], "a")
        unfinished = detector.inspect_all(images)
        next(unfinished)
        def endless():
            while True:
                detector.inspect(images[0])
        threading.Thread(target=endless, daemon=True).start()
        points = np.random.default_rng(0).normal(size=(100000, 64)).astype(np.float32)
        threading.Thread(target=contcore.greedy_sample, args=(points, 50000), daemon=True).start()
        import time
        time.sleep(0.5)
        """
    )
    assert (done.returncode, done.stderr) == (0, "")
