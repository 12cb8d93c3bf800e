"""Hugging Face's continuous batching with interleave_attention as flash_attn.

A tiny random Llama generates greedily for prompts of many lengths, by
generate_batch over a cache in pages: by transformers' own sdpa, then with
interleave_attention in place of flash-attn, with block tables on and off and
CUDA graphs on and off. All must give the same tokens. A run with a wrong softmax
scale must change most requests, so that sameness means something.

With fp16 the prompts are chosen, of many random ones, so that sdpa itself never
had two tokens nearly as likely, and every token must be the same: of each length,
the prompt whose closest call is the clearest. Logits of bf16 have eight bits and
often a tie among the best two, so no prompt is free of ties: there the first
token that differs is shown with the gap between the two best logits, and passes
where that gap is below what bf16 resolves. Needs a GPU and transformers 5.
"""

import argparse
import dataclasses
import functools
import os
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import as_flash_attn  # noqa: E402

as_flash_attn.install()

import interleave_attention  # noqa: E402

calls = {}


def counted(name):
    function = getattr(interleave_attention, name)

    @functools.wraps(function)
    def wrapper(*args, **kwargs):
        calls[name] = calls.get(name, 0) + 1
        return function(*args, **kwargs)

    setattr(interleave_attention, name, wrapper)


for counted_name in ("flash_attn_varlen_func", "flash_attn_with_kvcache"):
    counted(counted_name)

import torch  # noqa: E402
import transformers  # noqa: E402
from transformers import AutoModelForCausalLM, LlamaConfig  # noqa: E402
from transformers.generation import (  # noqa: E402
    ContinuousBatchingConfig,
    GenerationConfig,
)

PROMPT_LENGTHS = [3, 17, 64, 130, 257, 300, 511, 40, 255, 256, 1, 90]
# Prompts of each length to choose from, the gap between the best two logits that
# one must keep, in steps of the type at the largest logit (tokens of fp16 were
# seen to differ at gaps of up to 2), and the fewest prompts that make a check.
CANDIDATES = 32
CLEAR_GAP = 8
FEWEST_PROMPTS = 8


def make_model(head_dim, dtype, seed):
    config = LlamaConfig(
        vocab_size=256,
        hidden_size=8 * head_dim,
        intermediate_size=1024,
        num_hidden_layers=4,
        num_attention_heads=8,
        num_key_value_heads=2,
        head_dim=head_dim,
        max_position_embeddings=4096,
        initializer_range=0.06,
        tie_word_embeddings=False,
        bos_token_id=None,
        eos_token_id=None,
        pad_token_id=None,
    )
    torch.manual_seed(seed)
    model = AutoModelForCausalLM.from_config(
        config, attn_implementation="sdpa", dtype=dtype
    )
    return model.to("cuda").eval()


def batching(tables, graphs):
    names = {field.name for field in dataclasses.fields(ContinuousBatchingConfig)}
    wanted = {
        "num_blocks": 64,
        "max_batch_tokens": 256,
        "max_memory_percent": 0.05,
        "max_blocks_per_request": 8 if tables else 0,
        "use_cuda_graph": graphs,
    }
    wanted["page_size" if "page_size" in names else "block_size"] = 256
    return ContinuousBatchingConfig(**{k: v for k, v in wanted.items() if k in names})


def generate(model, prompts, new_tokens, implementation, tables, graphs):
    model.set_attn_implementation(implementation)
    calls.clear()
    begin = time.time()
    results = model.generate_batch(
        prompts,
        generation_config=GenerationConfig(
            max_new_tokens=new_tokens, do_sample=False, eos_token_id=-1, pad_token_id=0
        ),
        continuous_batching_config=batching(tables, graphs),
        progress_bar=False,
    )
    seconds = time.time() - begin
    ordered = sorted(results.values(), key=lambda r: int(r.request_id.split("_")[1]))
    tokens = [list(result.generated_tokens) for result in ordered]
    for result in ordered:
        if result.error:
            print("error of %s: %s" % (result.request_id, result.error))
    return tokens, dict(calls), seconds


def random_prompts(seed, length, count):
    generator = torch.Generator().manual_seed(1000 * seed + length)
    return torch.randint(0, 256, (count, length), generator=generator)


def generate_dense(model, prompts, new_tokens):
    """Greedy tokens of prompts of one length, by sdpa without pages or a cache.

    Returns the tokens and, for each prompt, the smallest gap of the two best
    logits over all tokens, in steps of the type at the largest logit.
    """
    ids = prompts.to("cuda")
    smallest = torch.full((len(prompts),), float("inf"), device="cuda")
    for _ in range(new_tokens):
        with torch.no_grad():
            logits = model(input_ids=ids, use_cache=False).logits[:, -1]
        best = logits.float().topk(2)
        step = torch.finfo(logits.dtype).eps * logits.float().abs().amax(-1)
        smallest = smallest.minimum((best.values[:, 0] - best.values[:, 1]) / step)
        ids = torch.cat([ids, best.indices[:, :1]], 1)
    return ids[:, prompts.shape[1] :].tolist(), smallest.tolist()


def choose_clear(model, seed, new_tokens):
    """Prompts without a near tie, the clearest of each length, and their tokens.

    A length none of whose candidates is clear is left out.
    """
    chosen, tokens, gaps = [], [], []
    model.set_attn_implementation("sdpa")
    for length in PROMPT_LENGTHS:
        prompts = random_prompts(seed, length, CANDIDATES)
        generated, smallest = generate_dense(model, prompts, new_tokens)
        clearest = max(range(CANDIDATES), key=smallest.__getitem__)
        if smallest[clearest] >= CLEAR_GAP:
            chosen.append(prompts[clearest].tolist())
            tokens.append(generated[clearest])
            gaps.append(smallest[clearest])
    print(
        "  %d prompts of %d; the smallest gap of each, in steps: %s"
        % (len(chosen), len(PROMPT_LENGTHS), " ".join("%.0f" % g for g in gaps))
    )
    return chosen, tokens


def gap(model, prompt, tokens):
    """Between the two best logits after `tokens`, and the logits' spread."""
    with torch.no_grad():
        ids = torch.tensor([prompt + tokens], device="cuda")
        logits = model(input_ids=ids).logits[0, -1].float()
    best = logits.topk(2).values
    return (best[0] - best[1]).item(), logits.abs().max().item()


def compare(model, prompts, expected, got, dtype, shown):
    """(requests alike, ties, real differences); `shown` were printed before."""
    alike = ties = differences = 0
    model.set_attn_implementation("sdpa")
    for i, (prompt, a, b) in enumerate(zip(prompts, expected, got)):
        if a == b:
            alike += 1
            continue
        at = next((j for j, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
        between, largest = gap(model, prompt, a[:at])
        tie = between <= 4 * torch.finfo(dtype).eps * largest and len(a) == len(b)
        ties += tie
        differences += not tie
        if (i, at) in shown:
            continue
        shown.add((i, at))
        print(
            "  request %d (%d prompt tokens) differs at token %d of %d/%d: gap of the "
            "best logits %.4g where the largest is %.4g: %s"
            % (i, len(prompt), at, len(a), len(b), between, largest,
               "a tie" if tie else "NOT a tie")
        )
    return alike, ties, differences


def run(head_dim, dtype, seed, new_tokens):
    print("head_dim %d, %s, seed %d" % (head_dim, dtype, seed), flush=True)
    model = make_model(head_dim, dtype, seed)
    must_equal = dtype == torch.float16
    if must_equal:
        prompts, dense = choose_clear(model, seed, new_tokens)
    else:
        prompts = [random_prompts(seed, n, 1)[0].tolist() for n in PROMPT_LENGTHS]
    if len(prompts) < FEWEST_PROMPTS:
        print("  FAILED: only %d prompts are free of ties" % len(prompts))
        return True
    expected, _, seconds = generate(model, prompts, new_tokens, "paged|sdpa", False, False)
    print("  paged|sdpa: %d requests, %.1f s" % (len(expected), seconds), flush=True)
    failed = len(expected) != len(prompts) or any(
        len(tokens) != new_tokens for tokens in expected
    )
    if failed:
        print("  FAILED: transformers' own sdpa gave %s" % [len(t) for t in expected])
    if must_equal:
        print("  sdpa without pages gives the same for %d of %d"
              % (sum(a == b for a, b in zip(dense, expected)), len(prompts)))
    shown = set()
    for tables in (False, True):
        for graphs in (False, True):
            got, used, seconds = generate(
                model, prompts, new_tokens, "flash_attention_2", tables, graphs
            )
            alike, ties, differences = compare(
                model, prompts, expected, got, dtype, shown
            )
            decodes = used.get("flash_attn_with_kvcache", 0)
            ok = (
                not differences
                and (alike == len(prompts) or not must_equal)
                and len(got) == len(prompts)
                and used.get("flash_attn_varlen_func", 0) > 0
                and (decodes > 0) == tables
            )
            failed |= not ok
            print(
                "  %s block tables %s, CUDA graphs %s: %d of %d requests alike, %d ties, "
                "%d differences; calls %s; %.1f s"
                % ("ok    " if ok else "FAILED", "on " if tables else "off",
                   "on " if graphs else "off", alike, len(prompts), ties, differences,
                   used, seconds),
                flush=True,
            )
    for module in model.modules():
        if hasattr(module, "scaling"):
            module.scaling *= 1.5
    got, _, _ = generate(model, prompts, new_tokens, "flash_attention_2", True, False)
    changed = sum(a != b for a, b in zip(expected, got))
    print("  a wrong scale changes %d of %d requests" % (changed, len(prompts)))
    return failed or 2 * changed < len(prompts)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=int(time.time()) % 100000)
    parser.add_argument("--new-tokens", type=int, default=16)
    parser.add_argument("--quick", action="store_true", help="one model, not three")
    arguments = parser.parse_args()
    print("transformers", transformers.__version__, "torch", torch.__version__)
    failed = run(64, torch.float16, arguments.seed, arguments.new_tokens)
    if not arguments.quick:
        failed |= run(128, torch.float16, arguments.seed + 1, arguments.new_tokens)
        failed |= run(128, torch.bfloat16, arguments.seed + 2, arguments.new_tokens)
    print("FAILED" if failed else "all alike")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
