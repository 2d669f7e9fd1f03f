# Completion of contcore for bash. Made by packaging/from_help.py, which is to be run again when options change.

_contcore() {
  local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} command= commands= options= i
  COMPREPLY=()
  # The command that is meant, with the one inside it.
  for ((i = 1; i < COMP_CWORD; ++i)); do
    case "$command ${COMP_WORDS[i]}" in
      " learn") command="learn" ;;
      " inspect") command="inspect" ;;
      " info") command="info" ;;
      " merge") command="merge" ;;
      " shrink") command="shrink" ;;
      " lessons") command="lessons" ;;
      " forget") command="forget" ;;
      " versions") command="versions" ;;
      " rename") command="rename" ;;
      " evaluate") command="evaluate" ;;
      " analyze") command="analyze" ;;
      " backbone") command="backbone" ;;
      " extract") command="extract" ;;
      " sample") command="sample" ;;
      " nearest") command="nearest" ;;
      " serve") command="serve" ;;
      " camera") command="camera" ;;
      " demo") command="demo" ;;
      " help") command="help" ;;
      "analyze bound") command="analyze bound" ;;
      "analyze compare") command="analyze compare" ;;
      "backbone info") command="backbone info" ;;
      "backbone bench") command="backbone bench" ;;
      "backbone fetch") command="backbone fetch" ;;
      "backbone quantize") command="backbone quantize" ;;
      *) [ -n "$command" ] || return 0 ;;
    esac
  done
  case "$command" in
    "")
      commands="learn inspect info merge shrink lessons forget versions rename evaluate analyze backbone extract sample nearest serve camera demo help"
      options="-h --help -V --version" ;;
    "learn")
      options="-h --help --server --task --region --online --ratio --defects --masks --review --strict --memory-limit --backbone --layers --precision --dimension --resize --crop --tile --overlap --score --memory --capacity --consolidate --q --paper --versions --versions-size --device --threads --json" ;;
    "inspect")
      options="-h --help --server --heatmaps --maps --task --false-alarms --strangers --fail-on-defect --use --backbone --device --threads --json" ;;
    "info")
      options="-h --help --false-alarms --json" ;;
    "merge")
      options="-h --help --capacity --backbone --force --device --threads --json" ;;
    "shrink")
      options="-h --help --memory --capacity --false-alarms --backbone --force --device --threads --json" ;;
    "lessons")
      options="-h --help --json" ;;
    "forget")
      options="-h --help --lesson --task --exact --backbone --versions --versions-size --device --threads --json" ;;
    "versions")
      options="-h --help --restore --compare --backbone --versions --versions-size --json" ;;
    "rename")
      options="-h --help --backbone --versions --versions-size" ;;
    "evaluate")
      options="-h --help --layout --classes --backbone --layers --resize --crop --tile --overlap --precision --dimension --score --cache --cache-limit --no-cache --schedule --order --method --consolidate --online -m --capacity --memory --paper --ratio --q --seeds --sweep --fresh --report --device --threads --json" ;;
    "analyze")
      commands="bound compare"
      options="-h --help" ;;
    "analyze bound")
      options="-h --help --layout --classes --backbone --layers --resize --crop --tile --overlap --precision --dimension --score --cache --cache-limit --no-cache --images --per-task --tasks --ratio --q --device --threads --json" ;;
    "analyze compare")
      options="-h --help --layout --classes --backbone --layers --resize --crop --tile --overlap --precision --dimension --score --cache --cache-limit --no-cache --schedule --method --reference -m --capacity --ratio --q --seed --device --threads --json" ;;
    "backbone")
      commands="info bench fetch quantize"
      options="-h --help" ;;
    "backbone info")
      options="-h --help --layers --size --all --json" ;;
    "backbone bench")
      options="-h --help --layers --size --runs --device --threads --json" ;;
    "backbone fetch")
      options="-h --help --out --json" ;;
    "backbone quantize")
      options="-h --help --images --out --layers --threads --json" ;;
    "extract")
      options="-h --help --out --index --strict --backbone --layers --precision --dimension --resize --crop --tile --overlap --device --threads --json" ;;
    "sample")
      options="-h --help --count --ratio --base --method --start --seed --memory-limit --out --radii --device --threads --json" ;;
    "nearest")
      options="-h --help --k --out --indices --device --threads --json" ;;
    "serve")
      options="-h --help --address --port --tokens --watch --station --camera --shifts --webhook --webhook-secret --mqtt --mqtt-password --output-queue --false-alarms --strangers --queue --rate --max-body --keep-inspections --keep-images --threads --device --backbone --layers --precision --dimension --resize --crop --tile --overlap --score --memory --capacity --consolidate --q --paper --versions --versions-size" ;;
    "camera")
      options="-h --help --out --count --wait --json" ;;
    "demo")
      options="-h --help --report --backbone --threads --device" ;;
    "help")
      commands="learn inspect info merge shrink lessons forget versions rename evaluate analyze backbone extract sample nearest serve camera demo help"
      options="-h --help" ;;
  esac
  # A value.
  case "$command $before" in
    "learn --server")
      return 0 ;;
    "learn --task")
      return 0 ;;
    "learn --region")
      compopt -o filenames 2>/dev/null
      mapfile -t COMPREPLY < <(compgen -f -- "$word")
      return 0 ;;
    "learn --ratio")
      return 0 ;;
    "learn --masks")
      compopt -o filenames 2>/dev/null
      mapfile -t COMPREPLY < <(compgen -d -- "$word")
      return 0 ;;
    "learn --review")
      compopt -o filenames 2>/dev/null
      mapfile -t COMPREPLY < <(compgen -f -- "$word")
      return 0 ;;
    "learn --memory-limit")
      return 0 ;;
    "learn --backbone")
      compopt -o filenames 2>/dev/null
      mapfile -t COMPREPLY < <(compgen -W "resnet50 builtin" -- "$word"; compgen -f -- "$word")
      return 0 ;;
    "learn --layers")
      return 0 ;;
    "learn --precision")
      mapfile -t COMPREPLY < <(compgen -W "8bit float" -- "$word")
      return 0 ;;
    "learn --dimension")
      return 0 ;;
    "learn --resize")
      return 0 ;;
    "learn --crop")
      return 0 ;;
    "learn --tile")
      return 0 ;;
    "learn --overlap")
      return 0 ;;
    "learn --score")
      mapfile -t COMPREPLY < <(compgen -W "map patch" -- "$word")
      return 0 ;;
    "learn --memory")
      return 0 ;;
    "learn --capacity")
      return 0 ;;
    "learn --consolidate")
      mapfile -t COMPREPLY < <(compgen -W "share paper" -- "$word")
      return 0 ;;
    "learn --q")
      return 0 ;;
    "learn --versions")
      return 0 ;;
    "learn --versions-size")
      return 0 ;;
    "learn --device")
      mapfile -t COMPREPLY < <(compgen -W "auto cpu cuda" -- "$word")
      return 0 ;;
    "learn --threads")
      return 0 ;;
    "inspect --server")
      return 0 ;;
    "inspect --heatmaps")
      compopt -o filenames 2>/dev/null
      mapfile -t COMPREPLY < <(compgen -d -- "$word")
      return 0 ;;
    "inspect --maps")
      compopt -o filenames 2>/dev/null
      mapfile -t COMPREPLY < <(compgen -d -- "$word")
      return 0 ;;
    "inspect --task")
      return 0 ;;
    "inspect --false-alarms")
      return 0 ;;
    "inspect --strangers")
      return 0 ;;
    "inspect --use")
      return 0 ;;
    "inspect --backbone")
      compopt -o filenames 2>/dev/null
      mapfile -t COMPREPLY < <(compgen -W "resnet50 builtin" -- "$word"; compgen -f -- "$word")
      return 0 ;;
    "inspect --device")
      mapfile -t COMPREPLY < <(compgen -W "auto cpu cuda" -- "$word")
      return 0 ;;
    "inspect --threads")
      return 0 ;;
    "info --false-alarms")
      return 0 ;;
    "merge --capacity")
      return 0 ;;
    "merge --backbone")
      compopt -o filenames 2>/dev/null
      mapfile -t COMPREPLY < <(compgen -W "resnet50 builtin" -- "$word"; compgen -f -- "$word")
      return 0 ;;
    "merge --device")
      mapfile -t COMPREPLY < <(compgen -W "auto cpu cuda" -- "$word")
      return 0 ;;
    "merge --threads")
      return 0 ;;
    "shrink --memory")
      return 0 ;;
    "shrink --capacity")
      return 0 ;;
    "shrink --false-alarms")
      return 0 ;;
    "shrink --backbone")
      compopt -o filenames 2>/dev/null
      mapfile -t COMPREPLY < <(compgen -W "resnet50 builtin" -- "$word"; compgen -f -- "$word")
      return 0 ;;
    "shrink --device")
      mapfile -t COMPREPLY < <(compgen -W "auto cpu cuda" -- "$word")
      return 0 ;;
    "shrink --threads")
      return 0 ;;
    "forget --lesson")
      return 0 ;;
    "forget --task")
      return 0 ;;
    "forget --backbone")
      compopt -o filenames 2>/dev/null
      mapfile -t COMPREPLY < <(compgen -W "resnet50 builtin" -- "$word"; compgen -f -- "$word")
      return 0 ;;
    "forget --versions")
      return 0 ;;
    "forget --versions-size")
      return 0 ;;
    "forget --device")
      mapfile -t COMPREPLY < <(compgen -W "auto cpu cuda" -- "$word")
      return 0 ;;
    "forget --threads")
      return 0 ;;
    "versions --restore")
      return 0 ;;
    "versions --compare")
      return 0 ;;
    "versions --backbone")
      compopt -o filenames 2>/dev/null
      mapfile -t COMPREPLY < <(compgen -W "resnet50 builtin" -- "$word"; compgen -f -- "$word")
      return 0 ;;
    "versions --versions")
      return 0 ;;
    "versions --versions-size")
      return 0 ;;
    "rename --backbone")
      compopt -o filenames 2>/dev/null
      mapfile -t COMPREPLY < <(compgen -W "resnet50 builtin" -- "$word"; compgen -f -- "$word")
      return 0 ;;
    "rename --versions")
      return 0 ;;
    "rename --versions-size")
      return 0 ;;
    "evaluate --layout")
      return 0 ;;
    "evaluate --classes")
      return 0 ;;
    "evaluate --backbone")
      compopt -o filenames 2>/dev/null
      mapfile -t COMPREPLY < <(compgen -W "resnet50 builtin" -- "$word"; compgen -f -- "$word")
      return 0 ;;
    "evaluate --layers")
      return 0 ;;
    "evaluate --resize")
      return 0 ;;
    "evaluate --crop")
      return 0 ;;
    "evaluate --tile")
      return 0 ;;
    "evaluate --overlap")
      return 0 ;;
    "evaluate --precision")
      mapfile -t COMPREPLY < <(compgen -W "8bit float" -- "$word")
      return 0 ;;
    "evaluate --dimension")
      return 0 ;;
    "evaluate --score")
      mapfile -t COMPREPLY < <(compgen -W "map patch" -- "$word")
      return 0 ;;
    "evaluate --cache")
      compopt -o filenames 2>/dev/null
      mapfile -t COMPREPLY < <(compgen -d -- "$word")
      return 0 ;;
    "evaluate --cache-limit")
      return 0 ;;
    "evaluate --schedule")
      return 0 ;;
    "evaluate --order")
      return 0 ;;
    "evaluate --method")
      return 0 ;;
    "evaluate --consolidate")
      mapfile -t COMPREPLY < <(compgen -W "share paper" -- "$word")
      return 0 ;;
    "evaluate -m" | "evaluate --capacity")
      return 0 ;;
    "evaluate --memory")
      return 0 ;;
    "evaluate --ratio")
      return 0 ;;
    "evaluate --q")
      return 0 ;;
    "evaluate --seeds")
      return 0 ;;
    "evaluate --sweep")
      return 0 ;;
    "evaluate --report")
      compopt -o filenames 2>/dev/null
      mapfile -t COMPREPLY < <(compgen -d -- "$word")
      return 0 ;;
    "evaluate --device")
      mapfile -t COMPREPLY < <(compgen -W "auto cpu cuda" -- "$word")
      return 0 ;;
    "evaluate --threads")
      return 0 ;;
    "analyze bound --layout")
      return 0 ;;
    "analyze bound --classes")
      return 0 ;;
    "analyze bound --backbone")
      compopt -o filenames 2>/dev/null
      mapfile -t COMPREPLY < <(compgen -W "resnet50 builtin" -- "$word"; compgen -f -- "$word")
      return 0 ;;
    "analyze bound --layers")
      return 0 ;;
    "analyze bound --resize")
      return 0 ;;
    "analyze bound --crop")
      return 0 ;;
    "analyze bound --tile")
      return 0 ;;
    "analyze bound --overlap")
      return 0 ;;
    "analyze bound --precision")
      mapfile -t COMPREPLY < <(compgen -W "8bit float" -- "$word")
      return 0 ;;
    "analyze bound --dimension")
      return 0 ;;
    "analyze bound --score")
      mapfile -t COMPREPLY < <(compgen -W "map patch" -- "$word")
      return 0 ;;
    "analyze bound --cache")
      compopt -o filenames 2>/dev/null
      mapfile -t COMPREPLY < <(compgen -d -- "$word")
      return 0 ;;
    "analyze bound --cache-limit")
      return 0 ;;
    "analyze bound --images")
      return 0 ;;
    "analyze bound --per-task")
      return 0 ;;
    "analyze bound --tasks")
      return 0 ;;
    "analyze bound --ratio")
      return 0 ;;
    "analyze bound --q")
      return 0 ;;
    "analyze bound --device")
      mapfile -t COMPREPLY < <(compgen -W "auto cpu cuda" -- "$word")
      return 0 ;;
    "analyze bound --threads")
      return 0 ;;
    "analyze compare --layout")
      return 0 ;;
    "analyze compare --classes")
      return 0 ;;
    "analyze compare --backbone")
      compopt -o filenames 2>/dev/null
      mapfile -t COMPREPLY < <(compgen -W "resnet50 builtin" -- "$word"; compgen -f -- "$word")
      return 0 ;;
    "analyze compare --layers")
      return 0 ;;
    "analyze compare --resize")
      return 0 ;;
    "analyze compare --crop")
      return 0 ;;
    "analyze compare --tile")
      return 0 ;;
    "analyze compare --overlap")
      return 0 ;;
    "analyze compare --precision")
      mapfile -t COMPREPLY < <(compgen -W "8bit float" -- "$word")
      return 0 ;;
    "analyze compare --dimension")
      return 0 ;;
    "analyze compare --score")
      mapfile -t COMPREPLY < <(compgen -W "map patch" -- "$word")
      return 0 ;;
    "analyze compare --cache")
      compopt -o filenames 2>/dev/null
      mapfile -t COMPREPLY < <(compgen -d -- "$word")
      return 0 ;;
    "analyze compare --cache-limit")
      return 0 ;;
    "analyze compare --schedule")
      return 0 ;;
    "analyze compare --method")
      return 0 ;;
    "analyze compare --reference")
      return 0 ;;
    "analyze compare -m" | "analyze compare --capacity")
      return 0 ;;
    "analyze compare --ratio")
      return 0 ;;
    "analyze compare --q")
      return 0 ;;
    "analyze compare --seed")
      return 0 ;;
    "analyze compare --device")
      mapfile -t COMPREPLY < <(compgen -W "auto cpu cuda" -- "$word")
      return 0 ;;
    "analyze compare --threads")
      return 0 ;;
    "backbone info --layers")
      return 0 ;;
    "backbone info --size")
      return 0 ;;
    "backbone bench --layers")
      return 0 ;;
    "backbone bench --size")
      return 0 ;;
    "backbone bench --runs")
      return 0 ;;
    "backbone bench --device")
      mapfile -t COMPREPLY < <(compgen -W "auto cpu cuda" -- "$word")
      return 0 ;;
    "backbone bench --threads")
      return 0 ;;
    "backbone fetch --out")
      compopt -o filenames 2>/dev/null
      mapfile -t COMPREPLY < <(compgen -f -- "$word")
      return 0 ;;
    "backbone quantize --images")
      compopt -o filenames 2>/dev/null
      mapfile -t COMPREPLY < <(compgen -d -- "$word")
      return 0 ;;
    "backbone quantize --out")
      compopt -o filenames 2>/dev/null
      mapfile -t COMPREPLY < <(compgen -f -- "$word")
      return 0 ;;
    "backbone quantize --layers")
      return 0 ;;
    "backbone quantize --threads")
      return 0 ;;
    "extract --out")
      compopt -o filenames 2>/dev/null
      mapfile -t COMPREPLY < <(compgen -f -- "$word")
      return 0 ;;
    "extract --index")
      compopt -o filenames 2>/dev/null
      mapfile -t COMPREPLY < <(compgen -f -- "$word")
      return 0 ;;
    "extract --backbone")
      compopt -o filenames 2>/dev/null
      mapfile -t COMPREPLY < <(compgen -W "resnet50 builtin" -- "$word"; compgen -f -- "$word")
      return 0 ;;
    "extract --layers")
      return 0 ;;
    "extract --precision")
      mapfile -t COMPREPLY < <(compgen -W "8bit float" -- "$word")
      return 0 ;;
    "extract --dimension")
      return 0 ;;
    "extract --resize")
      return 0 ;;
    "extract --crop")
      return 0 ;;
    "extract --tile")
      return 0 ;;
    "extract --overlap")
      return 0 ;;
    "extract --device")
      mapfile -t COMPREPLY < <(compgen -W "auto cpu cuda" -- "$word")
      return 0 ;;
    "extract --threads")
      return 0 ;;
    "sample --count")
      return 0 ;;
    "sample --ratio")
      return 0 ;;
    "sample --base")
      compopt -o filenames 2>/dev/null
      mapfile -t COMPREPLY < <(compgen -f -- "$word")
      return 0 ;;
    "sample --method")
      mapfile -t COMPREPLY < <(compgen -W "greedy random reservoir herding patchcore" -- "$word")
      return 0 ;;
    "sample --start")
      return 0 ;;
    "sample --seed")
      return 0 ;;
    "sample --memory-limit")
      return 0 ;;
    "sample --out")
      compopt -o filenames 2>/dev/null
      mapfile -t COMPREPLY < <(compgen -f -- "$word")
      return 0 ;;
    "sample --radii")
      compopt -o filenames 2>/dev/null
      mapfile -t COMPREPLY < <(compgen -f -- "$word")
      return 0 ;;
    "sample --device")
      mapfile -t COMPREPLY < <(compgen -W "auto cpu cuda" -- "$word")
      return 0 ;;
    "sample --threads")
      return 0 ;;
    "nearest --k")
      return 0 ;;
    "nearest --out")
      compopt -o filenames 2>/dev/null
      mapfile -t COMPREPLY < <(compgen -f -- "$word")
      return 0 ;;
    "nearest --indices")
      compopt -o filenames 2>/dev/null
      mapfile -t COMPREPLY < <(compgen -f -- "$word")
      return 0 ;;
    "nearest --device")
      mapfile -t COMPREPLY < <(compgen -W "auto cpu cuda" -- "$word")
      return 0 ;;
    "nearest --threads")
      return 0 ;;
    "serve --address")
      return 0 ;;
    "serve --port")
      return 0 ;;
    "serve --tokens")
      compopt -o filenames 2>/dev/null
      mapfile -t COMPREPLY < <(compgen -f -- "$word")
      return 0 ;;
    "serve --watch")
      compopt -o filenames 2>/dev/null
      mapfile -t COMPREPLY < <(compgen -d -- "$word")
      return 0 ;;
    "serve --station")
      return 0 ;;
    "serve --camera")
      return 0 ;;
    "serve --shifts")
      return 0 ;;
    "serve --webhook")
      return 0 ;;
    "serve --webhook-secret")
      compopt -o filenames 2>/dev/null
      mapfile -t COMPREPLY < <(compgen -f -- "$word")
      return 0 ;;
    "serve --mqtt")
      return 0 ;;
    "serve --mqtt-password")
      compopt -o filenames 2>/dev/null
      mapfile -t COMPREPLY < <(compgen -f -- "$word")
      return 0 ;;
    "serve --output-queue")
      return 0 ;;
    "serve --false-alarms")
      return 0 ;;
    "serve --strangers")
      return 0 ;;
    "serve --queue")
      return 0 ;;
    "serve --rate")
      return 0 ;;
    "serve --max-body")
      return 0 ;;
    "serve --keep-inspections")
      return 0 ;;
    "serve --keep-images")
      return 0 ;;
    "serve --threads")
      return 0 ;;
    "serve --device")
      mapfile -t COMPREPLY < <(compgen -W "auto cpu cuda" -- "$word")
      return 0 ;;
    "serve --backbone")
      compopt -o filenames 2>/dev/null
      mapfile -t COMPREPLY < <(compgen -W "resnet50 builtin" -- "$word"; compgen -f -- "$word")
      return 0 ;;
    "serve --layers")
      return 0 ;;
    "serve --precision")
      mapfile -t COMPREPLY < <(compgen -W "8bit float" -- "$word")
      return 0 ;;
    "serve --dimension")
      return 0 ;;
    "serve --resize")
      return 0 ;;
    "serve --crop")
      return 0 ;;
    "serve --tile")
      return 0 ;;
    "serve --overlap")
      return 0 ;;
    "serve --score")
      mapfile -t COMPREPLY < <(compgen -W "map patch" -- "$word")
      return 0 ;;
    "serve --memory")
      return 0 ;;
    "serve --capacity")
      return 0 ;;
    "serve --consolidate")
      mapfile -t COMPREPLY < <(compgen -W "share paper" -- "$word")
      return 0 ;;
    "serve --q")
      return 0 ;;
    "serve --versions")
      return 0 ;;
    "serve --versions-size")
      return 0 ;;
    "camera --out")
      compopt -o filenames 2>/dev/null
      mapfile -t COMPREPLY < <(compgen -d -- "$word")
      return 0 ;;
    "camera --count")
      return 0 ;;
    "camera --wait")
      return 0 ;;
    "demo --report")
      compopt -o filenames 2>/dev/null
      mapfile -t COMPREPLY < <(compgen -d -- "$word")
      return 0 ;;
    "demo --backbone")
      compopt -o filenames 2>/dev/null
      mapfile -t COMPREPLY < <(compgen -W "resnet50 builtin" -- "$word"; compgen -f -- "$word")
      return 0 ;;
    "demo --threads")
      return 0 ;;
    "demo --device")
      mapfile -t COMPREPLY < <(compgen -W "auto cpu cuda" -- "$word")
      return 0 ;;
  esac
  if [[ $word == -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$options" -- "$word")
  elif [ -n "$commands" ]; then
    mapfile -t COMPREPLY < <(compgen -W "$commands" -- "$word")
  else
    compopt -o filenames 2>/dev/null
    mapfile -t COMPREPLY < <(compgen -f -- "$word")
  fi
}
complete -F _contcore contcore
