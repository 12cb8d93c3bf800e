"""Refusals of the real library, by way of Python; no GPU needed."""

import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import fake_torch as torch  # noqa: E402
import interleave_attention as attention  # noqa: E402


def bf16(*shape):
    return torch.Tensor(shape, torch.bfloat16)


class SharedLibraryTest(unittest.TestCase):
    def test_loads(self):
        self.assertEqual(attention.load().interleave_attention_abi_version(), 1)

    def test_plans_are_refused_by_field(self):
        good = {
            "num_heads": 32,
            "num_kv_heads": 8,
            "head_dim": 128,
            "max_batch": 4,
            "max_total_q": 64,
        }
        for change, message in (
            ({"head_dim": 72}, "shape.head_dim is 72"),
            ({"num_heads": 30}, "shape.num_heads is 30"),
            ({"num_kv_heads": -1}, "shape.num_kv_heads is -1"),
            ({"max_batch": -2}, "max_batch is -2"),
            ({"max_total_q": -3}, "max_total_q is -3"),
            ({"max_total_new": -4}, "max_total_new is -4"),
            ({"device": -5}, "device is -5"),
        ):
            with self.subTest(message):
                with self.assertRaisesRegex(ValueError, "^" + message):
                    attention.Plan(**{**good, **change})

    def test_calls_reach_the_library(self):
        q, k = bf16(2, 8, 72), bf16(5, 2, 72)
        offsets = torch.Tensor([3], torch.int32)
        with self.assertRaisesRegex(ValueError, "^shape.head_dim is 72"):
            attention.flash_attn_varlen_func(q, k, k, offsets, offsets, 1, 3)

    def test_moves_are_refused_by_field(self):
        k, cache = bf16(2, 2, 128), bf16(5, 33, 2, 128)
        slots = torch.Tensor([2], torch.int64)
        with self.assertRaisesRegex(ValueError, "^cache.block_size is 33"):
            attention.cache_scatter(k, k, cache, cache, slots)
        table, offsets = torch.Tensor([2, 4], torch.int32), torch.Tensor([3], torch.int32)
        with self.assertRaisesRegex(ValueError, "^cache.block_size is 33"):
            attention.cache_gather(cache, cache, table, offsets, k, k)
        a, lse = bf16(2, 8, 40), torch.Tensor([8, 2], torch.float32)
        with self.assertRaisesRegex(ValueError, "^shape.head_dim is 40"):
            attention.merge_states(a, lse, a, lse)


if __name__ == "__main__":
    unittest.main()
