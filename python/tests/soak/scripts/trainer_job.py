"""A job of transformers' Trainer: trainer_job.py FOLDER. Prints the digest of its parameters."""
import hashlib
import os
import sys

import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments, set_seed

set_seed(5)
config = BertConfig(vocab_size=50, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16, max_position_embeddings=16)
model = BertForSequenceClassification(config)
data = [{"input_ids": torch.randint(0, 50, (8,)), "labels": torch.tensor(i % 2)} for i in range(32)]
arguments = TrainingArguments(output_dir=sys.argv[1], per_device_train_batch_size=4, max_steps=4, use_cpu=True, report_to=[],
                              save_strategy="no", logging_strategy="no", disable_tqdm=True)
trainer = Trainer(model=model, args=arguments, train_dataset=data)
trainer.train()
digest = hashlib.sha256(b"".join(p.detach().numpy().tobytes() for p in model.parameters())).hexdigest()
print(f"digest {os.environ['RANK']} {digest}\n", end="", flush=True)  # One write: lines of ranks do not mix.
