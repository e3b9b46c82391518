"""Entropy of a lookup-free codebook over the batches of all ranks, all of which have the same batch: it has
to be what one process gets."""
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from vector_quantize_pytorch import LFQ


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(7)
    quantizer = LFQ(dim=8, codebook_size=16, entropy_loss_weight=0.1)
    model = DistributedDataParallel(quantizer, find_unused_parameters=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    x = torch.randn(4, 16, 8)
    for _ in range(3):
        (_, _, loss), parts = model(x, return_loss_breakdown=True)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"rank {dist.get_rank()}: entropy of the codebook {parts.batch_entropy.item():.4f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
