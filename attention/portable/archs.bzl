"""Architectures of kernels that are not Hopper's own."""

# Beside sm_90: sm_80 machine code, which runs on every 8.x, and PTX for what
# comes later.
PORTABLE_COPTS = ["-gencode=arch=compute_80,code=[sm_80,compute_80]"]
