#!/usr/bin/env python3
"""Two ranks of PyTorch, one all_reduce, nothing of Lockstep: `torch_probe.py nccl|gloo FOLDER`.

Says whether two processes can share one GPU through NCCL here at all. Each rank takes a host id of
its own (NCCL_HOSTID) before anything of NCCL is loaded. Writes FOLDER/answer.json, versions first. Exit
codes: 0 the sum is right, 1 it is not or a rank failed, 3 cannot be tried here, and why. Has no time
limit: the caller ends its process group. gpu/record.py starts it.
"""
import json
import os
import pathlib
import subprocess
import sys

from apart import APART

N_RANKS = 2


def obstacle(backend):
    """Why it cannot be tried here; empty when it can."""
    try:
        import torch
        import torch.distributed
    except ImportError as error:
        return f"{sys.executable} has no PyTorch ({error})"
    if not torch.distributed.is_available():
        return f"PyTorch {torch.__version__} was built without torch.distributed"
    if backend == "nccl" and not torch.cuda.is_available():
        return f"PyTorch {torch.__version__} finds no CUDA device"
    if not getattr(torch.distributed, f"is_{backend}_available", lambda: True)():
        return f"PyTorch {torch.__version__} was built without {backend}"
    return ""


def versions(backend):
    import torch
    nccl = ".".join(map(str, torch.cuda.nccl.version())) if backend == "nccl" else None
    return {"torch": torch.__version__, "cuda": torch.version.cuda, "nccl": nccl}


def play_rank(backend, folder, rank):
    os.environ["NCCL_HOSTID"] = f"torch-rank-{rank}"  # Read once, when the first communicator is made.
    import torch
    import torch.distributed as dist
    dist.init_process_group(backend, init_method=f"file://{folder}/meeting", rank=rank, world_size=N_RANKS)
    data = torch.full((4096,), rank + 1.0, device="cuda:0" if backend == "nccl" else "cpu")
    dist.all_reduce(data)
    right = bool((data == N_RANKS * (N_RANKS + 1) / 2).all())
    (folder / f"right.{rank}").write_text(json.dumps(right))
    dist.destroy_process_group()
    return 0 if right else 1


def play_all(backend, folder):
    reason = obstacle(backend)
    if reason:
        (folder / "answer.json").write_text(json.dumps({"not_done": reason}))
        return 3
    answer = versions(backend)
    (folder / "answer.json").write_text(json.dumps(answer))
    words = [sys.executable, __file__, backend, str(folder)]
    ranks = [subprocess.Popen([*words, str(rank)], env={**os.environ, **APART}) for rank in range(N_RANKS)]
    codes = [rank.wait() for rank in ranks]
    files = [folder / f"right.{rank}" for rank in range(N_RANKS)]
    answer["right"] = [json.loads(file.read_text()) if file.exists() else None for file in files]
    (folder / "answer.json").write_text(json.dumps({**answer, "exit_codes": codes}))
    return 0 if codes == [0] * N_RANKS else 1


def main():
    backend, folder, *rank = sys.argv[1:]
    folder = pathlib.Path(folder).resolve()
    return play_rank(backend, folder, int(rank[0])) if rank else play_all(backend, folder)


if __name__ == "__main__":
    sys.exit(main())
