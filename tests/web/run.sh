#!/bin/bash
# Drives the page in a real browser: tests/web/run.sh CONTCORE [SCENE…]. Needs node, npm, chromium and
# python3-numpy; fetches playwright-core and axe-core into build/page.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
contcore=$(realpath "$1")
shift
work="$here/../../build/page"
mkdir -p "$work"
cd "$work"
[ -d node_modules/playwright-core ] && [ -d node_modules/axe-core ] ||
  npm install --no-audit --no-fund --silent playwright-core axe-core
rm -rf ./*.mjs images services
cp "$here"/*.mjs .
/usr/bin/python3 "$here/images.py" images
CONTCORE="$contcore" node run.mjs "$@"
