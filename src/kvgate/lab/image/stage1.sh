#!/bin/bash
# Stage 1 of the lab's image: a Debian root tree and a kernel package, as archives in $OUT.
# Only Debian packages are fetched, by apt, from $MIRROR; the machine's own apt set-up is left alone.
#   stage1.sh OUT SUITE MIRROR MODE PACKAGE,PACKAGE…      (MODE: root, unshare or fakechroot)
set -euo pipefail
OUT=$1 SUITE=$2 MIRROR=$3 MODE=$4 PACKAGES=$5
W=$(mktemp -d "$OUT/work.XXXXXX")
trap 'rm -rf "$W"' EXIT
KEYRING=/usr/share/keyrings/debian-archive-keyring.gpg
SOURCE="deb [signed-by=$KEYRING] $MIRROR $SUITE main"
[[ -r $KEYRING ]] || { echo "no $KEYRING: install debian-archive-keyring" >&2; exit 1; }

kernel() { # beside the root tree, and only unpacked: no initramfs-tools, no boot loader
    mkdir -p "$W"/apt/lists/partial "$W"/apt/cache/archives/partial "$W/deb"
    echo "$SOURCE" >"$W/sources.list"
    local set_up=(-q -o "Dir::Etc::sourcelist=$W/sources.list" -o Dir::Etc::sourceparts=-
        -o "Dir::State::lists=$W/apt/lists" -o "Dir::Cache=$W/apt/cache"
        -o Dir::State::status=/dev/null -o APT::Sandbox::User=root -o Acquire::Languages=none)
    apt-get "${set_up[@]}" update >/dev/null
    local name
    name=$(apt-cache "${set_up[@]}" depends linux-image-amd64 | awk '/Depends: linux-image/ {print $2; exit}')
    (cd "$W/deb" && apt-get "${set_up[@]}" download "$name" >/dev/null 2>&1)
    dpkg-deb -x "$W/deb/$name"_*.deb "$W/kernel"
    tar -C "$W/kernel" -cf "$OUT/kernel.tar" .
    echo "$name" >"$OUT/kernel.name"
    echo "kernel: $name"
}
kernel &
waiting=$!

echo "root tree: mmdebstrap $SUITE, mode $MODE"
mmdebstrap --quiet "--mode=$MODE" --variant=essential "--include=$PACKAGES" --format=tar \
    --aptopt='Acquire::Check-Valid-Until "false"' --aptopt='APT::Install-Recommends "false"' \
    --aptopt='Acquire::Languages "none"' --dpkgopt='path-exclude=/usr/share/man/*' \
    --dpkgopt='path-exclude=/usr/share/locale/*' --dpkgopt='path-exclude=/usr/share/doc/*' \
    --dpkgopt='force-unsafe-io' "$SUITE" "$W/root.tar" "$SOURCE" >"$W/mmdebstrap.log" 2>&1 || {
    tail -n 20 "$W/mmdebstrap.log" >&2
    exit 1
}
wait "$waiting"
mv "$W/root.tar" "$OUT/root.tar"
