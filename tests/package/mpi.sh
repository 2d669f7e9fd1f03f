#!/bin/sh
# mpi.sh BUILD: installs a build with MPI into a fresh folder, and builds and runs a program of its component.
set -e
here=$(dirname "$(realpath "$0")")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cmake --install "$1" --prefix "$work/prefix" >/dev/null
cmake -S "$here" -B "$work/mpi" -DCOMPONENT=mpi -DCMAKE_PREFIX_PATH="$work/prefix" \
  -DCMAKE_DISABLE_FIND_PACKAGE_Protobuf=ON -DCMAKE_DISABLE_FIND_PACKAGE_SQLite3=ON >"$work/log" 2>&1 &&
  cmake --build "$work/mpi" >"$work/log" 2>&1 || {
  cat "$work/log" >&2
  exit 1
}
mpirun --allow-run-as-root --oversubscribe -n 2 "$work/mpi/app"
