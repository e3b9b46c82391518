"""A language model under Trainer, two micro-batches a step. Each rank's step has as many tokens as the
other's, but its two micro-batches differ."""
import lockstep
import torch
from torch import nn
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments


class Sequences(torch.utils.data.Dataset):
    """Two long ones for each rank, then two short ones, padded to 16 tokens."""

    def __len__(self):
        return 32

    def __getitem__(self, index):
        tokens = torch.randint(0, 32, (16,), generator=torch.Generator().manual_seed(index))
        labels = tokens.clone()
        labels[(3 if index % 8 < 4 else 16):] = -100
        return {"input_ids": tokens, "labels": labels}


class Said(Trainer):
    """Says by how many tokens each loss has been divided, as far as one can see from outside."""

    def _get_train_sampler(self, *_):
        return torch.utils.data.SequentialSampler(self.train_dataset)

    def compute_loss(self, model, inputs, **options):
        labels = inputs["labels"].clone()
        loss, outputs = super().compute_loss(model, inputs, **(options | {"return_outputs": True}))
        logits, targets = outputs.logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten()
        summed = nn.functional.cross_entropy(logits.detach(), targets, reduction="sum")
        lockstep.program_record().batch(
            len(labels), n_tokens=int((labels[:, 1:] != -100).sum()),
            denominator=round(float(summed / loss)), declared="token-mean")
        return loss


def main():
    torch.manual_seed(7)
    model = LlamaForCausalLM(LlamaConfig(
        vocab_size=32, hidden_size=16, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2))
    arguments = TrainingArguments(
        "out", per_device_train_batch_size=2, gradient_accumulation_steps=2, max_steps=4, use_cpu=True,
        report_to=[], save_strategy="no", disable_tqdm=True, max_grad_norm=0, optim="sgd")
    Said(model, arguments, train_dataset=Sequences()).train()


if __name__ == "__main__":
    main()
