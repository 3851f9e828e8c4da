# What nvme-cli 2.x does with a drive whose state is in $folder: "running" (kind and how often it
# will still be asked), "log" (its reports, newest first), "result" of the next test (0 if absent).
# "hang": a test never ends; "refuse": there are no self-tests; "forget": a test leaves no report;
# "slow" (a number): so often it does not yet show what was started; "garbage": it prints noise.
kind='' left=''
[ ! -s "$folder/running" ] || read -r kind left <"$folder/running"
result=0
[ ! -e "$folder/result" ] || read -r result <"$folder/result"

report() { # result kind
  kind=''
  : >"$folder/running"
  [ ! -e "$folder/forget" ] || return
  before=''
  [ ! -s "$folder/log" ] || before=", $(cat "$folder/log")"
  printf '{"Self test result": %s, "Self test code": %s, "Power on hours": 12}%s' \
    "$1" "$2" "$before" >"$folder/log.new"
  mv "$folder/log.new" "$folder/log"
}

case $1 in
device-self-test)
  echo "$2 $3 $4" >>"$folder/commands"
  [ ! -e "$folder/refuse" ] || {
    echo 'NVMe status: Invalid Command Opcode: A reserved coded value(0x4001)' >&2
    exit 1
  }
  case $4 in
  0xf) [ -z "$kind" ] || report 1 "$kind"; echo 'Aborting device self-test operation' ;;
  *)
    [ -z "$kind" ] || {
      echo 'NVMe status: Device Self-test In Progress(0x411d)' >&2
      exit 1
    }
    echo "$(($4)) ${polls:-3}" >"$folder/running"
    echo 'Short Device self-test started'
    ;;
  esac
  ;;
self-test-log)
  [ ! -e "$folder/garbage" ] || { head -c 300 /dev/urandom; exit 0; }
  slow=0
  [ ! -s "$folder/slow" ] || read -r slow <"$folder/slow"
  if [ -n "$kind" ] && [ "$slow" -gt 0 ]; then
    echo $((slow - 1)) >"$folder/slow"
    kind=''
  elif [ -n "$kind" ] && [ ! -e "$folder/hang" ]; then
    if [ "$left" -gt 0 ]; then
      echo "$kind $((left - 1))" >"$folder/running"
    else
      report "$result" "$kind"
    fi
  fi
  printf '{"Current Device Self-Test Operation": %s, "Current Device Self-Test Completion": 40,' \
    "${kind:-0}"
  printf '"List of Valid Reports": [%s]}\n' "$(cat "$folder/log")"
  ;;
esac
