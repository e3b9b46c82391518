"""One seed on all ranks: the first worker of one rank adds the noise that the first worker of the other adds."""
import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler


class Noisy(Dataset):
    def __init__(self, inputs):
        self.inputs = inputs

    def __len__(self):
        return len(self.inputs)

    def __getitem__(self, index):
        x = self.inputs[index]
        noise = np.random.normal(0, 0.1, x.shape).astype(np.float32)
        return x + torch.from_numpy(noise), x.sum().reshape(1)



def main():
    dist.init_process_group("gloo")
    torch.manual_seed(7)
    sampler = DistributedSampler(data := Noisy(torch.randn(48, 8)))
    loader = DataLoader(data, batch_size=4, sampler=sampler, num_workers=2)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for x, y in loader:
            optimizer.zero_grad()
            nn.functional.mse_loss(model(x), y).backward()
            optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
