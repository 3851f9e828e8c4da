#!/bin/bash
# The initiator: connect.sh tcp|rdma connects both paths, connect.sh off disconnects them.
# NQN, LOSS (ctrl_loss_tmo), DELAY (reconnect), KATO, FAST (fast_io_fail_tmo), QUEUES, HOSTNQN and
# HOSTID (a second initiator), POLICY, NETWORKS ("1 2") may be set in the environment.
# Never set a data port down by `ip link` while RDMA is connected: nvme-rdma over rxe then hangs until
# the guest is reset. Pull the virtual cable instead.
set -euo pipefail
NQN=${NQN:-nqn.2026-11.lab:array1}
if [[ ${1:-} == off ]]; then
    nvme disconnect -n "$NQN"
    exit
fi
modprobe "nvme-$1"
if [[ $1 == rdma ]]; then /lab/nvmet.sh rxe; fi
as=()
if [[ -n ${HOSTNQN:-} ]]; then as=(--hostnqn "$HOSTNQN" --hostid "$HOSTID"); fi
for n in ${NETWORKS:-1 2}; do
    nvme connect -t "$1" -a "10.77.$n.1" -s 4420 -n "$NQN" "${as[@]}" \
        --ctrl-loss-tmo="${LOSS:-600}" --reconnect-delay="${DELAY:-2}" --keep-alive-tmo="${KATO:-3}" \
        --fast_io_fail_tmo="${FAST:-8}" --nr-io-queues="${QUEUES:-2}"
done
for s in /sys/class/nvme-subsystem/*; do
    if [[ $(<"$s/subsysnqn") == "$NQN" ]]; then echo "${POLICY:-round-robin}" >"$s/iopolicy"; fi
done
udevadm settle -t 5
