"""Times of cuDNN, through torch.nn.functional.scaled_dot_product_attention.

Prints lines like timing.cc's: path,label,microseconds,figure,unit.
"""

import statistics
import sys

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

HEADS, KV_HEADS, DIM = 32, 8, 128


def median_us(calls):
    """Median device time of the calls, taken in turn, replayed from graphs."""
    for call in calls:
        call()
    torch.cuda.synchronize()
    graphs = []
    for call in calls:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            call()
        graphs.append(graph)
    times = []
    for i in range(41):
        begin = torch.cuda.Event(enable_timing=True)
        end = torch.cuda.Event(enable_timing=True)
        begin.record()
        graphs[i % len(graphs)].replay()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) * 1000)
    return statistics.median(times[3:])


def random(*shape):
    return torch.randn(*shape, device="cuda", dtype=torch.bfloat16)


def attend(batch, q_len, k_len, causal, rotate):
    calls = []
    for _ in range(rotate):
        q = random(batch, q_len, HEADS, DIM).transpose(1, 2)
        k = random(batch, k_len, KV_HEADS, DIM).transpose(1, 2)
        v = random(batch, k_len, KV_HEADS, DIM).transpose(1, 2)
        calls.append(
            lambda q=q, k=k, v=v: F.scaled_dot_product_attention(
                q, k, v, is_causal=causal, enable_gqa=True
            )
        )
    with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
        return median_us(calls)


def main():
    if not torch.cuda.is_available():
        print("no GPU for torch", file=sys.stderr)
        return
    torch.manual_seed(0)
    print("# torch", torch.__version__, "cuDNN", torch.backends.cudnn.version())
    for causal in (True, False):
        for seqlen in (512, 1024, 2048, 4096, 8192, 16384):
            batch = 16384 // seqlen
            us = attend(batch, seqlen, seqlen, causal, 3)
            flops = 4 * batch * HEADS * DIM * seqlen * seqlen
            flops = flops / 2 if causal else flops
            name = "prefill-causal" if causal else "prefill-full"
            print(f"{name},{seqlen},{us:.2f},{flops / us / 1e6:.1f},TFLOP/s", flush=True)
    for context in (1024, 8192):
        for batch in (16, 64):
            # Contiguous keys: what the gather of the founding way leads to.
            try:
                us = attend(batch, 1, context, False, 2)
            except RuntimeError as error:
                print(f"# decode {batch}x{context}: {error}")
                continue
            gb_s = 4 * batch * context * KV_HEADS * DIM / us / 1e3
            print(f"decode,{batch}x{context},{us:.2f},{gb_s:.1f},GB/s", flush=True)


if __name__ == "__main__":
    main()
