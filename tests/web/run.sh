#!/bin/bash
# Drives the page in a real browser: tests/web/run.sh CONTCORE. Needs node, npm, chromium and
# python3-numpy; fetches playwright-core and axe-core into build/page.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
contcore=$(realpath "$1")
work="$here/../../build/page"
mkdir -p "$work"
cd "$work"
[ -d node_modules/playwright-core ] && [ -d node_modules/axe-core ] ||
  npm install --no-audit --no-fund --silent playwright-core axe-core
cp "$here/page_test.mjs" .
rm -rf images line.ccm*
/usr/bin/python3 "$here/images.py" images
"$contcore" serve line.ccm --port 0 --backbone builtin --resize 64 --capacity 500 >listening &
service=$!
trap 'kill $service 2>/dev/null; wait $service 2>/dev/null || true' EXIT
for _ in $(seq 100); do grep -q http listening && break || sleep 0.1; done
CONTCORE_URL=$(grep -o 'http.*' listening) CONTCORE_TEST_IMAGES="$work/images" node page_test.mjs
