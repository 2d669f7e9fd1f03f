#!/bin/bash
# A machine with nothing on it: makes a bare Debian 12 in a folder and runs README's two commands there, on a
# clean copy of the last commit, as root and as an ordinary user who may use sudo; and installs the Debian package that
# `make deb` made on another. Needs root and debootstrap, and takes
# a quarter of an hour; not part of CI. To be run whenever packages or tests change.
#
#   tests/bare.sh FOLDER [TIMES [root|user|deb]]     TIMES: how often `make test` is run; only one of the three
set -euo pipefail
FOLDER=${1:?"usage: tests/bare.sh FOLDER [TIMES [root|user|deb]]"}
TIMES=${2:-1}
WHO=${3:-"root user deb"}
SOURCE=$(cd "$(dirname "$0")/.." && pwd)
[ "$(id -u)" = 0 ] || { echo "bare.sh: must be root, to make another machine's root" >&2; exit 2; }
command -v debootstrap >/dev/null || { echo "bare.sh: apt-get install debootstrap" >&2; exit 2; }
mkdir -p "$FOLDER"
FOLDER=$(cd "$FOLDER" && pwd)

if [ ! -f "$FOLDER/base/.made" ]; then
  rm -rf "$FOLDER/base"
  # From wherever this machine has its packages.
  site=$(apt-get indextargets --format '$(SITE)' | head -1)
  debootstrap --variant=minbase bookworm "$FOLDER/base" "$site"
  cp -a /etc/apt/. "$FOLDER/base/etc/apt/"
  [ ! -d /usr/share/keyrings ] || cp -a /usr/share/keyrings/. "$FOLDER/base/usr/share/keyrings/"
  [ ! -d /etc/ssl/certs ] || { mkdir -p "$FOLDER/base/etc/ssl" && cp -aL /etc/ssl/certs "$FOLDER/base/etc/ssl/"; }
  touch "$FOLDER/base/.made"
fi

# Runs a command in the copy; its mounts and processes go with it.
inside() {
  local root=$1
  shift
  unshare --mount --pid --fork --kill-child bash -euc '
    root=$0
    mount --make-rprivate /
    mount -t proc proc "$root/proc"
    mount -t sysfs sysfs "$root/sys"
    mount --rbind /dev "$root/dev"
    mount -t tmpfs tmpfs "$root/dev/shm"
    mount -t tmpfs tmpfs "$root/run"
    cp -L /etc/resolv.conf "$root/etc/resolv.conf" 2>/dev/null || true
    cp -L /etc/hosts "$root/etc/hosts" 2>/dev/null || true
    exec env -i HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin TERM=dumb LANG=C.UTF-8 \
      chroot "$root" "$@"' "$root" "$@"
}

for who in $WHO; do
  root=$FOLDER/$who
  rm -rf "$root"
  cp -a "$FOLDER/base" "$root"
  if [ "$who" = deb ]; then
    echo "== deb: install, --version, demo"
    cp "$SOURCE"/build/contcore_*.deb "$root/root/"
    inside "$root" bash -c 'apt-get update -q && apt-get install -qy --no-install-recommends /root/contcore_*.deb' >/dev/null
    inside "$root" bash -c 'cd /root && contcore --version && contcore demo'
    test -s "$root/root/demo-report/index.html"
    inside "$root" bash -c 'dpkg --purge contcore && ! command -v contcore'
    continue
  fi
  home=/root
  run=(bash -c)
  # What nobody can do without: make itself, and a way to be root for those who are not.
  inside "$root" bash -c 'apt-get update -q && apt-get install -qy --no-install-recommends make sudo' >/dev/null
  if [ "$who" = user ]; then
    inside "$root" bash -c 'useradd --create-home --shell /bin/bash tester && echo "tester ALL=(ALL) NOPASSWD: ALL" >/etc/sudoers.d/tester'
    home=/home/tester
    run=(runuser -u tester -- env HOME=$home bash -c)
  fi
  mkdir -p "$root$home/contcore"
  git -C "$SOURCE" archive HEAD | tar -x -C "$root$home/contcore"
  inside "$root" chown -R --reference="$home" "$home/contcore"
  echo "== $who: make demo"
  inside "$root" "${run[@]}" "cd $home/contcore && make demo"
  test -s "$root$home/contcore/demo-report/index.html"
  for i in $(seq "$TIMES"); do
    echo "== $who: make test ($i of $TIMES)"
    inside "$root" "${run[@]}" "cd $home/contcore && make test"
  done
done
echo "== bare.sh: all green"
