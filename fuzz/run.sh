#!/bin/sh
# Runs every fuzz target and says what was found.  Usage: fuzz/run.sh BUILD_FOLDER [TARGET...]
#   RUNS=1000000 SECONDS=600 JOBS=1 fuzz/run.sh build/fuzz/fuzz
# Each target runs for RUNS inputs or SECONDS seconds, whichever comes first, JOBS of them at a time. What is
# found lies in FINDINGS (default: fuzz-findings) with the log; new inputs go to a copy of the
# corpus there. The exit status is not 0 if anything was found.
set -u
here=$(cd "$(dirname "$0")" && pwd)
if [ "${1:-}" != --one ]; then
  build=${1:?the folder with the fuzz_* programs is missing}
  shift
  [ $# -gt 0 ] || set -- $(cd "$build" && ls -d fuzz_* | grep -v '\.' | sed 's/^fuzz_//')
  [ $# -gt 0 ] || { echo "fuzz: there are no fuzz_* programs in $build; build them with make fuzz" >&2; exit 2; }
  printf '%s\n' "$@" | xargs -P "${JOBS:-1}" -n 1 "$0" --one "$build"
  exit
fi

build=$2
target=$3
runs=${RUNS:-1000000}
seconds=$(printenv SECONDS || echo 600)  # not $SECONDS, which some shells count themselves
out=${FINDINGS:-fuzz-findings}/$target
export ASAN_OPTIONS="allocator_may_return_null=1:detect_leaks=1:malloc_context_size=8:${ASAN_OPTIONS:-}"
export UBSAN_OPTIONS="print_stacktrace=1:${UBSAN_OPTIONS:-}"
mkdir -p "$out/corpus"
most=2048
case $target in
  memory | safetensors | onnx) most=4096 ;;
  schedule) most=64 ;;
esac
dictionary=
[ -f "$here/$target.dict" ] && dictionary=-dict=$here/$target.dict
"$build/fuzz_$target" -runs="$runs" -max_total_time="$seconds" -max_len=$most -timeout=10 \
  -rss_limit_mb=1024 -malloc_limit_mb=256 -artifact_prefix="$out/" -print_final_stats=1 \
  $dictionary "$out/corpus" "$here/corpus/$target" >"$out/log" 2>&1
status=$?
done_runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$out/log")
cover=$(grep -o 'cov: [0-9]*' "$out/log" | tail -n 1)
if [ $status -eq 0 ]; then
  echo "$target: ${done_runs:-?} runs, ${cover:-no coverage}, nothing found"
else
  echo "$target: ${done_runs:-?} runs, FOUND: $(grep -m 1 -E 'SUMMARY|ERROR|runtime error' "$out/log")"
  ls "$out" | grep -E '^(crash|leak|oom|timeout|slow)' | sed "s|^|  $out/|"
  exit 1
fi
