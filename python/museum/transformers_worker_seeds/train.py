"""A language model under Trainer, on sequences that the loader's workers begin at random."""
import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments


class Cut(torch.utils.data.Dataset):
    """Sixteen tokens of each text, from a random place on."""

    def __init__(self):
        self.texts = torch.randint(0, 32, (48, 64), generator=torch.Generator().manual_seed(7))

    def __len__(self):
        return len(self.texts)

    def __getitem__(self, index):
        start = int(torch.randint(0, 48, ()))
        tokens = self.texts[index, start:start + 16]
        return {"input_ids": tokens, "labels": tokens}


def main():
    torch.manual_seed(7)
    model = GPT2LMHeadModel(GPT2Config(
        vocab_size=32, n_positions=16, n_embd=16, n_layer=1, n_head=2, resid_pdrop=0, embd_pdrop=0,
        attn_pdrop=0, tie_word_embeddings=False))
    arguments = TrainingArguments(
        "out", per_device_train_batch_size=4, num_train_epochs=2, dataloader_num_workers=2, use_cpu=True,
        report_to=[], save_strategy="no", disable_tqdm=True, optim="sgd")
    Trainer(model, arguments, train_dataset=Cut()).train()


if __name__ == "__main__":
    main()
