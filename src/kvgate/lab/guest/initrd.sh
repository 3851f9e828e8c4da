#!/bin/busybox sh
# shellcheck shell=dash
# First process of a lab guest: loads the few modules that find the root disk, and goes over to it.
B=/bin/busybox
$B mount -t proc p /proc
$B mount -t sysfs s /sys
$B mount -t devtmpfs d /dev
while read -r module; do $B insmod "/mod/$module"; done </mod/order
tries=0
while [ ! -b /dev/vda ] && [ "$tries" -lt 100 ]; do
    $B sleep 0.05
    tries=$((tries + 1))
done
$B mount -t ext4 -o noatime /dev/vda /newroot || exec $B sh
for each in proc sys dev; do $B mount --move "/$each" "/newroot/$each"; done
exec $B switch_root /newroot /sbin/init
