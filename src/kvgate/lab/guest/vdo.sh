#!/bin/bash
# dm-vdo, real deduplication and compression, through LVM on a drive of this guest.
#   vdo.sh up [DEVICE] | stats | down [DEVICE]     the volume is /dev/vgv/v
set -euo pipefail
D=${2:-$(/lab/nvmet.sh device LAB-TGT-VDO)}
case ${1:-} in
up)
    modprobe dm-vdo
    if [[ -e /dev/vgv/v ]]; then exit; fi
    if vgs vgv >/dev/null 2>&1; then
        vgchange -qq -ay vgv
    else
        pvcreate -qq -ff -y "$D"
        vgcreate -qq vgv "$D"
        lvcreate -qq -y --type vdo -n v -l 100%FREE -V 20G vgv
    fi
    udevadm settle -t 20
    ;;
stats)
    lvs --reportformat json \
        -o lv_name,vdo_used_size,vdo_saving_percent,vdo_compression,vdo_deduplication,vdo_index_state vgv
    dmsetup status
    ;;
down)
    vgremove -qq -ff -y vgv
    pvremove -qq -ff -y "$D"
    ;;
*)
    sed -n 2,3p "$0"
    exit 2
    ;;
esac
