#!/bin/sh
# run.sh CONTCORE_BENCH [--quick] [FEATURES.npy [STRANGE.npy]]: one table, and bench/results.json.
set -e
bench=$1
shift
"$bench" --json bench/results.json "$@"
for last in "$@"; do
  case $last in *.npy) features=$last; break ;; esac
done
python3=/usr/bin/python3
[ -x $python3 ] || python3=python3
$python3 bench/torch_loop.py bench/results.json $features
echo "written: bench/results.json"
