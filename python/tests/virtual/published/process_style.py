"""In the style of "Writing Distributed Applications": multiprocessing.Process, averaging by hand."""
import os

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn.functional as F


def average_gradients(model):
    size = float(dist.get_world_size())
    for param in model.parameters():
        dist.all_reduce(param.grad.data, op=dist.ReduceOp.SUM)
        param.grad.data /= size


def run(rank, size):
    torch.manual_seed(1234)
    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.5)
    for epoch in range(2):
        optimizer.zero_grad()
        F.nll_loss(F.log_softmax(model(torch.randn(8, 4) + rank), dim=1), torch.zeros(8, dtype=torch.long)).backward()
        average_gradients(model)
        optimizer.step()
    print(f"done {rank}", flush=True)


def init_process(rank, size, fn, backend="gloo"):
    os.environ["MASTER_ADDR"] = "127.0.0.1"
    os.environ["MASTER_PORT"] = "29501"
    dist.init_process_group(backend, rank=rank, world_size=size)
    fn(rank, size)


if __name__ == "__main__":
    processes = []
    mp.set_start_method("spawn")
    for rank in range(2):
        p = mp.Process(target=init_process, args=(rank, 2, run))
        p.start()
        processes.append(p)
    for p in processes:
        p.join()
