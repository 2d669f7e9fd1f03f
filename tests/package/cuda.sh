#!/bin/bash
# cuda.sh COMMAND: a command that was built with CUDA loads none of its libraries, and does all on a machine without a
# driver, where it says why it uses no GPU. Where there is a GPU, that it gives the processor's answers.
set -euo pipefail
command=$(realpath "$1")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() {
  echo "cuda: $1" >&2
  exit 1
}

if ldd "$command" | grep -iE 'cuda|cublas|cudnn|nvidia'; then fail "the command loads CUDA's libraries"; fi
version=$("$command" --version)
grep -q '^devices: cpu (' <<<"$version" || fail "--version does not say what there is: $version"

/usr/bin/python3 - "$work" <<'IMAGES'
import os, random, sys
random.seed(7)
for folder, count in [("good", 8), ("camera", 3)]:
    os.makedirs(os.path.join(sys.argv[1], folder))
    for i in range(count):
        spot = [random.randrange(8, 40) for _ in range(2)] if folder == "camera" else [99, 99]
        pixels = bytearray()
        for y in range(64):
            for x in range(64):
                bright = 200 if abs(x - spot[0]) < 5 and abs(y - spot[1]) < 5 else (x // 8 + y // 8) % 2 * 90
                pixels += bytes(min(255, bright + random.randrange(24)) for _ in range(3))
        with open(os.path.join(sys.argv[1], folder, "%d.ppm" % i), "wb") as file:
            file.write(b"P6 64 64 255\n" + bytes(pixels))
IMAGES

export XDG_CACHE_HOME=$work/cache CONTCORE_CACHE=$work/cache
seen() {  # DEVICE: learns and inspects on it, and says what was seen
  "$command" learn "$work/$1.ccm" "$work/good" --task part --backbone builtin --resize 64 --device "$1" >"$work/log" 2>&1 ||
    fail "learn --device $1: $(cat "$work/log")"
  "$command" inspect "$work/$1.ccm" "$work/camera" --json --device "$1" 2>"$work/log" | sed 's/"\(milli\)\?seconds":[^,}]*//g'
}
on_cpu=$(seen cpu)
[ -n "$on_cpu" ] || fail "inspect says nothing"
[ "$(seen auto)" = "$on_cpu" ] || fail "another device sees something else: $(seen auto), and not $on_cpu"

if grep -q 'no GPU' <<<"$version"; then
  for device in cuda cuda:0; do
    status=0
    "$command" inspect "$work/cpu.ccm" "$work/camera" --device $device >/dev/null 2>"$work/log" || status=$?
    [ $status = 2 ] || fail "--device $device exits with $status where there is no GPU: $(cat "$work/log")"
    grep -q "cannot be used: .*driver.*; device cpu does without it" "$work/log" ||
      fail "--device $device does not say why there is no GPU: $(cat "$work/log")"
  done
  echo "cuda: without a driver it does all on the processor; with one: NOT TESTED"
fi
