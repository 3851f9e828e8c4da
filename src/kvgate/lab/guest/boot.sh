#!/bin/bash
# Sysinit of a lab guest (busybox init is process 1). The kernel's command line tells who it is:
# lab.name=ini lab.id=2 means data networks A 10.77.1.2 and B 10.77.2.2, inside the lab only.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
ln -snf /proc/self/fd /dev/fd
for each in 0:stdin 1:stdout 2:stderr; do ln -snf "/proc/self/fd/${each%%:*}" "/dev/${each##*:}"; done
mkdir -p /dev/pts /dev/shm
mount -t devpts -o mode=620,ptmxmode=666 devpts /dev/pts
mount -t tmpfs shm /dev/shm
mount -t tmpfs -o mode=755 run /run
mkdir -p /run/sshd /run/lock /run/udev /var/tmp/kvgate  # the last: scratch of the inventory
mount -t tmpfs tmp /tmp
mount -t debugfs d /sys/kernel/debug 2>/dev/null

name=lab id=9
read -r -a words </proc/cmdline
for word in "${words[@]}"; do
    case $word in
    lab.name=*) name=${word#*=} ;;
    lab.id=*) id=${word#*=} ;;
    esac
done
hostname "$name"
cat >/etc/hosts <<HOSTS
127.0.0.1 localhost $name
10.77.1.1 tgt-a
10.77.2.1 tgt-b
10.77.1.2 ini-a
10.77.2.2 ini-b
HOSTS
uuid=$(printf '00000000-0000-4000-8000-%012d' "$id")
mkdir -p /etc/nvme
echo "$uuid" >/etc/nvme/hostid
echo "nqn.2014-08.org.nvmexpress:uuid:$uuid" >/etc/nvme/hostnqn
printf '%032d\n' "$id" >/etc/machine-id

/usr/lib/systemd/systemd-udevd --daemon
udevadm trigger --action=add --subsystem-match=net --subsystem-match=nvme --subsystem-match=block \
    --subsystem-match=pci --subsystem-match=virtio
udevadm settle -t 120 # an emulated CPU on a busy machine takes its time

# A network port is told by its MAC address, 52:54:00:77:NETWORK:ID: 00 management, 0a A, 0b B.
port() { # its name now, its name to be, its address, its MTU
    ip link set "$1" down
    ip link set "$1" name "$2" mtu "$4"
    ip addr add "$3" dev "$2"
    ip link set "$2" up
}
ports() { cat /sys/class/net/*/address | grep -c '^52:54:00:77:'; }
for ((tries = 0; tries < 300 && $(ports) < 3; tries++)); do sleep 0.2; done
ip link set lo up
for path in /sys/class/net/*; do
    case $(<"$path/address") in
    52:54:00:77:00:*) port "${path##*/}" mgmt 10.0.2.15/24 1500 ;;
    52:54:00:77:0a:*) port "${path##*/}" dataA "10.77.1.$id/24" 4200 ;;
    52:54:00:77:0b:*) port "${path##*/}" dataB "10.77.2.$id/24" 4200 ;;
    esac
done
sysctl -qw net.ipv4.conf.all.arp_ignore=1 net.ipv4.conf.all.arp_announce=2 kernel.printk="4 4 1 7"
read -r up _ </proc/uptime
echo "lab-boot done ${up}s" >/dev/console
