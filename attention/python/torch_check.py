"""interleave_attention against float64 attention written out in torch.

Random shapes, masks, lengths and values, new in each run, for as long as
--seconds says. An error may be twice that of 16-bit attention (float32 scores,
16-bit weights and results), and a unit in the last place; where torch's math
backend has the features of a case, also twice that backend's, or a unit in the
last place more: at the same precision (16 bits between its steps), and as it
computes by default (float32 between its steps, rounded once). Needs a GPU.
"""

import argparse
import math
import os
import random
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torch.nn.attention import SDPBackend, sdpa_kernel  # noqa: E402

import interleave_attention as attention  # noqa: E402

DEVICE = "cuda"


def attend(q, k, v, case, exact):
    """One sequence: (out, lse [heads, queries]), in float64 or as 16 bits do."""
    queries, keys = q.shape[0], k.shape[0]
    kind = torch.float64 if exact else torch.float32
    group = q.shape[1] // k.shape[1]
    qf = q.to(kind).transpose(0, 1)
    kf = k.to(kind).repeat_interleave(group, 1).transpose(0, 1)
    vf = v.to(kind).repeat_interleave(group, 1).transpose(0, 1)
    scores = qf @ kf.transpose(1, 2) * case["scale"]
    if case["softcap"]:
        scores = case["softcap"] * torch.tanh(scores / case["softcap"])
    i = torch.arange(queries, device=DEVICE)[:, None] + keys - queries
    j = torch.arange(keys, device=DEVICE)[None, :]
    left, right = case["window"]
    if case["causal"]:
        right = 0
    seen = torch.ones(queries, keys, dtype=torch.bool, device=DEVICE)
    if left >= 0:
        seen &= j >= i - left
    if right >= 0:
        seen &= j <= i + right
    scores = scores.masked_fill(~seen, -math.inf)
    empty = ~seen.any(1)
    if case["sinks"] is not None:
        sinks = case["sinks"].to(kind)[:, None, None].expand(-1, queries, 1)
        scores = torch.cat([scores, sinks], -1)
    lse = torch.logsumexp(scores, -1).masked_fill(empty, -math.inf)
    weights = torch.exp(scores - lse[..., None])[..., :keys]
    weights = weights.masked_fill(empty[:, None], 0)
    if not exact:
        weights = weights.to(q.dtype).to(kind)
    out = (weights @ vf).transpose(0, 1)
    return (out if exact else out.to(q.dtype).to(kind)), lse


def math_backend(q, k, v, case, sixteen_bits):
    """One sequence by torch's math backend; None where that lacks a feature."""
    plain = not case["softcap"] and case["sinks"] is None
    if not plain or case["window"] != (-1, -1) or k.shape[0] == 0:
        return None
    if case["causal"] and k.shape[0] < q.shape[0]:
        return None  # empty rows, which it makes NaN
    i = torch.arange(q.shape[0], device=DEVICE)[:, None] + k.shape[0] - q.shape[0]
    seen = torch.arange(k.shape[0], device=DEVICE)[None, :] <= i
    torch.backends.cuda.allow_fp16_bf16_reduction_math_sdp(sixteen_bits)
    with sdpa_kernel(SDPBackend.MATH):
        out = F.scaled_dot_product_attention(
            q.transpose(0, 1)[None],
            k.transpose(0, 1)[None],
            v.transpose(0, 1)[None],
            attn_mask=seen if case["causal"] else None,
            scale=case["scale"],
            enable_gqa=True,
        )
    return out[0].transpose(0, 1).double()


class Checker:
    def __init__(self):
        # Of each sequence: our largest error over the math backend's, and by
        # how many it was beyond both twice that and a unit more.
        self.math_ratios = {True: [], False: []}
        self.beyond_math = {True: 0, False: 0}
        self.cases = {}
        self.failures = 0
        self.worst = 0.0

    def near(self, name, case, out, lse, parts):
        """out [rows...], lse [heads, rows] against the sequences of parts."""
        problem = None
        for rows, q, k, v in parts:
            if q.shape[0] == 0:
                continue
            exact, exact_lse = attend(q, k, v, case, True)
            rough, rough_lse = attend(q, k, v, case, False)
            unit = torch.finfo(q.dtype).eps * exact.abs().clamp_min(2.0**-10)
            allowed = 2 * (rough - exact).abs().max() + unit
            error = (out[rows].double() - exact).abs()
            bad = ~(error <= allowed)
            self.worst = max(self.worst, (error / allowed).max().item())
            for sixteen_bits in (True, False):
                problem = self.near_math(q, k, v, case, sixteen_bits, exact, error) or problem
            if bad.any():
                problem = "out is off by %g, allowed %g" % (
                    error.nan_to_num(math.inf)[bad].max(),
                    allowed[bad].min(),
                )
            if lse is None:
                continue
            mine = lse[:, rows].double()
            infinite = torch.isinf(exact_lse)
            gap = (mine - exact_lse)[~infinite].abs()
            allowed = 2 * (rough_lse - exact_lse)[~infinite].abs() + 1e-4
            if not torch.equal(torch.isinf(mine), infinite) or (gap > allowed).any():
                problem = "lse is off by %s" % gap.max()
        self.cases[name] = self.cases.get(name, 0) + 1
        if problem:
            self.fail(name, case, problem)

    def near_math(self, q, k, v, case, sixteen_bits, exact, error):
        """What is wrong beside torch's math backend, or None."""
        out = math_backend(q, k, v, case, sixteen_bits)
        if out is None:
            return None
        most, math_most = error.max(), (out - exact).abs().max()
        self.math_ratios[sixteen_bits].append((most / math_most).item())
        last = torch.finfo(q.dtype).eps * 2.0 ** exact.abs().max().log2().floor()
        if most <= torch.maximum(2 * math_most, math_most + last):
            return None
        self.beyond_math[sixteen_bits] += 1
        return "out is off by %g, the math backend's by %g" % (most, math_most)

    def print_math(self, sixteen_bits):
        ratios = sorted(x for x in self.math_ratios[sixteen_bits] if math.isfinite(x))
        if not ratios:
            return
        print(
            "largest error of a sequence over the math backend's, %s between its steps: "
            "median %.2f, 99%% below %.2f, largest %.2f of %d; above 2: %d, of which by "
            "more than a unit in the last place: %d"
            % (
                "16 bits" if sixteen_bits else "float32",
                ratios[len(ratios) // 2],
                ratios[len(ratios) * 99 // 100],
                ratios[-1],
                len(ratios),
                sum(x > 2 for x in ratios),
                self.beyond_math[sixteen_bits],
            )
        )

    def equal(self, name, case, a, b):
        self.cases[name] = self.cases.get(name, 0) + 1
        if not torch.equal(a, b):
            self.fail(name, case, "differs from what it must equal")

    def fail(self, name, case, problem):
        self.failures += 1
        shown = {k: v for k, v in case.items() if not isinstance(v, torch.Tensor)}
        print("FAILED %s: %s in %s" % (name, problem, shown), flush=True)


def normal(case, *shape):
    return torch.randn(*shape, device=DEVICE, dtype=case["dtype"])


def ints(values):
    return torch.tensor(values, dtype=torch.int32, device=DEVICE)


def offsets(lengths):
    total = [0]
    for length in lengths:
        total.append(total[-1] + length)
    return ints(total), total


def random_case(r):
    head_dim = r.choice([64, 64, 128, 128, 128, 256, 80, 96, 192])
    kv_heads = r.choice([1, 2, 4])
    case = {
        "dtype": r.choice([torch.bfloat16, torch.bfloat16, torch.float16]),
        "head_dim": head_dim,
        "kv_heads": kv_heads,
        "heads": kv_heads * r.choice([1, 3, 4, 8]),
        "causal": r.random() < 0.6,
        "window": r.choice([(-1, -1), (-1, -1), (63, 0), (0, 0), (200, 30)]),
        "softcap": r.choice([0.0, 0.0, 20.0]),
        "scale": r.choice([1, 1, 2]) / math.sqrt(head_dim),
        "sinks": None,
    }
    if r.random() < 0.4:
        case["sinks"] = torch.randn(case["heads"], device=DEVICE)
    return case


def options(case):
    return {
        "softmax_scale": case["scale"],
        "causal": case["causal"],
        "window_size": case["window"],
        "softcap": case["softcap"],
        "s_aux": case["sinks"],
    }


def lengths_of(r, batch):
    q = [r.choice([0, 1, 1, 2, 17, 64, 130, 300]) for _ in range(batch)]
    k = [r.choice([0, 1, 16, 65, 127, 128, 400, 1000]) for _ in range(batch)]
    return q, k


class Pages:
    """A paged cache with values of the sequences in it, NaN elsewhere."""

    def __init__(self, r, case, keys, capacity):
        self.size = r.choice([1, 16, 32, 48, 128, 256])
        batch = len(keys)
        width = max(1, -(-capacity // self.size))
        blocks = batch * width + 3
        order = torch.randperm(blocks, device=DEVICE)[: batch * width]
        self.table = order.reshape(batch, width).to(torch.int32)
        shape = (blocks, self.size, case["kv_heads"], case["head_dim"])
        if r.random() < 0.5:
            both = torch.full((blocks, 2, *shape[1:]), math.nan, device=DEVICE)
            both = both.to(case["dtype"])
            self.k, self.v = both[:, 0], both[:, 1]
        else:
            self.k = torch.full(shape, math.nan, device=DEVICE).to(case["dtype"])
            self.v = self.k.clone()
        for b, length in enumerate(keys):
            if length > 0:
                self.write(b, 0, normal(case, length, *shape[2:]), "k")
                self.write(b, 0, normal(case, length, *shape[2:]), "v")
        for b, length in enumerate(keys):
            if length < 0:
                self.table[b] = -1

    def slots(self, b, begin, count):
        at = torch.arange(begin, begin + count, device=DEVICE)
        return self.table[b].long()[at // self.size], at % self.size

    def write(self, b, begin, rows, which):
        block, place = self.slots(b, begin, rows.shape[0])
        getattr(self, which)[block, place] = rows

    def read(self, b, count, which):
        block, place = self.slots(b, 0, count)
        return getattr(self, which)[block, place]


def check_varlen(r, checker):
    case = random_case(r)
    q_lens, k_lens = lengths_of(r, r.choice([1, 3, 7]))
    cu_q, begin = offsets(q_lens)
    cu_k, begin_k = offsets(k_lens)
    q = normal(case, begin[-1] + 5, case["heads"], case["head_dim"])
    k = normal(case, begin_k[-1], case["kv_heads"], case["head_dim"])
    v = normal(case, begin_k[-1], case["kv_heads"], case["head_dim"])
    out, lse, _ = attention.flash_attn_varlen_func(
        q, k, v, cu_q, cu_k, 4096, 4096, return_attn_probs=True, **options(case)
    )
    parts = []
    for b in range(len(q_lens)):
        rows = slice(begin[b], begin[b + 1])
        keys = slice(begin_k[b], begin_k[b + 1])
        parts.append((rows, q[rows], k[keys], v[keys]))
    checker.near("varlen", case, out, lse, parts)


def check_paged_varlen(r, checker):
    case = random_case(r)
    q_lens, k_lens = lengths_of(r, r.choice([1, 4]))
    pages = Pages(r, case, k_lens, max(k_lens) + 40)
    cu_q, begin = offsets(q_lens)
    cu_k, _ = offsets(k_lens)
    q = normal(case, begin[-1], case["heads"], case["head_dim"])
    out, lse = attention.flash_attn_varlen_func(
        q, pages.k, pages.v, cu_q, cu_k, 4096, 4096, block_table=pages.table,
        return_softmax_lse=True, **options(case),
    )
    parts = []
    for b in range(len(q_lens)):
        rows = slice(begin[b], begin[b + 1])
        keys = [pages.read(b, k_lens[b], which) for which in "kv"]
        parts.append((rows, q[rows], *keys))
    checker.near("varlen with block_table", case, out, lse, parts)


def rotate(x, positions, cos, sin, interleaved):
    """float32 rotation of x [tokens, heads, dim], rounded to its own type."""
    half = cos.shape[1]
    c = cos[positions].float()[:, None]
    s = sin[positions].float()[:, None]
    result = x.float().clone()
    if interleaved:
        a, b = x[..., 0 : 2 * half : 2].float(), x[..., 1 : 2 * half : 2].float()
        result[..., 0 : 2 * half : 2] = a * c - b * s
        result[..., 1 : 2 * half : 2] = a * s + b * c
    else:
        a, b = x[..., :half].float(), x[..., half : 2 * half].float()
        result[..., :half] = a * c - b * s
        result[..., half : 2 * half] = a * s + b * c
    return result.to(x.dtype)


def check_kvcache(r, checker):
    case = random_case(r)
    batch = r.choice([1, 3, 9])
    queries = r.choice([1, 1, 1, 4, 40])
    cached = [r.choice([-1, 0, 1, 31, 128, 777]) for _ in range(batch)]
    pages = Pages(r, case, cached, max(cached) + queries + 20)
    q = normal(case, batch, queries, case["heads"], case["head_dim"])
    k = normal(case, batch, queries, case["kv_heads"], case["head_dim"])
    v = normal(case, batch, queries, case["kv_heads"], case["head_dim"])
    rotary = {}
    rotated_q, rotated_k = q, k
    local = case["causal"] or case["window"] != (-1, -1)
    if r.random() < 0.3 and (queries == 1 or local):
        half = r.choice([16, 32])
        capacity = pages.table.shape[1] * pages.size
        cos, sin = normal(case, capacity, half), normal(case, capacity, half)
        interleaved = r.random() < 0.5
        rotary = {
            "rotary_cos": cos,
            "rotary_sin": sin,
            "rotary_interleaved": interleaved,
        }
        rotated_q, rotated_k = q.clone(), k.clone()
        for b, length in enumerate(cached):
            if length >= 0:
                at = torch.arange(length, length + queries, device=DEVICE)
                rotated_q[b] = rotate(q[b], at, cos, sin, interleaved)
                rotated_k[b] = rotate(k[b], at, cos, sin, interleaved)
    out, lse = attention.flash_attn_with_kvcache(
        q, pages.k, pages.v, k, v, cache_seqlens=ints(cached),
        block_table=pages.table, return_softmax_lse=True, **rotary, **options(case),
    )
    parts = []
    for b, length in enumerate(cached):
        rows = slice(b * queries, (b + 1) * queries)
        if length < 0:
            nothing = k[b][:0]
            parts.append((rows, q[b], nothing, nothing))
            continue
        keys = [pages.read(b, length + queries, which) for which in "kv"]
        checker.equal("append v", case, keys[1][length:], v[b])
        if not rotary:
            checker.equal("append k", case, keys[0][length:], k[b])
        elif (keys[0][length:].float() - rotated_k[b].float()).abs().max() > 0.1:
            checker.fail("rotary", case, "an appended key is off")
        parts.append((rows, rotated_q[b], *keys))
    name = "kvcache with rotary" if rotary else "kvcache"
    if rotary:  # a rotated query may round otherwise: compare loosely, on bf16's grid
        return check_loosely(name, checker, case, out.flatten(0, 1), parts)
    flat = lse.permute(1, 0, 2).flatten(1)
    checker.near(name, case, out.flatten(0, 1), flat, parts)


def check_loosely(name, checker, case, out, parts):
    checker.cases[name] = checker.cases.get(name, 0) + 1
    for rows, q, k, v in parts:
        exact, _ = attend(q, k, v, case, True)
        error = (out[rows].double() - exact).abs().max().item()
        if not error <= 0.02 * max(1.0, exact.abs().max().item()):
            checker.fail(name, case, "out is off by %g" % error)


def check_rows_cache(r, checker):
    """A cache without pages, of which cache_batch_idx picks rows."""
    case = random_case(r)
    slots = r.choice([96, 100, 256, 4096])
    whole = normal(case, 5, slots + r.choice([0, 32]), case["kv_heads"], case["head_dim"])
    k_cache, v_cache = whole[:, :slots], whole.flip(0)[:, :slots]
    cached = [r.choice([0, 5, 33, slots - 1]) for _ in range(3)]
    picked = r.sample(range(5), 3)
    q = normal(case, 3, 1, case["heads"], case["head_dim"])
    k = normal(case, 3, 1, case["kv_heads"], case["head_dim"])
    out = attention.flash_attn_with_kvcache(
        q, k_cache, v_cache, k, k, cache_seqlens=ints(cached),
        cache_batch_idx=ints(picked), **options(case),
    )
    parts = []
    for b, length in enumerate(cached):
        keys = [c[picked[b], : length + 1] for c in (k_cache, v_cache)]
        checker.equal("append to a row", case, keys[0][length], k[b, 0])
        parts.append((slice(b, b + 1), q[b], *keys))
    checker.near("kvcache without pages", case, out.flatten(0, 1), None, parts)


def check_mixed(r, checker):
    """Chunks and decodes in one call, twice under one plan (two layers)."""
    case = random_case(r)
    batch = r.choice([2, 6, 12])
    cached = [r.choice([-1, 0, 1, 40, 128, 900]) for _ in range(batch)]
    q_lens = [r.choice([0, 1, 1, 1, 2, 60, 257]) for _ in range(batch)]
    cu_q, begin = offsets(q_lens)
    total = begin[-1]
    plan = None
    capacity = max(cached) + max(q_lens) + 9
    for layer in range(2):
        pages = Pages(r, case, cached, capacity)
        if layer == 0:
            plan = attention.Plan(
                case["heads"], case["kv_heads"], case["head_dim"], 16, 4096,
                dtype=case["dtype"], causal=case["causal"], window_size=case["window"],
                batch_invariant=r.random() < 0.3,
            )
            plan.update(
                ints(cached), cu_q, total_q=total, max_seqlen_k=capacity, append=True
            )
        q = normal(case, total, case["heads"], case["head_dim"])
        k = normal(case, total, case["kv_heads"], case["head_dim"])
        v = normal(case, total, case["kv_heads"], case["head_dim"])
        out, lse = attention.paged_attention(
            q, pages.k, pages.v, pages.table, k=k, v=v, plan=plan,
            softmax_scale=case["scale"], softcap=case["softcap"], s_aux=case["sinks"],
            return_softmax_lse=True,
        )
        parts = []
        for b, length in enumerate(cached):
            rows = slice(begin[b], begin[b + 1])
            if length < 0:
                parts.append((rows, q[rows], k[:0], k[:0]))
                continue
            keys = [pages.read(b, length + q_lens[b], which) for which in "kv"]
            checker.equal("append of a mix", case, keys[0][length:], k[rows])
            parts.append((rows, q[rows], *keys))
        checker.near("mixed", case, out, lse, parts)
    torch.cuda.synchronize()
    plan.close()


def check_graph(r, checker):
    """A captured call replays on lengths that shrink and grow."""
    case = random_case(r)
    batch = 5
    pages = Pages(r, case, [300] * batch, 400)
    q = normal(case, batch, 1, case["heads"], case["head_dim"])
    k = normal(case, batch, 1, case["kv_heads"], case["head_dim"])
    lengths = ints([7] * batch)

    def call():
        return attention.flash_attn_with_kvcache(
            q, pages.k, pages.v, k, k, cache_seqlens=lengths,
            block_table=pages.table, **options(case),
        )

    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.stream(side):
        call()
    with torch.cuda.graph(graph, stream=side):
        out = call()
    for _ in range(3):
        cached = [r.choice([-1, 0, 50, 255, 299]) for _ in range(batch)]
        lengths.copy_(ints(cached))
        graph.replay()
        torch.cuda.synchronize()
        parts = []
        for b, length in enumerate(cached):
            count = max(length + 1, 0)
            keys = [pages.read(b, count, which) for which in "kv"]
            parts.append((slice(b, b + 1), q[b], *keys))
        checker.near("graph", case, out.flatten(0, 1), None, parts)


def check_merge_and_moves(r, checker):
    case = random_case(r)
    case.update(causal=False, window=(-1, -1), sinks=None)
    length, queries = 333, 9
    q = normal(case, queries, case["heads"], case["head_dim"])
    k = normal(case, length, case["kv_heads"], case["head_dim"])
    v = normal(case, length, case["kv_heads"], case["head_dim"])
    cut = r.choice([0, 1, 100, 333])
    cu_q = ints([0, queries])
    halves = []
    for part in (slice(0, cut), slice(cut, length)):
        halves += attention.flash_attn_varlen_func(
            q, k[part], v[part], cu_q, ints([0, k[part].shape[0]]), queries, length,
            return_softmax_lse=True, **options(case),
        )
    out, lse = attention.merge_states(halves[0], halves[1], halves[2], halves[3])
    # Two roundings of halves come on top.
    check_loosely("merge", checker, case, out, [(slice(0, queries), q, k, v)])
    pages = Pages(r, case, [0], length)
    block, place = pages.slots(0, 0, length)
    attention.cache_scatter(k, v, pages.k, pages.v, block * pages.size + place)
    checker.equal("scatter", case, pages.read(0, length, "k"), k)
    k2, v2 = torch.empty_like(k), torch.empty_like(v)
    attention.cache_gather(pages.k, pages.v, pages.table, ints([0, length]), k2, v2)
    checker.equal("gather", case, v2, v)


class DLPackOnly:
    """Hides everything of a tensor but DLPack."""

    def __init__(self, tensor):
        self.tensor = tensor
        self.shape = tuple(tensor.shape)

    def __dlpack__(self, stream=None):
        return self.tensor.__dlpack__(stream=stream)

    def __dlpack_device__(self):
        return self.tensor.__dlpack_device__()


def check_dlpack(r, checker):
    case = random_case(r)
    case["sinks"] = None
    q = normal(case, 20, case["heads"], case["head_dim"])
    k = normal(case, 50, case["kv_heads"], case["head_dim"])
    out = torch.empty_like(q)
    cu_q, cu_k = ints([0, 20]), ints([0, 50])
    hidden = [DLPackOnly(t) for t in (q, k, k, cu_q, cu_k)]
    torch.cuda.synchronize()
    attention.flash_attn_varlen_func(
        *hidden, 20, 50, out=DLPackOnly(out), **options(case)
    )
    torch.cuda.synchronize()
    checker.near("DLPack", case, out, None, [(slice(0, 20), q, k, k)])


def check_dense(r, checker):
    case = random_case(r)
    q = normal(case, 3, 70, case["heads"], case["head_dim"])
    k = normal(case, 3, 90, case["kv_heads"], case["head_dim"])
    out = attention.flash_attn_func(q, k, k, **options(case))
    parts = [(slice(70 * b, 70 * b + 70), q[b], k[b], k[b]) for b in range(3)]
    checker.near("dense", case, out.flatten(0, 1), None, parts)


CHECKS = [
    check_varlen,
    check_paged_varlen,
    check_kvcache,
    check_rows_cache,
    check_mixed,
    check_graph,
    check_merge_and_moves,
    check_dlpack,
    check_dense,
]


def host_microseconds(call, count=300):
    """Of the host alone: the device runs behind."""
    for _ in range(20):
        call()
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(count):
        call()
    seconds = time.perf_counter() - begin
    torch.cuda.synchronize()
    return seconds / count * 1e6


def print_host_times():
    q = torch.randn(4, 1, 8, 128, device=DEVICE, dtype=torch.bfloat16)
    k = torch.randn(4, 1, 2, 128, device=DEVICE, dtype=torch.bfloat16)
    cache = torch.randn(8, 256, 2, 128, device=DEVICE, dtype=torch.bfloat16)
    table = torch.arange(8, dtype=torch.int32, device=DEVICE).reshape(4, 2)
    lengths = ints([10, 20, 30, 40])
    plan = attention.Plan(8, 2, 128, 4, 4)
    plan.update(lengths, total_q=4, max_seqlen_k=512, append=True)
    calls = {
        "flash_attn_with_kvcache": lambda: attention.flash_attn_with_kvcache(
            q, cache, cache, k, k, cache_seqlens=lengths, block_table=table
        ),
        "paged_attention with a plan": lambda: attention.paged_attention(
            q[:, 0], cache, cache, table, k=k[:, 0], v=k[:, 0], plan=plan
        ),
    }
    for name, call in calls.items():
        print("%5.1f us of the host: %s" % (host_microseconds(call), name))
    plan.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    arguments = parser.parse_args()
    print("seed", arguments.seed, "torch", torch.__version__, flush=True)
    r = random.Random(arguments.seed)
    torch.manual_seed(arguments.seed)
    checker = Checker()
    end = time.time() + arguments.seconds
    with torch.no_grad():
        while time.time() < end and checker.failures < 20:
            for check in CHECKS:
                check(r, checker)
        torch.cuda.synchronize()
    for name, count in sorted(checker.cases.items()):
        print("%6d %s" % (count, name))
    print("largest share of the allowed error: %.2f" % checker.worst)
    for sixteen_bits in (True, False):
        checker.print_math(sixteen_bits)
    print_host_times()
    print("%d failures" % checker.failures)
    return 1 if checker.failures or not checker.cases else 0


if __name__ == "__main__":
    sys.exit(main())
