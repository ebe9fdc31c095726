# SPDX-License-Identifier: BSD-3-Clause
"""`SFTTrainer` of its quick start on a small Llama and a list of tokens"""

import tempfile

import torch
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from trl import SFTConfig, SFTTrainer

from benchmarks.libraries import joined

DISTRIBUTION = "trl"


def run(device: str) -> list[torch.Tensor]:
    words = ["<pad>", "<eos>", *"abcdefghijklmnopqrstuvwxyz"]
    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="<eos>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    wrapped = PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="<pad>", eos_token="<eos>")
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
    model = LlamaForCausalLM(LlamaConfig(vocab_size=len(words), **sizes, pad_token_id=0, eos_token_id=1))
    texts = [{"text": " ".join(words[2 + i : 12 + i])} for i in range(16)]
    with tempfile.TemporaryDirectory() as folder:
        config = SFTConfig(
            folder, per_device_train_batch_size=4, num_train_epochs=1, logging_steps=1, report_to=[], bf16=False,
            save_strategy="no", disable_tqdm=True, use_cpu=device == "cpu", learning_rate=1e-2, max_length=16,
        )  # fmt: skip
        trainer = SFTTrainer(model, args=config, train_dataset=Dataset.from_list(texts), processing_class=wrapped)
        assert config.device.type == device
        trainer.train()
    losses = [row["loss"] for row in trainer.state.log_history if "loss" in row]
    return [torch.tensor(losses), joined(trainer.model.parameters())]
