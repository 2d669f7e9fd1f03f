#!/bin/bash
# deb.sh PACKAGE.deb: whether a package of contcore is whole. Unpacks it and runs what is in it; nothing is installed.
# `tests/bare.sh FOLDER 1 deb` installs it on a bare Debian.
set -euo pipefail
package=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() {
  echo "deb: $1" >&2
  exit 1
}

dpkg-deb --extract "$package" "$work/root"
dpkg-deb --control "$package" "$work/control"
for file in usr/bin/contcore usr/share/man/man1/contcore.1.gz lib/systemd/system/contcore.service \
  usr/share/bash-completion/completions/contcore usr/share/zsh/vendor-completions/_contcore \
  usr/share/doc/contcore/copyright usr/share/doc/contcore/CHANGELOG.md.gz; do
  [ -s "$work/root/$file" ] || fail "$file is missing"
done
[ -z "$(ls "$work/control" | grep -vxE 'control|md5sums')" ] || fail "it has more than control and md5sums: $(ls "$work/control")"
(cd "$work/root" && md5sum --quiet -c "$work/control/md5sums") || fail "its checksums are not those of its files"
others=$(dpkg-deb -c "$package" | awk '$2 != "root/root" || $1 ~ /^.....w/ || $1 ~ /^........w/')
[ -z "$others" ] || fail "owned by others, or theirs to write: $others"

# Every library the program is linked with is of a package it depends on.
for library in $(objdump -p "$work/root/usr/bin/contcore" | awk '$1 == "NEEDED" && $2 !~ /^ld-/ { print $2 }'); do
  path=$(ldd "$work/root/usr/bin/contcore" | awk -v name="$library" '$1 == name { print $3 }')
  # Found in /lib, which is /usr/lib; packages know it as either.
  path=${path#/usr}
  owner=$( (dpkg-query -S "$path" || dpkg-query -S "/usr$path") 2>/dev/null | head -1 | cut -d: -f1)
  dpkg-deb -f "$package" Depends | tr ',' '\n' | sed 's/^ *//; s/ .*//' | grep -qx "$owner" ||
    fail "$library is of $owner, which it does not depend on"
done

version=$(dpkg-deb -f "$package" Version)
"$work/root/usr/bin/contcore" --version | grep -qF "$version" || fail "the command is not version $version"
grep -qx "version: $version" "$(dirname "$0")/../../CITATION.cff" || fail "CITATION.cff is of another version than $version"
echo "deb: $(basename "$package") is whole, $(stat -c %s "$package") bytes"
