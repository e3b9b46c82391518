"""A residual quantiser that rank 0 evaluates alone, with the module inside the wrapper."""
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from vector_quantize_pytorch import GroupedResidualVQ


class Autoencoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Linear(8, 4)
        self.quantizer = GroupedResidualVQ(dim=4, groups=2, codebook_size=32, num_quantizers=2)
        self.decoder = nn.Linear(4, 8)

    def forward(self, x):
        codes, _, commitment = self.quantizer(self.encoder(x).unsqueeze(0))
        return nn.functional.mse_loss(self.decoder(codes.squeeze(0)), x) + commitment.sum()


def main():
    dist.init_process_group("gloo")
    torch.manual_seed(7)
    model = DistributedDataParallel(Autoencoder())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    torch.manual_seed(11 + dist.get_rank())  # Each rank has data of its own.
    for step in range(6):
        optimizer.zero_grad()
        model(torch.randn(16, 8)).backward()
        optimizer.step()
        if step == 2 and dist.get_rank() == 0:
            model.module.eval()
            with torch.no_grad():
                print(f"evaluated: {model.module(torch.randn(16, 8)):.3f}")
            model.module.train()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
