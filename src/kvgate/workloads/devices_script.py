"""What is run on a host about a block device: look at it, or look once more and then start a tool.

POSIX sh, with Python or Perl for the one thing that no shell can do: opening exclusively. Both
the look and the last look before a write print the same facts (`devices_facts` reads them), so
that "nothing has changed since" is an equality of texts. Nothing is left on the host.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Literal

from kvgate.spec.inventory import Host

FD_PATH = "/proc/self/fd/9"
"""The device as a guarded tool has it: open and claimed already, whatever its name means now."""

REFUSED = 97
"""How a guard ends that did not start its tool."""

SAYS = "kvgate-guard: not started: "
"""How a guard's line on stderr begins that says why."""

Mode = Literal["peek", "look", "read", "write"]
"""peek: claims nothing; look: with an exclusive claim for as long as it takes; read: starts a tool
that reads; write: starts a tool that writes, claimed until that one ends."""

TOOLS = {
    "blkid": "util-linux",
    "wipefs": "util-linux",
    "lsblk": "util-linux",
    "stat": "coreutils",
    "od": "coreutils",
    "readlink": "coreutils",
    "awk": "mawk or gawk",
    "find": "findutils",
}
"""Tool → the package that has it. Python or Perl is needed too."""


@dataclasses.dataclass(frozen=True, slots=True)
class Places:
    """Where the kernel tells about devices; tests give others, as loop devices have no serial."""

    sys: str = "/sys"
    proc: str = "/proc"
    dev: str = "/dev"


# Opens $1 as descriptor 9: exclusively (no other holder in the kernel: mount, swap, md, dm, ZFS)
# and locked (udev and other kvgates leave a device alone that is locked so), then runs the rest
# with what came of both. `lock` is asked for again for 2 s: udev holds it while it looks.
_OPEN_PY = """\
import errno, fcntl, os, sys, time
node, mode, rest = sys.argv[1], sys.argv[2], sys.argv[3:]
how = (os.O_RDWR if mode == "write" else os.O_RDONLY) | os.O_NOFOLLOW | os.O_NONBLOCK
name = lambda err: errno.errorcode.get(err.errno, str(err.errno))
claim, lock = "none", "none"
try:
    if mode in ("peek", "read"):
        fd = os.open(node, how)
    else:
        try:
            fd, claim = os.open(node, how | os.O_EXCL), "yes"
        except OSError as err:
            claim = name(err)
            fd = os.open(node, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
except OSError as err:
    claim, fd = name(err), os.open("/dev/null", os.O_RDONLY)
if claim == "yes":
    for _ in range(100):  # udev looks too, a while after each write
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            lock = "yes"
            break
        except OSError as err:
            lock = name(err)
            time.sleep(0.1)
if fd == 9:
    os.set_inheritable(9, True)
else:
    os.dup2(fd, 9)
    os.close(fd)
os.execv("/bin/sh", ["/bin/sh", "-c", rest[0], "kvgate-device", claim, lock, node, mode, *rest[1:]])
"""
_OPEN_PERL = """\
use strict; use Fcntl qw(:DEFAULT :flock); use POSIX ();
my ($node, $mode, @rest) = @ARGV;
my ($claim, $lock, $fh) = ("none", "none");
my %name = (16, "EBUSY", 2, "ENOENT", 13, "EACCES", 30, "EROFS", 11, "EAGAIN", 123, "ENOMEDIUM");
sub name { my $n = $!+0; return $name{$n} || $n }
my $how = ($mode eq "write" ? O_RDWR : O_RDONLY) | O_NOFOLLOW | O_NONBLOCK;
my $open = 0;
if ($mode eq "peek" || $mode eq "read") {
  $open = sysopen($fh, $node, $how); $claim = name() unless $open;
} elsif (sysopen($fh, $node, $how | O_EXCL)) { $open = 1; $claim = "yes" }
else { $claim = name(); $open = sysopen($fh, $node, O_RDONLY | O_NOFOLLOW | O_NONBLOCK) }
sysopen($fh, "/dev/null", O_RDONLY) unless $open;
if ($claim eq "yes") {
  for (1 .. 100) {
    if (flock($fh, LOCK_EX | LOCK_NB)) { $lock = "yes"; last }
    $lock = name(); select(undef, undef, undef, 0.1);
  }
}
POSIX::dup2(fileno($fh), 9); POSIX::close(fileno($fh)) if fileno($fh) != 9;
my $after = shift(@rest);
exec { "/bin/sh" } "/bin/sh", "-c", $after, "kvgate-device", $claim, $lock, $node, $mode, @rest;
"""

_MAGICS = (
    ("LVM", 0, b"LABELONE"),
    ("LVM", 512, b"LABELONE"),
    ("LVM", 1024, b"LABELONE"),
    ("LVM", 1536, b"LABELONE"),
    ("GPT", 512, b"EFI PART"),
    ("GPT", 4096, b"EFI PART"),
    ("md", 0, b"\xfc\x4e\x2b\xa9"),
    ("md", 4096, b"\xfc\x4e\x2b\xa9"),
    ("LUKS", 0, b"LUKS\xba\xbe"),
    ("XFS", 0, b"XFSB"),
    ("swap", 4086, b"SWAPSPACE2"),
    ("bcache", 4120, b"\xc6\x85\x73\xf6\x4e\x1a\x45\xca"),
    ("ceph-bluestore", 0, b"bluestore block device"),
    ("SPDK-blobstore", 0, b"SPDKBLOB"),
)
"""Where the first 8 KiB say whose a device is: damaged ones that blkid passes over, too."""


def _magics() -> str:
    return " ".join(f"{name} {offset} {magic.hex()}" for name, offset, magic in _MAGICS)


# Prints the facts of descriptor 9. What can't be read is not said: whoever reads the facts takes
# silence for a refusal. Names of the host are only printed, as hex where they are content.
_FACTS = (
    f"magics='{_magics()}'"
    + r"""
line() { printf '%s\n' "$1"; }
hex() { od -An -v -tx1 -N512 <"$1" 2>/dev/null | tr -d ' \n'; }
number_of() {
  told=$(stat -L -c '%F/%t/%T' -- "$1" 2>/dev/null) || return 1
  case $told in 'block special file/'*) ;; *) return 1 ;; esac
  told=${told#*/}
  printf '%d:%d' "0x${told%%/*}" "0x${told##*/}"
}
ours() { case " $numbers " in *" $1 "*) return 0 ;; esac; return 1; }
same() { case $1 in /*) n=$(number_of "$1") && ours "$n" ;; *) return 1 ;; esac; }
listed() {  # $1: folder of sysfs, $2: word
  [ -d "$1" ] && found=$(ls -A "$1") || return 1
  printf '%s\n' "$found" | while IFS= read -r each; do [ -z "$each" ] || line "$2 $each"; done
  line "read $2"
}
looking() {  # $1: process; it ended, or it is a look like this one, or one started it
  above=$1
  while [ "$above" != "$$" ]; do
    grep -aq kvgate-device "$proc/$above/cmdline" 2>/dev/null && return 0
    above=$(awk '$1 == "PPid:" { print $2 }' "$proc/$above/status" 2>/dev/null)
    case $above in '') return 0 ;; 0) return 1 ;; esac
  done
}
told_by() {  # $1: tool, $2: what it said; without other tools, so that none can lose it
  printf '%s\n' "$2" | while IFS= read -r each; do
    case $each in '' | '#'*) ;; *) line "$1 $each" ;; esac
  done
}
facts() {
  line "kvgate-device-facts 1"
  line "claim $claim"; line "lock $lock"
  number=$(number_of /proc/self/fd/9) || { line "no-device"; return; }
  line "number $number"
  line "node $(number_of "$node")"
  dir=$(readlink -f "$sys/dev/block/$number") && [ -d "$dir" ] || { line "no-sysfs"; return; }
  line "name ${dir##*/}"
  for attr in dev size ro hidden partition serial wwid device/serial device/wwid \
    device/vpd_pg80 device/model; do
    [ -e "$dir/$attr" ] && line "attr $attr $(hex "$dir/$attr")"
  done
  numbers=$number
  for part in "$dir"/*/partition; do
    [ -e "$part" ] || continue
    part=${part%/partition}; line "part ${part##*/}"
    numbers="$numbers $(cat "$part/dev")"
  done
  listed "$dir/holders" holder; listed "$dir/slaves" slave
  if { IFS= read -r each <"$proc/1/mountinfo"; } 2>/dev/null; then
    cat "$proc"/[0-9]*/mountinfo 2>/dev/null |
      awk -v numbers="$numbers" -v node="$node" '
        BEGIN { n = split(numbers, all, " "); for (i = 1; i <= n; i++) mine[all[i]] = 1 }
        { source = $0; sub(/^.* - [^ ]+ /, "", source); sub(/ .*/, "", source)
          rest = substr(source, length(node) + 1)
          if (($3 in mine) || (index(source, node) == 1 && rest ~ /^p?[0-9]*$/)) print "mount " $5 }
        END { if (NR) print "read mount" }
      ' | sort -u
  fi
  if [ -r "$proc/swaps" ]; then
    awk 'NR > 1 { print $1 } END { if (NR) print "all" }' "$proc/swaps" |
      while IFS= read -r each; do
        if [ "$each" = all ]; then line "read swap"
        elif same "$each"; then line "swap $each"; fi
      done
  fi
  if [ -d "$sys/block" ]; then
    for each in "$sys"/block/loop*/loop/backing_file; do
      [ -e "$each" ] || continue
      IFS= read -r back <"$each" && same "$back" || continue
      each=${each%/loop/*}; line "loop ${each##*/}"
    done
    line "read loop"
  fi
  for each in "$sys"/kernel/config/nvmet/subsystems/*/namespaces/*/device_path \
    "$sys"/kernel/config/target/core/*/*/udev_path; do
    [ -e "$each" ] && IFS= read -r back <"$each" && same "$back" && line "export ${each#"$sys"/}"
  done
  opened=$(find "$proc"/[0-9]*/fd -lname '/*' -xtype b 2>/dev/null)  # whatever it calls the device
  case "
$opened
" in *"
$proc/$$/fd/9
"*) line "read opener" ;; esac
  printf '%s\n' "$opened" | while IFS= read -r each; do
    [ -n "$each" ] && same "$each" || continue
    pid=${each#"$proc"/}; pid=${pid%%/*}
    case $each in */fd/9) looking "$pid" && continue ;; esac
    line "opener $pid $(cat "$proc/$pid/comm" 2>/dev/null)"
  done
  said=$("$blkid" -p /proc/self/fd/9 2>&1); status=$?
  line "blkid-exit $status"
  told_by blkid "$said"
  said=$("$wipefs" -n -p /proc/self/fd/9 2>&1); status=$?
  line "wipefs-exit $status"
  told_by wipefs "$said"
  od -An -v -tx1 -N8192 /proc/self/fd/9 2>/dev/null | tr -d ' \n' |
    awk -v magics="$magics" '{
      n = split(magics, each, " ")
      for (i = 1; i + 2 <= n; i += 3)
        if (substr($0, 2 * each[i + 1] + 1, length(each[i + 2])) == each[i + 2])
          print "magic " each[i]
      if (length($0) == 16384) print "read magic"
    }'
  echo end
}
"""
)

# Stands before the opener: which tools there are. $1 and $2: the two openers, $3: what runs after
# them, $4 and $5: Python and Perl, $6 and $7: blkid and wipefs, then the opener's own arguments.
_BEFORE_OPEN = r"""
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin LC_ALL=C; export PATH LC_ALL
by_python=$1 by_perl=$2 after=$3 python=$4 perl=$5 missing=''
for tool in stat od readlink awk find grep tr sort "$6" "$7"; do
  command -v "$tool" >/dev/null || { echo "missing $tool"; missing=yes; }
done
shift 7
node=$1 mode=$2
shift 2
set -- "$node" "$mode" "$after" "$@"
if command -v "$python" >/dev/null; then set -- "$python" -I -S -c "$by_python" "$@"
elif command -v "$perl" >/dev/null; then set -- "$perl" -e "$by_perl" "$@"
else echo "missing $python"; missing=yes; fi
[ -z "$missing" ] || { echo "SAYSa tool is missing" >&2; exit REFUSED; }
exec "$@"
"""

# $1 claim, $2 lock, $3 node, $4 mode, $5 sys, $6 proc, $7 blkid, $8 wipefs, $9 the facts that the
# device was cleared by (or nothing), then a process whose end ends the tool (or nothing: the tool
# is on a leash of its own), then the tool.
_AFTER_OPEN = (
    r"""
claim=$1 lock=$2 node=$3 mode=$4 sys=$5 proc=$6 blkid=$7 wipefs=$8 cleared=$9
shift 9
"""
    + _FACTS
    + r"""
now=$(facts)
case $mode in peek | look) printf '%s\n' "$now"; exit 0 ;; esac
leash=$1
shift
known() { printf '%s\n' "$1" | grep -E '^(number|node|name|attr) '; }
differ() {
  printf '%s\n' "$1" | while IFS= read -r each; do
    case "
$2
" in *"
$each
"*) ;; *) echo "SAYSit $3 '$each'" >&2 ;; esac
  done
}
[ "$mode" = write ] || { now=$(known "$now"); cleared=$(known "$cleared"); }
if [ -z "$cleared" ] || [ "$now" != "$cleared" ]; then
  differ "$cleared" "$now" was; differ "$now" "$cleared" is
  echo "SAYSit is not as it was looked at" >&2
  exit REFUSED
fi
[ -n "$leash" ] || exec "$@"
born() { cut -d' ' -f22 "/proc/$leash/stat" 2>/dev/null; }
since=$(born)
"$@" &
child=$!
trap 'kill -TERM "$child"' TERM INT HUP
{ trap '' TERM INT HUP; exec 9>&-
  while [ -n "$since" ] && [ "$(born)" = "$since" ]; do sleep 1; done
  kill -TERM "$child"; sleep 5; kill -KILL "$child"; } >/dev/null 2>&1 &
watcher=$!
wait "$child"
status=$?
while [ "$status" -gt 128 ] && kill -0 "$child" 2>/dev/null; do wait "$child"; status=$?; done
kill -KILL "$watcher"
exit "$status"
"""
)

# sudo's children can't be ended by a login that is not root: what is started as root watches the
# shell ($$) that started it, which is on the leash.
_WATCHED = r"""
n=$1; shift
i=0
for word in "$@"; do
  i=$((i + 1))
  [ "$i" -ne 1 ] || set --
  [ "$i" -ne "$n" ] || word=$$
  set -- "$@" "$word"
done
sudo -n "$@" &
wait "$!"
"""


def _filled(text: str) -> str:
    return text.replace("SAYS", SAYS).replace("REFUSED", str(REFUSED))


def argv(
    host: Host,
    node: str,
    mode: Mode,
    *,
    places: Places,
    cleared: str = "",
    tool: Sequence[str] = (),
) -> list[str]:
    """Return the command that looks at `node`, or guards `tool`: run only if all is as `cleared`.

    As root by ``sudo -n`` where the inventory allows that.
    """
    tools = {name: host.tools.get(name, name) for name in ("python3", "perl", "blkid", "wipefs")}
    head = ["/bin/sh", "-c", _filled(_BEFORE_OPEN), "kvgate-device", _OPEN_PY, _OPEN_PERL]
    asked = [tools["blkid"], tools["wipefs"]]
    words = [*head, _filled(_AFTER_OPEN), tools["python3"], tools["perl"], *asked]
    words += [node, mode, places.sys, places.proc, *asked, cleared]
    if not tool:
        return words if host.sudo == "never" else ["sudo", "-n", *words]
    first, *rest = tool
    named = [host.tools.get(first, first), *rest]
    if host.sudo == "never":
        return [*words, "", *named]
    whole = [*words, "leash", *named]
    return ["/bin/sh", "-c", _WATCHED, "kvgate-device", str(len(words) + 1), *whole]


LIST = (
    'cd "$1/block" && { grep -asH "" */size */hidden */removable */serial */wwid '
    "*/device/serial */device/wwid */device/model */device/modalias */device/vpd_pg80; "
    "test $? -le 2; }"
)
"""Lists what sysfs ($1) tells of all block devices, as `parse.block.from_sysfs` reads it."""

LSBLK = ("lsblk", "-J", "-b", "-d", "-o", "NAME,TYPE,SIZE,SERIAL,WWN,MODEL")
