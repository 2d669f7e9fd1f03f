#!/bin/bash
# wheel.sh WHEEL [SCRIPT]: whether a wheel of contcore is whole. Installs it into virtual environments that go again,
# with Debian's NumPy and without, and uses it with the source folder hidden; then runs SCRIPT with it.
# Needs python3-venv and python3-numpy; looks at it beside torch where python3-torch is.
set -euo pipefail
python=/usr/bin/python3
source=$(realpath "$(dirname "$0")/../..")
work=$(realpath "$(mktemp -d)")
trap 'rm -rf "$work"' EXIT
fail() {
  echo "wheel: $1" >&2
  exit 1
}
mkdir "$work/home"
cp "${1:?"usage: tests/package/wheel.sh WHEEL [SCRIPT]"}" "$work/"
[ -z "${2:-}" ] || cp "$2" "$work/script.py"
wheel=$work/$(basename "$1")
version=$(basename "$1" | cut -d- -f2)

# Commands run in /, with an environment of their own and an empty folder in the source's place.
hide=()
for rights in "" --map-root-user; do
  try=(unshare --mount $rights bash -c 'mount -t tmpfs none "$0" && exec "$@"' "$source")
  if "${try[@]}" test ! -e "$source/tests" 2>/dev/null; then hide=("${try[@]}"); break; fi
done
[ ${#hide[@]} -gt 0 ] || echo "wheel: $source cannot be hidden here (no right to mount): only what is loaded says whether it is used"
away() (
  cd /
  exec env -i PATH=/usr/bin:/bin HOME="$work/home" LANG=C.UTF-8 "${hide[@]}" "$@"
)

# The record names every file and its content.
away "$python" - "$wheel" <<'END' || fail "$wheel: its record is not that of its files"
import base64, csv, hashlib, io, sys, zipfile
archive = zipfile.ZipFile(sys.argv[1])
name = next(name for name in archive.namelist() if name.endswith(".dist-info/RECORD"))
record = {row[0]: row[1] for row in csv.reader(io.StringIO(archive.read(name).decode()))}
assert sorted(record) == sorted(archive.namelist()), set(record) ^ set(archive.namelist())
for file, digest in record.items():
    own = base64.urlsafe_b64encode(hashlib.sha256(archive.read(file)).digest()).decode().rstrip("=")
    assert digest == ("" if file == name else f"sha256={own}"), file
END

# A bare environment has the command; the library asks for NumPy.
"$python" -m venv "$work/bare"
away "$work/bare/bin/pip" install --quiet --no-index "$wheel"
away "$work/bare/bin/pip" check
[ "$(away "$work/bare/bin/contcore" --version | head -n 1)" = "$version" ] || fail "without NumPy the command is not version $version"
away "$work/bare/bin/python" - <<'END' || fail "without NumPy the library does not say that it needs it"
import contcore
try:
    contcore.greedy_sample
except ImportError as error:
    assert "NumPy" in str(error), error
else:
    raise SystemExit("contcore.greedy_sample is there")
END

"$python" -m venv --system-site-packages "$work/venv"
away "$work/venv/bin/pip" install --quiet --no-index "$wheel"
! away "$work/venv/bin/pip" check | grep -i contcore || fail "pip check is not content with it"
site=$(away "$work/venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("platlib"))')

# Every library comes from the wheel, except glibc and the C++ runtime.
system='^(linux-vdso|/lib.*/ld-linux|ld-linux|lib(c|m|pthread|dl|rt|resolv|nsl|util|anl|mvec|stdc\+\+|gcc_s)\.so)'
for file in "$site"/contcore/_contcore*.so "$site/contcore/bin/contcore" "$site"/contcore.libs/*; do
  others=$(away ldd "$file" | sed 's/^\t//' | { grep -vE "$system" || true; } |
    while read -r name _ path _; do
      case $(realpath -m "$path") in "$site"/contcore.libs/*) ;; *) echo "$name => $path" ;; esac
    done)
  [ -z "$others" ] || fail "$(basename "$file") takes from elsewhere: $others"
done

# Used: of the libraries it brings, none is loaded from the system because of it.
cat >"$work/use.py" <<'END'
import ctypes, lzma, pathlib, re, sqlite3, sys, zlib  # Python itself has some of them from the system
import numpy as np


def loaded():
    lines = open("/proc/self/maps").read().splitlines()
    return {line.split(maxsplit=5)[5] for line in lines if ".so" in line}


def stem(path):
    return re.sub(r"(-[0-9a-f]{8})?\.so.*", "", pathlib.Path(path).name)


before = loaded()
import contcore

home = pathlib.Path(contcore.__file__).parent
assert home.is_relative_to(sys.prefix), home
random = np.random.default_rng(0)
assert len(contcore.greedy_sample(random.random((500, 8), dtype=np.float32), 20).picks) == 20
good = [random.integers(90, 110, (64, 64, 3), dtype=np.uint8) for _ in range(30)]
detector = contcore.Detector(backbone="builtin", resize=64, memory="1M")
assert detector.learn(good, "plate").learned == 30
bad = good[0].copy()
bad[20:40, 20:40] = 255
assert detector.inspect(bad).rejected and not detector.inspect(good[1]).rejected
brought = {stem(path) for path in home.with_name("contcore.libs").iterdir()}
new = {path for path in loaded() - before if stem(path) in brought}
outside = {path for path in new if not pathlib.Path(path).is_relative_to(home.parent)}
assert new and not outside, outside
END
away "$work/venv/bin/python" "$work/use.py" || fail "the library cannot be used"
[ "$(away "$work/venv/bin/python" -m contcore --version | head -n 1)" = "$version" ] || fail "python -m contcore is not version $version"
[ "$(away "$work/venv/bin/contcore" --version | head -n 1)" = "$version" ] || fail "the command is not version $version"
away "$work/venv/bin/contcore" demo --help >/dev/null || fail "contcore demo --help does not work"

# Beside torch, which has OpenMP, oneDNN and protobuf too; whichever comes first.
if away "$work/venv/bin/python" -c 'import torch' 2>/dev/null; then
  for order in "torch, contcore" "contcore, torch"; do
    away "$work/venv/bin/python" - <<END || fail "import $order: they do not work together"
import $order
import numpy as np
for _ in range(2):
    torch.nn.Conv2d(3, 8, 3)(torch.rand(1, 3, 64, 64)) @ torch.rand(62, 62)
    contcore.greedy_sample(np.random.default_rng(0).random((500, 8), dtype=np.float32), 20)
    contcore.Extractor("builtin", resize=64).extract(np.zeros((64, 64, 3), np.uint8))
END
  done
else
  echo "wheel: python3-torch is not installed: not tried beside torch"
fi

[ -z "${2:-}" ] || away "$work/venv/bin/python" "$work/script.py" || fail "$2 fails with it"

for venv in bare venv; do
  away "$work/$venv/bin/pip" uninstall --quiet --yes contcore
  left=$(find "$work/$venv" -name '*contcore*')
  [ -z "$left" ] || fail "when it is uninstalled, this stays: $left"
done
echo "wheel: $(basename "$wheel") is whole, $(stat -c %s "$wheel") bytes"
