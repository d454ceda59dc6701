"""A real inference engine: llama.cpp's own server with a small random model.

Rules:
- The model, half a megabyte, is made here: nothing is downloaded, its words mean
  nothing.
- The server runs as a process of its own with one slot, so that its cache is what the
  last request left: its counts of cached tokens are real.
- Run as a program, this file is that process: model file, context size, and the file
  that it leaves its address in. Not its output: a thread of the engine writes there
  too, piece by piece, and the two run into each other.
"""

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MODEL = "tiny"
START_SECONDS = 60.0
_WIDTH, _LAYERS, _HEADS, _INNER = 64, 2, 4, 128
_CONTEXT_TOKENS = 65_536
_MERGES = (("\u0120", "t"), ("h", "e"), ("i", "n"), ("e", "r"), ("\u0120t", "he"))
_CONTROL = ("<s>", "</s>", "<|im_start|>", "<|im_end|>")
_NORMAL_TYPE, _CONTROL_TYPE = 1, 3
_ALTERNATION = (
    "{% if ns.last == 'user' and m.role == 'user' %}"
    "{{ raise_exception('Conversation roles must alternate user/assistant') }}"
    "{% endif %}{% set ns.last = m.role %}"
)
_TEMPLATE = (
    "{% set ns = namespace(last='') %}"
    "{% for m in messages %}@ALTERNATION@<|im_start|>{{ m.role }}\n"
    "{% if m.content is string %}{{ m.content }}"
    "{% elif m.content %}{% for p in m.content %}{{ p.text }}{% endfor %}{% endif %}"
    "{% if m.tool_calls %}{% for c in m.tool_calls %}"
    "call {{ c.function.name }} {{ c.function.arguments | tojson }}"
    "{% endfor %}{% endif %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


@dataclass(frozen=True, slots=True)
class Engine:
    """A running server: where it answers."""

    url: str


@contextmanager
def running_engine(
    folder: Path, *, context_tokens: int, is_alternating: bool = False
) -> Iterator[Engine]:
    """Make a model and serve it for the life of the block.

    An alternating one has a chat template that refuses two user turns in a row.
    """
    from deuz_testing.sidecar_process import running_process

    model, log = folder / "tiny.gguf", folder / "engine.log"
    address = folder / "engine.address"
    address.unlink(missing_ok=True)
    write_model(model, is_alternating=is_alternating)
    command = [sys.executable, __file__, str(model), str(context_tokens), str(address)]
    with running_process(command, log) as process:
        deadline = time.monotonic() + START_SECONDS
        while not address.exists():
            assert process.poll() is None, log.read_text(errors="replace")[-2000:]
            assert time.monotonic() < deadline, "the engine is not ready"
            time.sleep(0.02)
        yield Engine(address.read_text())


def write_model(path: Path, *, is_alternating: bool) -> None:
    """Write a llama model with random weights and a byte-level vocabulary."""
    from gguf import GGUFWriter

    writer = GGUFWriter(str(path), "llama")
    tokens = [*_byte_letters(), *(a + b for a, b in _MERGES), *_CONTROL]
    _add_shape(writer, vocabulary=len(tokens))
    _add_tokenizer(writer, tokens)
    alternation = _ALTERNATION if is_alternating else ""
    writer.add_chat_template(_TEMPLATE.replace("@ALTERNATION@", alternation))
    _add_weights(writer, vocabulary=len(tokens))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _byte_letters() -> list[str]:
    """Return GPT-2's letter for each byte: itself if it can be seen, else another."""
    shown = {*range(33, 127), *range(161, 173), *range(174, 256)}
    letters, spare = [], 256
    for byte in range(256):
        if byte in shown:
            letters.append(chr(byte))
        else:
            letters.append(chr(spare))
            spare += 1
    return letters


def _add_shape(writer: Any, *, vocabulary: int) -> None:
    writer.add_context_length(_CONTEXT_TOKENS)
    writer.add_embedding_length(_WIDTH)
    writer.add_block_count(_LAYERS)
    writer.add_feed_forward_length(_INNER)
    writer.add_head_count(_HEADS)
    writer.add_head_count_kv(_HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(_WIDTH // _HEADS)
    writer.add_vocab_size(vocabulary)


def _add_tokenizer(writer: Any, tokens: list[str]) -> None:
    plain = len(tokens) - len(_CONTROL)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    types = [_NORMAL_TYPE] * plain + [_CONTROL_TYPE] * len(_CONTROL)
    writer.add_token_types(types)
    writer.add_token_merges([f"{a} {b}" for a, b in _MERGES])
    writer.add_bos_token_id(tokens.index("<s>"))
    writer.add_eos_token_id(tokens.index("<|im_end|>"))
    writer.add_add_bos_token(False)


def _add_weights(writer: Any, *, vocabulary: int) -> None:
    import numpy

    chance = numpy.random.default_rng(seed=20)

    def add(name: str, *shape: int) -> None:
        weights = chance.normal(0, 0.05, shape).astype(numpy.float32)
        writer.add_tensor(f"{name}.weight", weights)

    def add_norm(name: str) -> None:
        writer.add_tensor(f"{name}.weight", numpy.ones(_WIDTH, numpy.float32))

    add("token_embd", vocabulary, _WIDTH)
    add("output", vocabulary, _WIDTH)
    add_norm("output_norm")
    for layer in range(_LAYERS):
        for part in ("attn_q", "attn_k", "attn_v", "attn_output"):
            add(f"blk.{layer}.{part}", _WIDTH, _WIDTH)
        add(f"blk.{layer}.ffn_gate", _INNER, _WIDTH)
        add(f"blk.{layer}.ffn_up", _INNER, _WIDTH)
        add(f"blk.{layer}.ffn_down", _WIDTH, _INNER)
        add_norm(f"blk.{layer}.attn_norm")
        add_norm(f"blk.{layer}.ffn_norm")


def serve(model: str, context_tokens: int, address: Path) -> None:
    """Serve the model on a free port until the process is ended.

    The address appears whole: its file is renamed to, never written to.
    """
    import xllamacpp

    settings = xllamacpp.CommonParams()
    settings.model.path = model
    settings.model_alias = {MODEL}
    settings.n_ctx = context_tokens
    settings.n_parallel = 1
    settings.hostnames = ["127.0.0.1"]
    settings.port = 0
    settings.warmup = False
    settings.fit_params = False
    settings.cpuparams.n_threads = settings.cpuparams_batch.n_threads = 1
    server = xllamacpp.Server(settings)
    unfinished = address.with_suffix(".unfinished")
    unfinished.write_text(server.listening_address)
    os.replace(unfinished, address)
    while True:
        time.sleep(1)


if __name__ == "__main__":
    serve(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))
