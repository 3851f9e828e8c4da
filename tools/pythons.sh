#!/bin/sh
# Makes an environment of another Python >= 3.11 of this machine, with what judging needs, in
# .make/pythons/: a test judges with it and compares bytes. What can't be had is said, not an error.
set -eu
cd "$(dirname "$0")/.."

say() { printf 'pythons: %s\n' "$*" >&2; }
mine=$(.venv/bin/python -c 'import sys; print("%d.%d" % sys.version_info[:2])')
needs=$(.venv/bin/python -c '
import tomllib
wanted = tomllib.load(open("pyproject.toml", "rb"))["project"]["dependencies"]
print(" ".join(w for w in wanted if w.lower().startswith(("pydantic", "pyyaml"))))')

mkdir -p .make/pythons
for python in python3.14 python3.13 python3.12 python3.11 "${PYENV_ROOT:-$HOME/.pyenv}"/versions/*/bin/python; do
	version=$("$python" -c '
import sys
if sys.version_info >= (3, 11): print("%d.%d" % sys.version_info[:2])' 2>/dev/null) || continue
	home=.make/pythons/$version
	if [ -z "$version" ] || [ "$version" = "$mine" ]; then continue; fi
	if [ -x "$home/bin/python" ]; then break; fi
	# shellcheck disable=SC2086
	if "$python" -m venv "$home" >/dev/null 2>&1 &&
		"$home/bin/python" -m pip install -q --disable-pip-version-check --retries 1 --timeout 20 $needs \
			>/dev/null 2>&1; then
		say "Python $version judges too"
		break
	else
		rm -rf "$home"
		say "Python $version is here, but $needs could not be installed for it: it judges nothing"
	fi
done
: >.make/pythons/ready
