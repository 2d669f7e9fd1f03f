#!/usr/bin/python3
"""Makes a wheel of the built Python package, with the libraries that not every Linux has.

    packaging/wheel.py [PACKAGE [OUT]]     by default python/contcore and build

The libraries go into contcore.libs under names of their own, so that other copies in the process
are not taken for them. The C++ runtime stays the system's, as manylinux allows: a second one beside
torch's would get the first one's exceptions and streams. The tag names the oldest glibc that has
what the files need and whose systems have such a C++ runtime. Needs patchelf, binutils and NumPy.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
import shutil
import stat
import struct
import subprocess
import sys
import sysconfig
import tempfile
import time
import zipfile
from pathlib import Path
from typing import Iterable, NoReturn

ROOT = Path(__file__).resolve().parent.parent
LIBRARIES = "contcore.libs"
SYSTEM = re.compile(
    r"linux-vdso\.so|ld-linux|lib(c|m|pthread|dl|rt|resolv|nsl|util|anl|mvec|stdc\+\+|gcc_s)\.so"
)
# The newest symbols of the C++ runtime that manylinux_2_NN allows, from each NN on (auditwheel).
POLICY = [
    (34, {"GLIBCXX": (3, 4, 29), "CXXABI": (1, 3, 13), "GCC": (7, 0, 0)}),
    (35, {"GLIBCXX": (3, 4, 30), "CXXABI": (1, 3, 13), "GCC": (12, 0, 0)}),
    (39, {"GLIBCXX": (3, 4, 33), "CXXABI": (1, 3, 15), "GCC": (14, 0, 0)}),
]
# Headers whose code is compiled in: their licences come along too.
COMPILED_IN = {"pybind11-dev", "libcli11-dev", "nlohmann-json3-dev", "libeigen3-dev"}
METADATA = """\
Metadata-Version: 2.1
Name: contcore
Version: {version}
Summary: Visual anomaly detection that keeps learning in a fixed memory
License: Apache-2.0
Requires-Python: >={major}.{minor},<{major}.{next}
Provides-Extra: numpy
Provides-Extra: sklearn
Provides-Extra: all
Requires-Dist: numpy (>=1.24) ; extra == 'numpy' or extra == 'sklearn' or extra == 'all'
Requires-Dist: scikit-learn (>=1.2) ; extra == 'sklearn' or extra == 'all'
Description-Content-Type: text/markdown

{text}"""
WHEEL = "Wheel-Version: 1.0\nGenerator: packaging/wheel.py\nRoot-Is-Purelib: false\nTag: {}\n"


def fail(message: str) -> NoReturn:
    sys.exit(f"wheel: {message}")


def run(*command: str | Path) -> str:
    clean = {key: value for key, value in os.environ.items() if not key.startswith("LD_")}
    clean.update(LC_ALL="C.UTF-8", PYTHONDONTWRITEBYTECODE="1")
    try:
        done = subprocess.run(command, env=clean, text=True, capture_output=True)
    except OSError as error:
        fail(f"{command[0]}: {error.strerror}; apt-get install patchelf binutils")
    if done.returncode != 0:
        fail(f"{' '.join(map(str, command))}: {done.stderr.strip() or done.returncode}")
    return done.stdout


def project_version() -> str:
    found = re.search(r"^project\(.*VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text(), re.M)
    return found[1] if found else fail("CMakeLists.txt: project() has no VERSION; give it one")


def check(package: Path, version: str) -> None:
    """That the extension can be imported and the command run, and are of this version."""
    here = f"import sys; sys.path[0] = {str(package.parent)!r}"
    ask = "import contcore; print(contcore.__version__)"
    extension = run(sys.executable, "-c", f"{here}; {ask}").strip()
    command = run(package / "bin/contcore", "--version").splitlines()[0]
    if {extension, command} != {version}:
        fail(f"the extension is {extension}, the command {command}, not {version}: make python")


def libraries(file: Path) -> dict[str, Path]:
    """All libraries that a file needs, by way of others too, less the system's: name to path."""
    found = {}
    for line in run("ldd", file).splitlines():
        name, _, path = (part.strip() for part in line.partition("=>"))
        if path == "not found":
            fail(f"{file}: {name} is not found; install the Debian package that has it")
        if not SYSTEM.match(Path(name.split()[0]).name):
            found[name] = Path(path.split(" (")[0])
    return found


def own_name(name: str, path: Path) -> str:
    """libfoo.so.1 as libfoo-1a2b3c4d.so.1, by its content."""
    stem, so, number = name.partition(".so")
    return f"{stem}-{hashlib.sha256(path.read_bytes()).hexdigest()[:8]}{so}{number}"


def isolate(file: Path) -> None:
    """Takes from an ELF file the executable stack, and the GNU_UNIQUE symbols that the loader would
    share with any other library in the process that has them: protobuf's with another protobuf."""
    data = bytearray(file.read_bytes())
    programs, sections = struct.unpack_from("<QQ", data, 32)
    size, count, section_size, section_count = struct.unpack_from("<4H", data, 54)
    for at in range(programs, programs + size * count, size):
        if struct.unpack_from("<I", data, at)[0] == 0x6474E551:  # PT_GNU_STACK
            data[at + 4] &= ~1  # PF_X
    for at in range(sections, sections + section_size * section_count, section_size):
        if struct.unpack_from("<I", data, at + 4)[0] == 11:  # SHT_DYNSYM
            start, length = struct.unpack_from("<QQ", data, at + 24)
            for info in range(start + 4, start + length, 24):
                if data[info] >> 4 == 10:  # STB_GNU_UNIQUE, to STB_WEAK
                    data[info] = 2 << 4 | data[info] & 15
    file.write_bytes(data)


def place(source: Path, target: Path, names: dict[str, str], runpath: str) -> None:
    """Copies a program or library to where it finds the others, by their own names."""
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
    target.chmod(0o755)
    run("strip", "--strip-unneeded", target)  # first: it may break what patchelf has written
    isolate(target)
    needed = [name for name in run("patchelf", "--print-needed", target).split() if name in names]
    renamed = [word for name in needed for word in ("--replace-needed", name, names[name])]
    soname = ["--set-soname", target.name] if target.parent.name == LIBRARIES else []
    for change in (renamed, soname, ["--set-rpath", runpath]):
        if change:  # one at a time: patchelf 0.14 mixes up the names of several
            run("patchelf", *change, target)


def platform(files: Iterable[Path]) -> str:
    """manylinux_2_NN of what the files need of glibc and the C++ runtime."""
    need = {"GLIBC": (2, 0), "GLIBCXX": (0,), "CXXABI": (0,), "GCC": (0,)}
    for file in files:
        text = run("readelf", "--version-info", "--wide", file)
        for family, version in re.findall(r"Name: (GLIBC|GLIBCXX|CXXABI|GCC)_(\S+)", text):
            if not re.fullmatch(r"[\d.]+", version):
                fail(f"{file.name}: needs {family}_{version}, of which manylinux says nothing")
            need[family] = max(need[family], tuple(map(int, version.split("."))))
    print("needs", ", ".join(f"{key} {'.'.join(map(str, need[key]))}" for key in need))
    for glibc, allowed in POLICY:
        if all(need[family] <= allowed[family] for family in allowed):
            machine = sysconfig.get_platform().removeprefix("linux-")
            return f"manylinux_2_{max(glibc, need['GLIBC'][1])}_{machine}"
    fail("no manylinux has that C++ runtime; build with an older GCC, or add to POLICY")


def package_of(library: Path) -> str:
    """Its Debian package, which may know it as in /lib or in /usr/lib."""
    path = str(library).removeprefix("/usr")
    for name in (path, f"/usr{path}"):
        done = subprocess.run(["dpkg-query", "-S", name], text=True, capture_output=True)
        if done.returncode == 0:
            return done.stdout.split(":")[0]
    fail(f"{library}: of no Debian package, so its licence is unknown; link with Debian's")


def add_licences(packages: Iterable[str], folder: Path) -> None:
    """Copyright files of the packages, and the texts that these have by name only."""
    shutil.copyfile(ROOT / "LICENSE", folder / "LICENSE")
    for package in packages:
        file = Path("/usr/share/doc") / package / "copyright"
        if not file.is_file():
            fail(f"{file}: is not there; apt-get install --reinstall {package}")
        shutil.copyfile(file, folder / f"{package}.txt")
        text = file.read_text(errors="replace")
        for name in set(re.findall(r"/usr/share/common-licenses/([\w.-]*\w)", text)):
            shutil.copyfile(f"/usr/share/common-licenses/{name}", folder / f"{name}.txt")


def add_information(folder: Path, version: str, tag: str) -> None:
    major, minor = sys.version_info[:2]
    page = ROOT / "docs/python.md"
    text = (page if page.exists() else ROOT / "README.md").read_text()
    fields = {"version": version, "major": major, "minor": minor, "next": minor + 1}
    fields["text"] = text if page.exists() else text.split("\n## ")[0]
    script = "[console_scripts]\ncontcore = contcore.__main__:main\n"
    (folder / "METADATA").write_text(METADATA.format(**fields))
    (folder / "WHEEL").write_text(WHEEL.format(tag))
    (folder / "entry_points.txt").write_text(script)


def write(root: Path, record: str, wheel: Path) -> None:
    """All files under root and their record as a wheel that depends on their contents alone."""
    when = time.gmtime(max(int(os.environ.get("SOURCE_DATE_EPOCH", 0)), 315532800))[:6]  # from 1980
    files = sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())
    lines = ""
    with zipfile.ZipFile(wheel, "w") as archive:
        for name in [*files, record]:
            data = f"{lines}{record},,\n".encode() if name == record else (root / name).read_bytes()
            digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")
            lines += f"{name},sha256={digest},{len(data)}\n"
            mode = 0o755 if data.startswith(b"\x7fELF") else 0o644
            entry = zipfile.ZipInfo(name, when)
            entry.external_attr = (stat.S_IFREG | mode) << 16
            archive.writestr(entry, data, zipfile.ZIP_DEFLATED, 9)


def build(package: Path, stage: Path) -> str:
    """Makes stage/wheel; the name it should have."""
    extension = package / f"_contcore{sysconfig.get_config_var('EXT_SUFFIX')}"
    command = package / "bin/contcore"
    for file in (extension, command):
        if not file.is_file():
            fail(f"{file}: is not there; build it for {sys.executable}: make python")
    version = project_version()
    root, info = stage / "root", f"contcore-{version}.dist-info"

    needed = libraries(extension)
    found = {**libraries(command), **needed}
    names = {name: own_name(name, path) for name, path in found.items()}
    place(extension, root / "contcore" / extension.name, names, f"$ORIGIN/../{LIBRARIES}")
    place(command, root / "contcore/bin/contcore", names, f"$ORIGIN/../../{LIBRARIES}")
    for name, path in found.items():
        place(path, root / LIBRARIES / names[name], names, "$ORIGIN")
    tag = "cp{0}{1}-cp{0}{1}-".format(*sys.version_info)
    tag += platform(path for path in root.rglob("*") if path.is_file())
    for file in (file for end in ("*.py", "*.pyi", "py.typed") for file in package.glob(end)):
        shutil.copyfile(file, root / "contcore" / file.name)
    check(root / "contcore", version)

    packages = {name: package_of(path) for name, path in found.items()}
    (root / info / "licenses").mkdir(parents=True)
    add_licences({*packages.values(), *COMPILED_IN}, root / info / "licenses")
    add_information(root / info, version, tag)
    for name in sorted(found):
        size = (root / LIBRARIES / names[name]).stat().st_size
        whose = "" if name in needed else ", the command's only"
        print(f"{size:>9} {names[name]} of {packages[name]}{whose}")
    write(root, f"{info}/RECORD", stage / "wheel")
    return f"contcore-{version}-{tag}.whl"


def main() -> None:
    if len(sys.argv) > 3 or any(word.startswith("-") for word in sys.argv[1:]):
        fail("usage: packaging/wheel.py [PACKAGE [OUT]]")
    package = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "python/contcore")
    out = Path(sys.argv[2] if len(sys.argv) > 2 else ROOT / "build")
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".wheel-", dir=out) as stage:
        wheel = out / build(package, Path(stage).absolute())
        os.replace(Path(stage) / "wheel", wheel)
    print(f"{wheel}: {wheel.stat().st_size} bytes")


main()
