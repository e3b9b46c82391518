"""In the style of the multi-GPU series: a Trainer class, snapshots of rank 0, resumed after a restart."""
import os
import sys

import torch
from torch.distributed import destroy_process_group, init_process_group
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler


class MyTrainDataset(Dataset):
    def __init__(self, size):
        self.data = [(torch.rand(20), torch.rand(1)) for _ in range(size)]

    def __len__(self):
        return len(self.data)

    def __getitem__(self, index):
        return self.data[index]


class Trainer:
    def __init__(self, model, train_data, optimizer, save_every, snapshot_path):
        self.gpu_id = int(os.environ["LOCAL_RANK"])
        self.model = model.to(self.gpu_id)
        self.train_data = train_data
        self.optimizer = optimizer
        self.save_every = save_every
        self.epochs_run = 0
        self.snapshot_path = snapshot_path
        if os.path.exists(snapshot_path):
            snapshot = torch.load(snapshot_path, map_location=f"cuda:{self.gpu_id}")
            self.model.load_state_dict(snapshot["MODEL_STATE"])
            self.epochs_run = snapshot["EPOCHS_RUN"]
            print(f"resumed {self.epochs_run}")
        self.model = DDP(self.model, device_ids=[self.gpu_id])

    def _run_batch(self, source, targets):
        self.optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(self.model(source), targets)
        loss.backward()
        self.optimizer.step()

    def train(self, max_epochs):
        for epoch in range(self.epochs_run, max_epochs):
            self.train_data.sampler.set_epoch(epoch)
            for source, targets in self.train_data:
                self._run_batch(source.to(self.gpu_id), targets.to(self.gpu_id))
            if self.gpu_id == 0 and epoch % self.save_every == 0:
                torch.save({"MODEL_STATE": self.model.module.state_dict(), "EPOCHS_RUN": epoch + 1}, self.snapshot_path)
            torch.distributed.barrier()
            if epoch == 1 and self.gpu_id == 1 and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
                sys.exit("the machine went away")


def main(snapshot_path):
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    init_process_group(backend="nccl")
    torch.manual_seed(0)
    dataset = MyTrainDataset(64)
    model = torch.nn.Linear(20, 1)
    loader = DataLoader(dataset, batch_size=8, pin_memory=True, shuffle=False, sampler=DistributedSampler(dataset))
    Trainer(model, loader, torch.optim.SGD(model.parameters(), lr=1e-3), 1, snapshot_path).train(3)
    print(f"done {os.environ['RANK']}")
    destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1] + "/snapshot.pt")
