#!/bin/bash
# What a lab guest does once after each boot: the target exports its drive again, so that a reset of
# the target is a fault that mends itself.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
exec >/run/serve.log 2>&1
outcome="done"
case $(</proc/sys/kernel/hostname) in
tgt) /lab/nvmet.sh up both || outcome=failed ;;
esac
read -r up _ </proc/uptime
echo "lab-serve $outcome ${up}s" >/dev/console
