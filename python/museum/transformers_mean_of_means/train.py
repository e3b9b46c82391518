"""A language model under Trainer; the two ranks' sequences have very different lengths."""
import lockstep
import torch
from torch import nn
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments


class Sequences(torch.utils.data.Dataset):
    """Long and short ones in turn, padded to 16 tokens."""

    def __len__(self):
        return 32

    def __getitem__(self, index):
        generator = torch.Generator().manual_seed(index)
        tokens = torch.randint(0, 32, (16,), generator=generator)
        labels = tokens.clone()
        labels[(3 if index % 4 < 2 else 16):] = -100
        return {"input_ids": tokens, "labels": labels}


class Said(Trainer):
    """Says by how many tokens each loss has been divided, as far as one can see from outside."""

    def _get_train_sampler(self, *_):
        return torch.utils.data.SequentialSampler(self.train_dataset)

    def compute_loss(self, model, inputs, **options):
        labels = inputs["labels"].clone()
        options["return_outputs"] = True
        loss, outputs = super().compute_loss(model, inputs, **options)
        logits, targets = outputs.logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten()
        summed = nn.functional.cross_entropy(logits.detach(), targets, reduction="sum")
        lockstep.annotate().batch(
            len(labels), n_tokens=int((labels != -100).sum()), denominator=round(float(summed / loss)),
            declared="token-mean")
        return loss


def main():
    torch.manual_seed(7)
    model = GPT2LMHeadModel(GPT2Config(
        vocab_size=32, n_positions=16, n_embd=16, n_layer=1, n_head=2, resid_pdrop=0, embd_pdrop=0,
        attn_pdrop=0, tie_word_embeddings=False))
    arguments = TrainingArguments(
        "out", per_device_train_batch_size=2, max_steps=4, use_cpu=True, report_to=[], save_strategy="no",
        disable_tqdm=True, max_grad_norm=0, optim="sgd")
    Said(model, arguments, train_dataset=Sequences()).train()


if __name__ == "__main__":
    main()
