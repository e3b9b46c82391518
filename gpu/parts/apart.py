#!/usr/bin/env python3
"""Starts ranks that share one GPU, each as if on a machine of its own: `apart.py N COMMAND...`.

NCCL refuses two ranks on one GPU of one host. So each gets a host id, and nothing but sockets may
connect them; they meet in the file that MEETING names. Ends with the largest exit code of a rank.
"""
import os
import subprocess
import sys
import tempfile

APART = {"NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1", "NCCL_NET": "Socket", "NCCL_NET_PLUGIN": "none",
         "NCCL_SOCKET_IFNAME": "lo", "NCCL_IB_DISABLE": "1", "NCCL_MNNVL_ENABLE": "0", "NCCL_NVLS_ENABLE": "0"}


def environment_of(rank, n_ranks, meeting):
    return {**os.environ, **APART, "NCCL_HOSTID": f"rank-{rank}", "RANK": str(rank), "LOCAL_RANK": "0",
            "WORLD_SIZE": str(n_ranks), "MEETING": meeting}


def main():
    n_ranks, words = int(sys.argv[1]), sys.argv[2:]
    with tempfile.TemporaryDirectory() as folder:
        ranks = [subprocess.Popen(words, env=environment_of(rank, n_ranks, f"{folder}/meeting"))
                 for rank in range(n_ranks)]
        return max(abs(rank.wait()) for rank in ranks)


if __name__ == "__main__":
    sys.exit(main())
