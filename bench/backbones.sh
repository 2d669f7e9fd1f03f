#!/bin/sh
# backbones.sh BACKBONE_CHECK [FOLDER_OF_ONNX...]: our feature maps and times against ONNX Runtime's, on the
# paper's backbones with random weights and on any .onnx files given. Needs node, npm, and Debian's
# python3-torchvision; everything is written to a temporary folder (or $BACKBONES, where it is kept).
set -e
check=$(realpath "$1")
shift
here=$(dirname "$(realpath "$0")")
extra=""
for folder in "$@"; do extra="$extra $(ls "$(realpath "$folder")"/*.onnx)"; done
work=${BACKBONES:-$(mktemp -d)}
[ -n "$BACKBONES" ] || trap 'rm -rf "$work"' EXIT
mkdir -p "$work/models" "$work/out"
cd "$work"
# Without its install script: that fetches a GPU library nobody needs here.
[ -d node_modules/onnxruntime-node ] || npm install --silent --ignore-scripts onnxruntime-node
[ -f models/vit.onnx ] || /usr/bin/python3 "$here/export_backbones.py" models
side=${SIDE:-224}
threads=${THREADS:-2}
repeats=${REPEATS:-20}
"$check" image "$side" image.bin
status=0
for model in models/*.onnx $extra; do
  echo "$(basename "$model" .onnx), $side x $side, $threads threads"
  node "$here/compare_ort.mjs" "$model" image.bin "$side" "$threads" "$repeats" out > before.json
  node "$here/compare_ort.mjs" "$model" image.bin "$side" "$threads" "$repeats" out > after.json
  "$check" compare "$model" image.bin "$side" "$threads" "$repeats" before.json after.json || status=1
done
exit $status
