# SPDX-License-Identifier: BSD-3-Clause
"""LoRA of its quicktour: `get_peft_model`, three training steps, `merge_and_unload`"""

import torch
from peft import LoraConfig, TaskType, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM

DISTRIBUTION = "peft"


def run(device: str) -> list[torch.Tensor]:
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64}
    model = LlamaForCausalLM(LlamaConfig(vocab_size=97, **sizes))
    config = LoraConfig(
        task_type=TaskType.CAUSAL_LM, r=8, lora_alpha=32, lora_dropout=0.0, target_modules=["q_proj", "v_proj"]
    )
    adapted = get_peft_model(model, config).to(device)
    tokens = torch.randint(97, (4, 12)).to(device)
    optimizer = torch.optim.AdamW((p for p in adapted.parameters() if p.requires_grad), lr=1e-2)
    losses = []
    for _ in range(3):
        loss = adapted(input_ids=tokens, labels=tokens).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.detach())
    merged = adapted.merge_and_unload()
    with torch.no_grad():
        return [torch.stack(losses), merged(tokens).logits]
