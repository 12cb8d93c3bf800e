"""Lets interleave_attention answer to the name flash_attn.

    import as_flash_attn
    as_flash_attn.install()
    import transformers  # finds flash-attn 2 to be there

Libraries look for flash-attn as a module and as an installed distribution, so
both are written, into a temporary folder that joins sys.path: a module
flash_attn of this project's functions, and metadata that says so. To be called
before the library in question is imported.
"""

import atexit
import os
import shutil
import sys
import tempfile

# The release whose parameters interleave_attention has.
VERSION = "2.8.3"

_INIT = '''"""interleave_attention under the name of flash_attn."""

from interleave_attention import (
    flash_attn_func,
    flash_attn_varlen_func,
    flash_attn_with_kvcache,
)

__version__ = "%s"
'''

_PADDING = '''"""Between padded batches and rows without padding."""

import torch


def unpad_input(hidden_states, attention_mask, unused_mask=None):
    """The rows that the masks keep, their indices, offsets, longest, lengths."""
    kept = attention_mask if unused_mask is None else attention_mask + unused_mask
    lengths = kept.sum(-1, dtype=torch.int32)
    offsets = torch.zeros(len(lengths) + 1, dtype=torch.int32, device=kept.device)
    offsets[1:] = lengths.cumsum(0)
    indices = kept.flatten().nonzero().flatten()
    rows = hidden_states.flatten(0, 1)[indices]
    used = attention_mask.sum(-1, dtype=torch.int32)
    return rows, indices, offsets, int(lengths.max()), used


def pad_input(hidden_states, indices, batch, seqlen):
    """The padded batch [batch, seqlen, ...], zeros where no row goes."""
    padded = hidden_states.new_zeros(batch * seqlen, *hidden_states.shape[1:])
    padded[indices] = hidden_states
    return padded.unflatten(0, (batch, seqlen))
'''

_METADATA = """Metadata-Version: 2.1
Name: flash-attn
Version: %s
Summary: Stand-in for flash-attn: interleave_attention under its name
"""


def install():
    """Puts the stand-in first on sys.path, and returns its folder."""
    folder = tempfile.mkdtemp(prefix="interleave_flash_attn_")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    files = {
        "flash_attn/__init__.py": _INIT % VERSION,
        "flash_attn/bert_padding.py": _PADDING,
        "flash_attn-%s.dist-info/METADATA" % VERSION: _METADATA % VERSION,
        "flash_attn-%s.dist-info/top_level.txt" % VERSION: "flash_attn\n",
        "flash_attn-%s.dist-info/INSTALLER" % VERSION: "interleave\n",
    }
    for name, text in files.items():
        path = os.path.join(folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:0] = [folder] + ([] if here in sys.path else [here])
    return folder
