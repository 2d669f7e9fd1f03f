#!/bin/sh
# run.sh BUILD: installs contcore into a fresh folder and builds a program for each of its components, with the packages
# of the other components hidden. What samples and searches is to need no library but Highway and the compiler's.
set -e
here=$(dirname "$(realpath "$0")")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() {
  echo "package: $1" >&2
  exit 1
}

cmake --install "$1" --prefix "$work/prefix" >/dev/null
shared=$(find "$work/prefix" -name 'libcontcore_core.so')
"$work/prefix/bin/contcore" --version
libraries=$(ldd "$work/prefix/bin/contcore" | wc -l)
[ "$libraries" -le 40 ] || fail "the command loads $libraries libraries before it does anything; 40 are enough"
if [ -n "$shared" ] && ! ldd "$work/prefix/bin/contcore" | grep -q "libcontcore_core.*$work/prefix"; then
  fail "the installed command does not find the library beside it"
fi

configure() {  # COMPONENT OPTION...
  component=$1
  shift
  cmake -S "$here" -B "$work/$component" -DCOMPONENT="$component" -DCMAKE_PREFIX_PATH="$work/prefix" "$@" \
    >"$work/$component.log" 2>&1
}
no_protobuf=-DCMAKE_DISABLE_FIND_PACKAGE_Protobuf=ON
no_sqlite=-DCMAKE_DISABLE_FIND_PACKAGE_SQLite3=ON
for component in core vision evaluate serve; do
  case $component in
    core) hidden="$no_protobuf $no_sqlite" ;;
    vision | evaluate) hidden=$no_sqlite ;;
    serve) hidden="" ;;
  esac
  configure $component $hidden || fail "$component: $(cat "$work/$component.log")"
  cmake --build "$work/$component" >"$work/$component.log" 2>&1 || fail "$component: $(cat "$work/$component.log")"
  mkdir "$work/$component/files"
  case $component in
    serve) "$work/$component/app" "$work/$component/files" ;;
    *) "$work/$component/app" ;;
  esac
done

if configure colour; then fail "a component that does not exist was found"; fi
grep -q "no component colour" "$work/colour.log" || fail "what is missing is not named: $(cat "$work/colour.log")"

known='linux-vdso|ld-linux[^.]*|libc|libm|libstdc\+\+|libgcc_s|libpthread|libhwy'
[ -z "$shared" ] || known="$known|libcontcore_core|libnettle|libutf8proc"
more=$(ldd "$work/core/app" | awk '{ sub(".*/", "", $1); print $1 }' | grep -vE "^($known)\.so" || true)
[ -z "$more" ] || fail "a program that samples and searches needs $more"
if grep -qE 'dnnl|onnx|protobuf|sqlite|microhttpd' "$work/core/CMakeFiles/app.dir/link.txt"; then
  fail "core asks the linker for libraries of others: $(cat "$work/core/CMakeFiles/app.dir/link.txt")"
fi
