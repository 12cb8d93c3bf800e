"""Joins timing.cc's lines with baseline.py's into one table.

Usage: table.py OURS.csv CUDNN.csv
"""

import sys


def read(path):
    rows = {}
    for line in open(path, encoding="utf-8"):
        fields = line.strip().split(",")
        if len(fields) == 5 and not line.startswith("#"):
            rows[(fields[0], fields[1])] = fields[2:]
    return rows


def main():
    ours, cudnn = read(sys.argv[1]), read(sys.argv[2])
    copy = next((float(r[1]) for k, r in ours.items() if k[0] == "device-copy"), None)
    print(f"{'path':26} {'case':>14} {'us':>10} {'figure':>9} {'unit':8} {'cuDNN us':>9} {'x cuDNN':>8} {'x copy':>7}")
    for (path, label), (us, figure, unit) in ours.items():
        other = cudnn.get((path.removesuffix("-portable"), label))
        if other is None and path.startswith("paged-prefill"):
            other = cudnn.get(("prefill-causal", label))
        ratio = f"{float(other[0]) / float(us):8.2f}" if other else " " * 8
        share = f"{float(figure) / copy:7.2f}" if unit == "GB/s" and copy else ""
        base = f"{float(other[0]):9.1f}" if other else " " * 9
        print(f"{path:26} {label:>14} {us:>10} {figure:>9} {unit:8} {base} {ratio} {share}")


if __name__ == "__main__":
    main()
