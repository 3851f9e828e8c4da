#!/bin/bash
# Stage 2 of the lab's image: modules, keys and guest files put into the tree of stage 1, then made
# into kernel, initrd and an ext4 file system. Runs as root or under fakeroot; changes only OUT.
#   stage2.sh STAGE1 GUEST KEYS OUT
set -euo pipefail
STAGE1=$1 GUEST=$2 KEYS=$3 OUT=$4
W=$(mktemp -d "$OUT/work.XXXXXX")
trap 'rm -rf "$W"' EXIT
R=$W/root
mkdir -p "$R" "$W/kernel"
tar -C "$W/kernel" -xf "$STAGE1/kernel.tar"
tar -C "$R" --exclude=./dev --exclude=./proc --exclude=./sys -xf "$STAGE1/root.tar"
mkdir -p "$R/dev" "$R/proc" "$R/sys" "$R/run" "$R/tmp"

# Modules: without what a guest never has, and uncompressed, as xz is slow where a CPU is emulated.
from=$W/kernel/usr/lib/modules
[[ -d $from ]] || from=$W/kernel/lib/modules
version=$(ls "$from")
tree=$from/$version
(
    cd "$tree/kernel"
    rm -rf sound arch/x86/kvm
    for each in gpu media usb hid input iio staging bluetooth mmc platform thunderbolt hwmon video accel isdn \
        comedi tty w1 power leds rtc mfd i2c spi mtd misc ata firewire nfc soundwire watchdog extcon edac acpi \
        char parport pcmcia pinctrl gpio; do rm -rf "drivers/$each"; done
    for each in bluetooth wireless mac80211 nfc can sctp tipc rxrpc ceph batman-adv netfilter dccp atm appletalk \
        ipv4/netfilter ipv6/netfilter bridge/netfilter openvswitch sunrpc 9p mptcp smc; do rm -rf "net/$each"; done
    for each in ocfs2 gfs2 nfs nfsd smb ceph afs ubifs jffs2 reiserfs jfs f2fs ntfs3 udf ufs hfs hfsplus nilfs2 \
        orangefs coda bcachefs dlm lockd nls 9p; do rm -rf "fs/$each"; done
)
find "$tree/kernel/drivers/net" -mindepth 1 -maxdepth 1 ! -name 'virtio*' ! -name 'net_failover*' \
    ! -name 'dummy*' ! -name 'veth*' ! -name 'bonding' ! -name 'macvlan*' ! -name 'vxlan' ! -name 'ifb*' \
    -exec rm -rf {} +
rm -rf "$tree"/kernel/drivers/infiniband/hw/*
find "$tree/kernel/drivers/scsi" -name '*.ko*' ! -name 'scsi_debug*' ! -name 'scsi_mod*' ! -name 'sd_mod*' \
    ! -name 'sg.*' ! -name 'scsi_common*' ! -name 'virtio_scsi*' ! -name 'scsi_dh_alua*' -delete
find "$tree" -name '*.ko.xz' -print0 | xargs -0 -r -P2 -n64 unxz -q
mkdir -p "$R/usr/lib/modules"
mv "$tree" "$R/usr/lib/modules/"
rm -f "$R/usr/lib/modules/$version"/{build,source}
depmod -b "$R/usr" "$version" 2>/dev/null || depmod -b "$R" "$version"
mkdir -p "$R/boot"
cp "$W/kernel/boot/config-$version" "$R/boot/" # tools ask it what the kernel can
echo "modules of kernel $version: $(du -sm "$R/usr/lib/modules" | cut -f1) MB"

# The guest's own set-up
install -m755 "$GUEST"/*.sh -Dt "$R/lab/"
ln -sf /usr/bin/busybox "$R/sbin/init"
install -m644 "$GUEST/inittab" "$R/etc/inittab"
sed -i '/^root:/d' "$R/etc/shadow"
printf 'root:*:19000:0:99999:7:::\n' >>"$R/etc/shadow"
mkdir -p "$R/root/.ssh" "$R/etc/nvme" "$R/etc/ssh/sshd_config.d"
chmod 700 "$R/root/.ssh"
install -m600 "$KEYS/id_lab.pub" "$R/root/.ssh/authorized_keys"
rm -f "$R"/etc/ssh/ssh_host_*
install -m600 "$KEYS/host_key" "$R/etc/ssh/ssh_host_ed25519_key"
install -m644 "$KEYS/host_key.pub" "$R/etc/ssh/ssh_host_ed25519_key.pub"
cat >"$R/etc/ssh/sshd_config.d/lab.conf" <<CONF
HostKey /etc/ssh/ssh_host_ed25519_key
PermitRootLogin prohibit-password
PasswordAuthentication no
UsePAM no
UseDNS no
PrintMotd no
PrintLastLog no
MaxSessions 64
MaxStartups 64
SetEnv PATH=/usr/sbin:/usr/bin:/sbin:/bin
CONF
rm -f "$R/etc/nvme/hostnqn" "$R/etc/nvme/hostid" "$R/etc/resolv.conf"
: >"$R/etc/fstab"
rm -rf "$R"/var/lib/apt/lists/* "$R"/var/cache/{apt,debconf}/* "$R"/usr/share/{doc,man,locale,i18n,zoneinfo} \
    "$R"/var/log/*
dpkg-query "--admindir=$R/var/lib/dpkg" -W >"$OUT/manifest.txt"
cat "$STAGE1/kernel.name" >>"$OUT/manifest.txt"

# A small initrd, uncompressed: busybox, and the modules that find and mount the root.
I=$W/initrd
mkdir -p "$I"/{bin,proc,sys,dev,newroot,mod}
cp "$R/usr/bin/busybox" "$I/bin/busybox"
modules() { modprobe -d "$1" -S "$version" --show-depends virtio_blk && modprobe -d "$1" -S "$version" --show-depends ext4; }
{ modules "$R/usr" 2>/dev/null || modules "$R"; } | awk '$1 == "insmod" && !seen[$2]++ {print $2}' |
    while read -r file; do
        cp "$file" "$I/mod/"
        basename "$file"
    done >"$I/mod/order"
install -m755 "$GUEST/initrd.sh" "$I/init"
(cd "$I" && find . -print0 | cpio -0 -o -H newc --quiet) >"$OUT/initrd"

# The kernel unpacks itself slowly where a CPU is emulated: the bare ELF, which QEMU boots by PVH.
# Where the payload is and how long it is stands in the header (Linux, Documentation/arch/x86/boot.rst).
image=$W/kernel/boot/vmlinuz-$version
number() { od -An -j "$1" -N "$2" -t "u$2" "$image" | tr -d ' '; }
sectors=$(number 497 1)
[[ $sectors -gt 0 ]] || sectors=4
start=$(((sectors + 1) * 512 + $(number 584 4)))
length=$(($(number 588 4) - 4))
tail -c "+$((start + 1))" "$image" | head -c "$length" >"$W/payload.zst" || true
zstd -dqf "$W/payload.zst" -o "$OUT/vmlinux"
cp "$image" "$OUT/vmlinuz"

rm -f "$OUT/root.img"
truncate -s 2G "$OUT/root.img"
mke2fs -q -t ext4 -L labroot -d "$R" -O ^has_journal,^metadata_csum,^64bit \
    -E lazy_itable_init=1,root_owner=0:0 -m 0 "$OUT/root.img"
echo "image: $(du -sm "$OUT/root.img" | cut -f1) MB"
