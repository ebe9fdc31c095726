# SPDX-License-Identifier: BSD-3-Clause
"""transformers on the device beyond single models: pipelines, models in parts, serving, Trainer's checkpoints."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import socket
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest
import torch

from torch_atalla import telemetry

transformers = pytest.importorskip("transformers", reason="needs requirements-demo.txt")
HAS_ACCELERATE = importlib.util.find_spec("accelerate") is not None
needs_accelerate = pytest.mark.skipif(not HAS_ACCELERATE, reason="needs requirements-ecosystem.txt")
pytestmark = pytest.mark.filterwarnings("ignore")

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"the chip counts cycles and bytes of every launch".split()]
SIZES = {"vocab_size": len(WORDS), "hidden_size": 32, "num_hidden_layers": 4, "num_attention_heads": 4}
TEXTS = ["the chip counts cycles", "bytes of every launch and the cycles of the chip"]


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="[UNK]"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    special = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=words, mask_token="[MASK]", padding_side="left", **special
    )


def bert(head: str) -> Any:
    torch.manual_seed(0)
    config = transformers.BertConfig(**SIZES, intermediate_size=64, max_position_embeddings=64, num_labels=3)
    return getattr(transformers, f"Bert{head}")(config).eval()


def llama() -> Any:
    torch.manual_seed(0)
    special = {"bos_token_id": 2, "eos_token_id": 3, "pad_token_id": 0}
    config = transformers.LlamaConfig(**SIZES, intermediate_size=64, max_position_embeddings=64, **special)
    return transformers.LlamaForCausalLM(config).eval()


TASKS = {
    "text-generation": (llama, {"max_new_tokens": 8, "do_sample": False}),
    "text-classification": (lambda: bert("ForSequenceClassification"), {"top_k": None}),
    "feature-extraction": (lambda: bert("Model"), {}),
    "fill-mask": (lambda: bert("ForMaskedLM"), {}),
    "token-classification": (lambda: bert("ForTokenClassification"), {}),
}


def numbers(found: Any) -> list[float]:
    if isinstance(found, dict):
        return [x for value in found.values() for x in numbers(value)]
    if isinstance(found, (list, tuple)):
        return [x for value in found for x in numbers(value)]
    return [float(found)] if isinstance(found, (int, float)) else []


def words(found: Any) -> list[str]:
    if isinstance(found, dict):
        return [x for key, value in found.items() for x in words(value) if key != "score"]
    if isinstance(found, (list, tuple)):
        return [x for value in found for x in words(value)]
    return [found] if isinstance(found, str) else []


@pytest.mark.parametrize("device", ["atalla", "atalla:1", 1, None])
@pytest.mark.parametrize("task", TASKS)
def test_pipeline(task: str, device: Any, tokenizer: Any) -> None:
    make, arguments = TASKS[task]
    texts = [f"{text} [MASK]" for text in TEXTS] if task == "fill-mask" else TEXTS
    on_cpu = transformers.pipeline(task, model=make(), tokenizer=tokenizer, device="cpu")
    on_device = transformers.pipeline(task, model=make(), tokenizer=tokenizer, device=device)
    assert on_cpu.device.type == "cpu"
    assert on_device.device.type == "atalla"
    assert on_device.model.device == torch.device("atalla", 0 if device in ("atalla", None) else 1)
    expected, found = on_cpu(texts, batch_size=2, **arguments), on_device(texts, batch_size=2, **arguments)
    assert words(found) == words(expected)
    torch.testing.assert_close(torch.tensor(numbers(found)), torch.tensor(numbers(expected)), rtol=1e-4, atol=1e-5)
    assert words(found) or numbers(found)


@needs_accelerate
class TestPlacement:
    """Models in parts on several devices, the host and the disk."""

    @pytest.fixture(scope="class")
    def checkpoint(self, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any, torch.Tensor, int]:
        folder = tmp_path_factory.mktemp("llama")
        model = llama()
        model.save_pretrained(folder)
        tokens = torch.randint(5, len(WORDS), (2, 9), generator=torch.Generator().manual_seed(0))
        with torch.no_grad():
            expected = model(tokens).logits
        return folder, tokens, expected, sum(p.nbytes for p in model.parameters())

    # The room of each place, in sizes of the model, and the places that the model takes.
    PARTS = {
        "one device": ({0: 2.0}, {0}),
        "two devices": ({0: 0.5, 1: 1.0, "cpu": 0.0}, {0, 1}),
        "device and host": ({0: 0.5, "cpu": 2.0}, {0, "cpu"}),
        "device and disk": ({0: 0.5, "cpu": 0.0}, {0, "disk"}),
    }

    @pytest.mark.parametrize("parts", PARTS)
    def test_from_pretrained(self, parts: str, checkpoint: Any, tmp_path: Path) -> None:
        folder, tokens, expected, size = checkpoint
        limits = {place: int(part * size) for place, part in self.PARTS[parts][0].items()}
        model = transformers.AutoModelForCausalLM.from_pretrained(
            folder, device_map="auto", max_memory=limits, offload_folder=str(tmp_path)
        )
        assert set(getattr(model, "hf_device_map", {"": 0}).values()) == self.PARTS[parts][1]
        with torch.no_grad():
            found = model(tokens.to("atalla")).logits
        assert found.device.type == "atalla"
        torch.testing.assert_close(found.cpu(), expected)

    def test_memory_is_found(self, checkpoint: Any) -> None:
        from accelerate.utils import get_max_memory

        found = get_max_memory()
        assert list(found) == [*range(torch.atalla.device_count()), "cpu"]
        assert 0 < found[0] <= torch.atalla.mem_get_info(0)[1]
        assert get_max_memory({"cpu": "1GB", 1: "2GB", 0: "1MiB"}) == {0: 2**20, 1: 2 * 10**9, "cpu": 10**9}
        assert list(get_max_memory({"cpu": 1, 1: 2, 0: 3})) == [0, 1, "cpu"]

    def test_dispatch(self, checkpoint: Any) -> None:
        from accelerate import dispatch_model, infer_auto_device_map

        _, tokens, expected, size = checkpoint
        model = llama()
        limits = {0: size // 2, 1: size}
        places = infer_auto_device_map(model, max_memory=limits, no_split_module_classes=["LlamaDecoderLayer"])
        assert set(places.values()) == {0, 1}
        model = dispatch_model(model, places)
        assert {p.device.index for p in model.parameters()} == {0, 1}
        with torch.no_grad():
            torch.testing.assert_close(model(tokens.to("atalla")).logits.cpu(), expected)

    def test_offload_to_the_host(self, checkpoint: Any) -> None:
        from accelerate import cpu_offload

        _, tokens, expected, _ = checkpoint
        model = cpu_offload(llama(), execution_device="atalla")
        with torch.no_grad():
            torch.testing.assert_close(model(tokens.to("atalla")).logits.cpu(), expected)
        assert {p.device.type for p in model.parameters()} == {"meta"}

    def test_generation_and_pipeline_of_a_model_in_parts(self, checkpoint: Any, tokenizer: Any) -> None:
        folder, _, _, size = checkpoint
        model = transformers.AutoModelForCausalLM.from_pretrained(
            folder, device_map="auto", max_memory={0: size // 2, 1: size, "cpu": 0}
        )
        pipe = transformers.pipeline("text-generation", model=model, tokenizer=tokenizer)
        assert pipe.device == torch.device("atalla", 0)
        expected = transformers.pipeline("text-generation", model=llama(), tokenizer=tokenizer, device="cpu")
        arguments = {"max_new_tokens": 8, "do_sample": False}
        assert pipe(TEXTS, **arguments) == expected(TEXTS, **arguments)


class TestServing:
    """Continuous batching and `transformers serve`."""

    @pytest.fixture(scope="class")
    def folder(self, tmp_path_factory: pytest.TempPathFactory, tokenizer: Any) -> Path:
        folder = tmp_path_factory.mktemp("served")
        tokenizer.chat_template = "{% for m in messages %}{{ m.content }} {% endfor %}"
        llama().save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        return folder

    @needs_accelerate
    def test_continuous_batching(self, folder: Path) -> None:
        config = transformers.GenerationConfig(max_new_tokens=6, do_sample=False, eos_token_id=3, pad_token_id=0)
        prompts = [[5, 6, 7], [8, 9, 10, 11], [12, 5]]

        def generate(device: str) -> list[list[int]]:
            model = transformers.AutoModelForCausalLM.from_pretrained(
                folder, attn_implementation="paged|sdpa", device_map=device
            )
            found = model.eval().generate_batch(inputs=prompts, generation_config=config, progress_bar=False)
            return [found[name].generated_tokens for name in sorted(found)]

        expected = generate("cpu")
        assert generate("atalla") == expected
        assert all(len(tokens) == 6 for tokens in expected) and len({tuple(tokens) for tokens in expected}) > 1

    @needs_accelerate
    def test_serve(self, folder: Path) -> None:
        if not transformers.utils.import_utils.is_serve_available():
            pytest.skip("needs requirements-ecosystem.txt")
        from transformers.cli.serve import Serve

        with socket.socket() as free:
            free.bind(("localhost", 0))
            port = free.getsockname()[1]
        server = Serve(force_model=str(folder), port=port, non_blocking=True)
        try:
            for _ in range(600):
                with (
                    contextlib.suppress(OSError),
                    urllib.request.urlopen(f"http://localhost:{port}/health", timeout=60),
                ):
                    break
                time.sleep(0.1)
            question = {"role": "user", "content": TEXTS[0]}
            body = {"model": str(folder), "messages": [question], "max_tokens": 6, "temperature": 0}
            address = f"http://localhost:{port}/v1/chat/completions"
            headers = {"Content-Type": "application/json"}
            before = telemetry.counters().launches
            request = urllib.request.Request(address, json.dumps(body).encode(), headers)
            with urllib.request.urlopen(request, timeout=120) as answer:
                found = json.load(answer)["choices"][0]["message"]["content"]
            assert telemetry.counters().launches > before + 100
        finally:
            server.kill_server()
        tokens = transformers.AutoTokenizer.from_pretrained(folder)(TEXTS[0] + " ", return_tensors="pt")
        model = transformers.AutoModelForCausalLM.from_pretrained(folder)
        expected = model.generate(**tokens, max_new_tokens=6, do_sample=False)[0, tokens["input_ids"].shape[1] :]
        assert found == transformers.AutoTokenizer.from_pretrained(folder).decode(expected, skip_special_tokens=True)


@needs_accelerate
def test_a_trainer_goes_on_from_a_checkpoint(tmp_path: Path) -> None:
    """Dropout draws from the device's generator: only with its state are both runs the same."""
    rows = [{"input_ids": torch.randint(5, len(WORDS), (8,)), "labels": torch.tensor(i % 3)} for i in range(32)]

    def trainer() -> Any:
        transformers.set_seed(0)
        arguments = transformers.TrainingArguments(
            str(tmp_path), per_device_train_batch_size=8, num_train_epochs=2, save_strategy="epoch", report_to=[],
            logging_steps=1, learning_rate=1e-2, disable_tqdm=True,
        )  # fmt: skip
        return transformers.Trainer(bert("ForSequenceClassification"), arguments, train_dataset=rows)

    def losses(run: Any) -> list[float]:
        return [row["loss"] for row in run.state.log_history if "loss" in row]

    whole = trainer()
    whole.train()
    rest = trainer()
    rest.train(resume_from_checkpoint=str(tmp_path / "checkpoint-4"))
    assert len(losses(whole)) == 8
    torch.testing.assert_close(losses(rest)[-4:], losses(whole)[-4:], rtol=1e-5, atol=1e-6)
