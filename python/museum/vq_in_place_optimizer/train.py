"""A vector-quantised autoencoder whose codebook has an optimizer of its own."""
from functools import partial

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from vector_quantize_pytorch import VectorQuantize


class Autoencoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Linear(8, 4)
        self.quantizer = VectorQuantize(
            dim=4, codebook_size=8, learnable_codebook=True, ema_update=False,
            in_place_codebook_optimizer=partial(torch.optim.SGD, lr=0.05), sync_codebook=True)
        self.decoder = nn.Linear(4, 8)

    def forward(self, x):
        codes, _, commitment = self.quantizer(self.encoder(x).unsqueeze(0))
        return nn.functional.mse_loss(self.decoder(codes.squeeze(0)), x) + commitment.sum()


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(7)
    model = DistributedDataParallel(
        Autoencoder(), broadcast_buffers=False, find_unused_parameters=True)
    optimizer = torch.optim.SGD(
        [*model.module.encoder.parameters(), *model.module.decoder.parameters()], lr=0.05)
    torch.manual_seed(11 + dist.get_rank())  # Each rank has data of its own.
    for _ in range(4):
        optimizer.zero_grad()
        model(torch.randn(16, 8)).backward()
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
