"""In the style of accelerate's examples: prepare, accumulate, clip, gather for metrics. Prints the digest of its parameters."""
import hashlib

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch.optim.lr_scheduler import LambdaLR
from torch.utils.data import DataLoader, TensorDataset

set_seed(11)
accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
x = torch.randn(48, 6)
train = DataLoader(TensorDataset(x, (x.sum(1) > 0).long()), batch_size=4, shuffle=True)
held_out = DataLoader(TensorDataset(x[:21], (x[:21].sum(1) > 0).long()), batch_size=4)
model = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
schedule = LambdaLR(optimizer, lambda step: 1 / (1 + step))
model, optimizer, train, held_out, schedule = accelerator.prepare(model, optimizer, train, held_out, schedule)
for epoch in range(2):
    model.train()
    for inputs, targets in train:
        with accelerator.accumulate(model):
            loss = torch.nn.functional.cross_entropy(model(inputs), targets)
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
    model.eval()
    n = 0
    for inputs, targets in held_out:
        with torch.no_grad():
            predictions = model(inputs).argmax(-1)
        predictions, targets = accelerator.gather_for_metrics((predictions, targets))
        n += len(targets)
    assert n == 21, n
accelerator.wait_for_everyone()
whole = accelerator.unwrap_model(model)
digest = hashlib.sha256(b"".join(p.detach().numpy().tobytes() for p in whole.parameters())).hexdigest()
print(f"digest {accelerator.process_index} {digest}\n", end="", flush=True)  # One write: lines of ranks do not mix.
accelerator.end_training()
