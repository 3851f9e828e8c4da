#!/bin/sh
# Installs kvgate from this bundle, without network:  sh install.sh FOLDER
# Makes FOLDER/bin/kvgate, a Python environment of its own. Safe to run again. Writes nowhere else.
set -eu
here=$(cd "$(dirname "$0")" && pwd)

say() { printf 'install: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

[ $# -eq 1 ] || die "where to? sh install.sh FOLDER, e.g. /opt/kvgate"
case $1 in /*) folder=$1 ;; *) folder=$PWD/$1 ;; esac

(cd "$here" && sha256sum --quiet --strict -c SHA256SUMS >&2) ||
	die "this bundle is not as it was made (see above): copy it again"
for file in "$here"/wheels/*; do
	grep -q "  wheels/${file##*/}\$" "$here/SHA256SUMS" || die "${file##*/} is not of this bundle"
done

read -r version platform <"$here/PYTHON"
ask='import sys, sysconfig; print("%d.%d %s" % (*sys.version_info[:2], sysconfig.get_platform()))'
python=
for candidate in ${PYTHON:-} "python$version" python3; do
	if [ "$("$candidate" -c "$ask" 2>/dev/null)" = "$version $platform" ]; then
		python=$candidate
		break
	fi
done
[ -n "$python" ] ||
	die "this bundle is for Python $version on $platform, which is not here; name one by PYTHON=…, or make a bundle with the Python that is"

"$python" -m venv --without-pip "$folder" ||
	die "no environment could be made in $folder (Debian: the package python$version-venv)"
pip=$(echo "$here"/wheels/pip-*.whl)
"$folder/bin/python" "$pip/pip" install -q --disable-pip-version-check --no-cache-dir \
	--no-index --find-links "$here/wheels" kvgate ||
	die "the wheels could not be installed"

missing=
PATH="$PATH:/usr/local/sbin:/usr/sbin:/sbin" # sbin is not in every user's PATH
while read -r command package; do
	case $command in '#'*) continue ;; esac
	command -v "$command" >/dev/null 2>&1 || missing="$missing $package"
done <"$here/SYSTEM-PACKAGES"
[ -z "$missing" ] ||
	say "this machine lacks tools that the suites use; as a controller it needs only openssh-client. Debian packages:$missing"

say "$("$folder/bin/kvgate" --version) is in $folder/bin"
say "next: $folder/bin/kvgate init site-a && cd site-a && $folder/bin/kvgate draft && $folder/bin/kvgate check"
