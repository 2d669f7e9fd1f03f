#!/bin/bash
# deb.sh BUILD OUT: makes OUT/contcore_VERSION_ARCHITECTURE.deb of a release build: the command, its manual, the
# completions of the shells and the service's unit. What it depends on is found by looking at the program. Prints the
# package's name. Needs dpkg-dev.
set -euo pipefail
build=$(realpath "$1")
mkdir -p "$2"
out=$(realpath "$2")
source=$(realpath "$(dirname "$0")/..")
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
root=$stage/root
umask 022

version=$(sed -n 's/^CMAKE_PROJECT_VERSION:STATIC=//p' "$build/CMakeCache.txt")
architecture=$(dpkg --print-architecture)
cmake --install "$build" --prefix "$root/usr" --component command --strip >/dev/null
# Debian has units in /lib, and keeps packages' completions apart from those of the machine's owner.
mkdir -p "$root/lib"
mv "$root/usr/lib/systemd" "$root/lib/systemd"
rmdir "$root/usr/lib"
mv "$root/usr/share/zsh/site-functions" "$root/usr/share/zsh/vendor-completions"
gzip -9n "$root"/usr/share/man/man1/*
doc=$root/usr/share/doc/contcore
mkdir -p "$doc"
gzip -9nc "$source/CHANGELOG.md" >"$doc/CHANGELOG.md.gz"
maintainer="The contcore authors <contcore@example.org>"
gzip -9nc >"$doc/changelog.gz" <<END
contcore ($version) unstable; urgency=medium

  * What changed is in CHANGELOG.md.

 -- $maintainer  $(date -uR)
END
cat >"$doc/copyright" <<END
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: contcore

Files: *
Copyright: 2026 the contcore authors
License: Apache-2.0
 On Debian systems, the license is in /usr/share/common-licenses/Apache-2.0.
END
find "$root" -type d -exec chmod 755 {} +
find "$root" -type f ! -path '*/bin/*' -exec chmod 644 {} +

# It reads a source package's description, of which there is no need to say more.
mkdir "$stage/debian" "$root/DEBIAN"
echo 'Source: contcore' >"$stage/debian/control"
depends=$(cd "$stage" && dpkg-shlibdeps -O root/usr/bin/contcore | sed 's/^shlibs:Depends=//')
cat >"$root/DEBIAN/control" <<END
Package: contcore
Version: $version
Architecture: $architecture
Maintainer: $maintainer
Installed-Size: $(du -sk --exclude=DEBIAN "$root" | cut -f1)
Depends: $depends
Recommends: libcurl4
Suggests: libaravis-0.8-0, libmosquitto1, npm
Section: science
Priority: optional
Description: visual anomaly detection that keeps learning
 Learns what good images of a product look like, and finds what is different in
 others. What it knows is a memory of a fixed size, into which product after
 product is learned without forgetting those before. No GPU is needed.
 .
 The package has the command contcore and a systemd unit of its service, which
 is not started unless somebody enables it.
END
(cd "$root" && find usr lib -type f -print0 | sort -z | xargs -0 md5sum >DEBIAN/md5sums)
package=$out/contcore_${version}_$architecture.deb
dpkg-deb --root-owner-group --build "$root" "$package" >/dev/null
echo "$package"
