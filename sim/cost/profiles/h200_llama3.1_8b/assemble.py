#!/usr/bin/env python3
"""Makes the tables of this folder out of the two runs below raw/.

See README.md for why. Both are outputs of tools:profile_kernels; nothing else
goes in.
"""

import bisect
import collections
import csv
import os
import statistics

FOLDER = os.path.dirname(os.path.abspath(__file__))
IN_A_ROW = os.path.join(FOLDER, "raw", "2018")
PACED = os.path.join(FOLDER, "raw", "2041")
# Batches of up to so many tokens are timed between others; from the next size
# on, the card's clock is what a row of large batches leaves.
SMALL = 128
# Compared from here on: below, both runs are within their noise.
COMPARED = 256
# The last size that the paced run measured, and a size that the other one
# measured too fast for its neighbours.
LAST_PACED = 4096
DROPPED = {8064}


def rows(folder, name):
    with open(os.path.join(folder, name), newline="") as file:
        return list(csv.DictReader(file))


def at(points, x):
    """Linear between neighbours; the first and last values beyond."""
    xs = sorted(points)
    i = bisect.bisect_left(xs, x)
    if i < len(xs) and xs[i] == x:
        return points[x]
    if i == 0 or i == len(xs):
        return points[xs[0 if i == 0 else -1]]
    w = (x - xs[i - 1]) / (xs[i] - xs[i - 1])
    return points[xs[i - 1]] + w * (points[xs[i]] - points[xs[i - 1]])


def layer(folder, name):
    return {
        int(r["tokens"]): float(r["time_us"])
        for r in rows(folder, "dense.csv")
        if r["layer"] == name
    }


def line(samples):
    """a, b of t = a + b m by least squares of relative errors."""
    sw = sx = sy = sxx = sxy = 0.0
    for m, t in samples:
        w = 1 / (t * t)
        sw += w
        sx += w * m
        sy += w * t
        sxx += w * m * m
        sxy += w * m * t
    b = (sw * sxy - sx * sy) / (sw * sxx - sx * sx)
    return (sy - b * sx) / sw, b


def linear_layers():
    row = layer(IN_A_ROW, "iteration")
    paced = layer(PACED, "iteration")
    both = sorted(t for t in row if t in paced and t >= COMPARED)
    slower = statistics.median(at(row, t) / at(paced, t) for t in both)
    print(f"in a row / paced, median of {len(both)} sizes: {slower:.4f}")
    result = {}
    for t in sorted(set(row) | set(paced)):
        if t in DROPPED:
            continue
        if t <= SMALL:
            if t in paced:
                result[t] = paced[t]
        elif t > LAST_PACED:
            result[t] = row[t]
        else:
            result[t] = (at(row, t) + slower * at(paced, t)) / 2
    return result


def attention():
    prefill, even, mixed = {}, {}, {}
    for r in rows(PACED, "attention.csv"):
        c, k, n, v = (
            int(r[x])
            for x in ("prefill_chunk", "kv_prefill", "n_decode", "kv_decode")
        )
        t = float(r["time_us"])
        if c == 0:
            even[n, v] = t
        elif n == 0:
            prefill[c, k] = t
        else:
            mixed[c, k, n, v] = t
    lengths = sorted({v for _, v in even})
    samples = collections.defaultdict(list)
    for r in rows(PACED, "skew.csv"):
        samples[int(r["n"])].append((float(r["kv_mean"]), float(r["t_skew_us"])))
    samples[1] = [(v, even[1, v]) for v in lengths]
    fits = {n: line(s) for n, s in samples.items()}
    a = {n: f[0] for n, f in fits.items()}
    b = {n: f[1] for n, f in fits.items()}

    def uneven(n, v):
        return max(0.0, at(a, n) + at(b, n) * v)

    decode = {
        (n, v): even[n, v] if n == 1 else uneven(n, v)
        for n in sorted(fits)
        for v in lengths
    }
    for c, k, n, v in mixed:
        if n > 1:
            mixed[c, k, n, v] += uneven(n, v) - even[n, v]
    return prefill, decode, mixed


def main():
    with open(os.path.join(FOLDER, "dense.csv"), "w") as file:
        file.write("layer,tokens,time_us\n")
        for t, us in sorted(layer(PACED, "decode_iteration").items()):
            file.write(f"decode_iteration,{t},{us:.3f}\n")
        for t, us in sorted(linear_layers().items()):
            file.write(f"iteration,{t},{us:.3f}\n")
    prefill, decode, mixed = attention()
    with open(os.path.join(FOLDER, "attention.csv"), "w") as file:
        file.write("prefill_chunk,kv_prefill,n_decode,kv_decode,time_us\n")
        for (n, v), us in sorted(decode.items()):
            file.write(f"0,0,{n},{v},{us:.4f}\n")
        for (c, k), us in sorted(prefill.items()):
            file.write(f"{c},{k},0,0,{us:.4f}\n")
        for (c, k, n, v), us in sorted(mixed.items()):
            file.write(f"{c},{k},{n},{v},{max(0.0, us):.4f}\n")
    for name in ("per_sequence.csv", "host_overhead.csv"):
        with open(os.path.join(PACED, name)) as source:
            text = source.read()
        with open(os.path.join(FOLDER, name), "w") as file:
            file.write(text)


if __name__ == "__main__":
    main()
