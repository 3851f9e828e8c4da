#!/bin/bash
# The NVMe-oF target, by configfs.
#   nvmet.sh up [tcp|rdma|both]     export the data drive (namespace 1)
#   nvmet.sh add NSID DEVICE        export DEVICE as one more namespace; remove NSID
#   nvmet.sh ana PORT STATE         optimized non-optimized inaccessible persistent-loss change
#   nvmet.sh port PORT on|off       link the subsystem to the port, or unlink it
#   nvmet.sh down | show
# Ports: 1 = tcp A, 2 = tcp B, 11 = rdma A, 12 = rdma B; each has its own state of ANA group 1.
set -euo pipefail
C=/sys/kernel/config/nvmet
NQN=${NQN:-nqn.2026-11.lab:array1}
S=$C/subsystems/$NQN

device_of() { # the namespace of the drive with this serial number: names change, serials don't
    local each node
    # A namespace is named after its subsystem, which a drive that was put back may share no number with.
    for each in /sys/class/nvme/nvme* /sys/class/nvme-subsystem/nvme-subsys*; do
        [[ -e $each/serial && $(tr -d ' ' <"$each/serial") == "$1" ]] || continue
        for node in "$each"/nvme*n1; do
            if [[ -e $node && ${node##*/} != *c* ]]; then
                echo "/dev/${node##*/}"
                return
            fi
        done
    done
    echo "nvmet.sh: no drive has serial number $1" >&2
    return 1
}
address_of() { ip -4 -o addr show dev "$1" | awk '{sub("/.*", "", $4); print $4}'; }
rxe() {
    local each
    modprobe rdma_rxe
    for each in A B; do
        rdma link show "rxe$each/1" >/dev/null 2>&1 || rdma link add "rxe$each" type rxe netdev "data$each"
    done
}
namespace() { # its number, its device
    local n=$S/namespaces/$1
    [[ -d $n ]] && return
    mkdir "$n"
    echo "$2" >"$n/device_path"
    printf '11111111-2222-4333-8444-%012d\n' "$1" >"$n/device_uuid"
    printf '11111111-2222-4333-8444-%012d\n' "$1" >"$n/device_nguid"
    echo 1 >"$n/enable"
}
port() { # its number, transport, network
    local p=$C/ports/$1
    mkdir -p "$p"
    [[ -e $p/subsystems/$NQN ]] && return
    echo ipv4 >"$p/addr_adrfam"
    echo "$2" >"$p/addr_trtype"
    address_of "data$3" >"$p/addr_traddr"
    echo 4420 >"$p/addr_trsvcid"
    echo optimized >"$p/ana_groups/1/ana_state"
    ln -s "$S" "$p/subsystems/$NQN"
}
up() {
    mountpoint -q /sys/kernel/config || mount -t configfs c /sys/kernel/config
    modprobe nvmet
    if [[ ! -d $S ]]; then
        mkdir "$S"
        echo 1 >"$S/attr_allow_any_host"
        echo LAB0000000000001 >"$S/attr_serial"
        echo "Lab Array" >"$S/attr_model"
    fi
    namespace 1 "${DEVICE:-$(device_of LAB-TGT-DATA)}"
    if [[ $1 != rdma ]]; then
        modprobe nvmet-tcp
        port 1 tcp A
        port 2 tcp B
    fi
    if [[ $1 != tcp ]]; then
        rxe
        modprobe nvmet-rdma
        port 11 rdma A
        port 12 rdma B
    fi
}
remove() {
    echo 0 >"$S/namespaces/$1/enable"
    rmdir "$S/namespaces/$1"
}
down() {
    local each
    for each in "$C"/ports/*; do
        [[ -d $each ]] || continue
        rm -f "$each"/subsystems/*
        rmdir "$each"
    done
    [[ -d $S ]] || return 0
    for each in "$S"/namespaces/*; do
        if [[ -d $each ]]; then remove "${each##*/}"; fi
    done
    rmdir "$S"
}
show() {
    local each
    for each in "$C"/ports/*; do
        [[ -d $each ]] || continue
        echo "port ${each##*/} $(<"$each/addr_trtype") $(<"$each/addr_traddr")" \
            "ana=$(<"$each/ana_groups/1/ana_state") subsystems=$(find "$each/subsystems" -type l -printf '%f ')"
    done
    for each in "$S"/namespaces/*; do
        [[ -d $each ]] && echo "namespace ${each##*/} $(<"$each/device_path") enabled=$(<"$each/enable")"
    done
}
case ${1:-} in
up) up "${2:-both}" ;;
add) namespace "$2" "$3" ;;
remove) remove "$2" ;;
down) down ;;
ana) echo "$3" >"$C/ports/$2/ana_groups/1/ana_state" ;;
port)
    case $3 in
    off) rm -f "$C/ports/$2/subsystems/$NQN" ;;
    on) [[ -e $C/ports/$2/subsystems/$NQN ]] || ln -s "$S" "$C/ports/$2/subsystems/$NQN" ;;
    esac
    ;;
rxe) rxe ;;
device) device_of "$2" ;;
show) show ;;
*)
    sed -n 2,8p "$0"
    exit 2
    ;;
esac
