#!/bin/sh
# Makes .venv and installs what kvgate needs: Python packages by pip, tools by apt where it may.
# Says exactly what to install where it may not. Run by make; safe to run again.
set -eu
cd "$(dirname "$0")/.."

say() { printf 'setup: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }

# Debian package for each command that the suites use; sbin is not in every user's PATH.
PATH="$PATH:/usr/local/sbin:/usr/sbin:/sbin"
packages=
for pair in fio:fio sshd:openssh-server ssh-keygen:openssh-client nvme:nvme-cli lspci:pciutils \
	smartctl:smartmontools ethtool:ethtool ip:iproute2 git:git; do
	command -v "${pair%%:*}" >/dev/null 2>&1 || packages="$packages ${pair#*:}"
done

# A Python of at least 3.11, with venv (Debian keeps it in a package of its own).
python=
for candidate in ${PYTHON:-} python3 python3.14 python3.13 python3.12 python3.11; do
	if command -v "$candidate" >/dev/null 2>&1 &&
		"$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
		python=$candidate
		break
	fi
done
[ -n "$python" ] || die "no Python >= 3.11 found (python3, python3.11 … python3.14); install one and call make again"
"$python" -c 'import ensurepip, venv' 2>/dev/null || {
	version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
	packages="$packages python3-venv"
	apt-cache show "python$version-venv" >/dev/null 2>&1 && packages="$packages python$version-venv"
}

if [ -n "$packages" ]; then
	as_root=
	if [ "$(id -u)" -ne 0 ]; then
		if command -v sudo >/dev/null 2>&1 && sudo -n true 2>/dev/null; then as_root="sudo -n"; else as_root=no; fi
	fi
	if [ "$as_root" = no ] || ! command -v apt-get >/dev/null 2>&1; then
		die "these are missing and I may not install them:$packages
setup:   as root on Debian or Ubuntu: apt-get install -y --no-install-recommends$packages
setup:   elsewhere: the packages that bring fio, sshd, ssh-keygen, nvme, lspci, smartctl, ethtool, ip
setup:   then call make again"
	fi
	say "installing by apt:$packages"
	log=$(mktemp)
	# A package must not start a service here: for the time of the installation, policy-rc.d says so.
	# shellcheck disable=SC2016,SC2086
	$as_root env DEBIAN_FRONTEND=noninteractive sh -c '
		set -e
		policy=/usr/sbin/policy-rc.d
		if [ ! -e "$policy" ]; then
			trap "rm -f $policy" EXIT
			printf "#!/bin/sh\nexit 101\n" >"$policy"
			chmod 755 "$policy"
		fi
		apt-get update -q
		apt-get install -y -q --no-install-recommends "$@"
	' install $packages >"$log" 2>&1 </dev/null || {
		tail -n 15 "$log" >&2
		rm -f "$log"
		die "apt could not install:$packages"
	}
	case "$packages" in
	*openssh-server*) say "openssh-server's own service was not started; kvgate starts a private sshd on loopback" ;;
	esac
	rm -f "$log"
fi

[ -x .venv/bin/python ] && .venv/bin/python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || {
	say "making .venv with $("$python" --version)"
	rm -rf .venv
	"$python" -m venv .venv
}
say "installing Python packages into .venv (a minute or two the first time)"
.venv/bin/python -m pip install -q --disable-pip-version-check -e '.[dev]' ||
	die "pip could not install the packages that pyproject.toml names (see above)"
: >.venv/ready
