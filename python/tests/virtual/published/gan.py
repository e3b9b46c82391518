"""Two models and two optimizers in turn, as the DCGAN example trains."""
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

dist.init_process_group("gloo")
torch.manual_seed(999)
netG = DDP(nn.Sequential(nn.ConvTranspose2d(4, 4, 4), nn.BatchNorm2d(4), nn.ReLU(True), nn.ConvTranspose2d(4, 1, 4, 2, 1), nn.Tanh()))
netD = DDP(nn.Sequential(nn.Conv2d(1, 4, 4, 2, 1), nn.LeakyReLU(0.2, inplace=True), nn.Conv2d(4, 1, 4), nn.Sigmoid()))
criterion = nn.BCELoss()
optimizerD = torch.optim.Adam(netD.parameters(), lr=2e-4, betas=(0.5, 0.999))
optimizerG = torch.optim.Adam(netG.parameters(), lr=2e-4, betas=(0.5, 0.999))
for _ in range(2):
    netD.zero_grad()
    errD_real = criterion(netD(torch.randn(4, 1, 8, 8)).view(-1), torch.full((4,), 1.0))
    errD_real.backward()
    fake = netG(torch.randn(4, 4, 1, 1))
    errD_fake = criterion(netD(fake.detach()).view(-1), torch.full((4,), 0.0))
    errD_fake.backward()
    optimizerD.step()
    netG.zero_grad()
    criterion(netD(fake).view(-1), torch.full((4,), 1.0)).backward()
    optimizerG.step()
print(f"done {dist.get_rank()}")
