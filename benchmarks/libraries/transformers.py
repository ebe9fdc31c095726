# SPDX-License-Identifier: BSD-3-Clause
"""Greedy generation with a cache, classification and feature extraction, small models with random weights"""

import torch
from transformers import BertConfig, BertForSequenceClassification, LlamaConfig, LlamaForCausalLM

DISTRIBUTION = "transformers"
SIZES = {"vocab_size": 97, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}


def run(device: str) -> list[torch.Tensor]:
    decoder = LlamaForCausalLM(LlamaConfig(**SIZES, bos_token_id=0, eos_token_id=1, pad_token_id=2)).to(device).eval()
    encoder = BertForSequenceClassification(BertConfig(**SIZES, num_labels=3)).to(device).eval()
    tokens = torch.randint(3, 97, (2, 12)).to(device)
    mask = torch.ones_like(tokens)
    with torch.no_grad():
        text = decoder.generate(
            tokens,
            attention_mask=mask,
            max_new_tokens=8,
            do_sample=False,
            return_dict_in_generate=True,
            output_logits=True,
        )
        classes = encoder(tokens, output_hidden_states=True)
    return [text.sequences, *text.logits, classes.logits, *classes.hidden_states]
