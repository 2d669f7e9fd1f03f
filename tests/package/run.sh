#!/bin/sh
# run.sh BUILD: installs contcore into a fresh folder and builds a project that finds it there.
set -e
here=$(dirname "$(realpath "$0")")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cmake --install "$1" --prefix "$work/prefix" >/dev/null
cmake -S "$here" -B "$work/build" -DCMAKE_PREFIX_PATH="$work/prefix" >/dev/null
cmake --build "$work/build"
"$work/build/app"
"$work/prefix/bin/contcore" --version
