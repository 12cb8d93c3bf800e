"""Argument handling of interleave_attention.py, over a library that records."""

import ctypes
import inspect
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import fake_torch as torch  # noqa: E402
import interleave_attention as attention  # noqa: E402

LIBRARY = attention.load()
LIBRARY.fake_log.restype = ctypes.c_char_p
LIBRARY.fake_fail.argtypes = [ctypes.c_int32, ctypes.c_char_p]


def calls():
    """What the library was called with, oldest first: [(name, {field: text})]."""
    lines = LIBRARY.fake_log().decode().splitlines()
    words = [line.split(" ") for line in lines]
    return [(w[0], dict(field.split("=") for field in w[1:])) for w in words]


def triple(tensor, token_stride, head_stride):
    return "%d:%d:%d" % (tensor.address, token_stride, head_stride)


def bf16(*shape, **kwargs):
    return torch.Tensor(shape, torch.bfloat16, **kwargs)


def ints(*shape):
    return torch.Tensor(shape, torch.int32)


class AttentionTest(unittest.TestCase):
    def setUp(self):
        attention._plans.clear()
        torch.cuda.stream = 0
        torch.cuda.capturing = False
        LIBRARY.fake_clear()

    def only(self, name):
        found = [fields for call, fields in calls() if call == name]
        self.assertEqual(len(found), 1, calls())
        return found[0]

    def check(self, fields, **expected):
        for name, value in expected.items():
            self.assertEqual(fields[name.replace("__", ".")], str(value), name)


class SignatureTest(unittest.TestCase):
    """The names, order and defaults of the flash-attn package (2.8)."""

    def check(self, function, expected):
        kinds = inspect.Parameter
        positional = [
            (p.name, None if p.default is kinds.empty else repr(p.default))
            for p in inspect.signature(function).parameters.values()
            if p.kind == kinds.POSITIONAL_OR_KEYWORD
        ]
        self.assertEqual(positional, expected)

    def test_varlen(self):
        self.check(
            attention.flash_attn_varlen_func,
            [(n, None) for n in "q k v cu_seqlens_q cu_seqlens_k".split()]
            + [("max_seqlen_q", None), ("max_seqlen_k", None)]
            + [("dropout_p", "0.0"), ("softmax_scale", "None"), ("causal", "False")]
            + [("window_size", "(-1, -1)"), ("softcap", "0.0")]
            + [("alibi_slopes", "None"), ("deterministic", "False")]
            + [("return_attn_probs", "False"), ("block_table", "None")],
        )

    def test_kvcache(self):
        self.check(
            attention.flash_attn_with_kvcache,
            [(n, None) for n in "q k_cache v_cache".split()]
            + [(n, "None") for n in "k v rotary_cos rotary_sin".split()]
            + [(n, "None") for n in "cache_seqlens cache_batch_idx".split()]
            + [(n, "None") for n in "cache_leftpad block_table".split()]
            + [("softmax_scale", "None"), ("causal", "False")]
            + [("window_size", "(-1, -1)"), ("softcap", "0.0")]
            + [("rotary_interleaved", "True"), ("alibi_slopes", "None")]
            + [("num_splits", "0"), ("return_softmax_lse", "False")],
        )

    def test_dense(self):
        self.check(
            attention.flash_attn_func,
            [("q", None), ("k", None), ("v", None), ("dropout_p", "0.0")]
            + [("softmax_scale", "None"), ("causal", "False")]
            + [("window_size", "(-1, -1)"), ("softcap", "0.0")]
            + [("alibi_slopes", "None"), ("deterministic", "False")]
            + [("return_attn_probs", "False")],
        )

    def test_extras_are_found_by_name(self):
        for function in (
            attention.flash_attn_varlen_func,
            attention.flash_attn_with_kvcache,
            attention.paged_attention,
        ):
            parameters = inspect.signature(function).parameters
            for name in ("block_table", "s_aux", "return_softmax_lse", "softcap"):
                self.assertIn(name, parameters)


class VarlenTest(AttentionTest):
    def arguments(self):
        return {
            "q": bf16(14, 8, 128),
            "k": bf16(8, 2, 128),
            "v": bf16(8, 2, 128),
            "cu_seqlens_q": ints(4),
            "cu_seqlens_k": ints(4),
            "max_seqlen_q": 10,
            "max_seqlen_k": 7,
        }

    def test_contiguous(self):
        a = self.arguments()
        torch.cuda.stream = 77
        out = attention.flash_attn_varlen_func(**a, causal=True)
        self.assertEqual(out.shape, (14, 8, 128))
        self.assertIs(out.dtype, torch.bfloat16)
        self.check(
            self.only("plan_create"),
            dtype=0, num_heads=8, num_kv_heads=2, head_dim=128, causal=1,
            window_left=-1, window_right=0, max_batch=64, max_total_q=256,
            max_total_new=0, batch_invariant=0, rotate_queries=0,
            portable_kernels=0, check_device_metadata=0, device=0,
        )
        self.check(
            self.only("plan_update"),
            batch=3, append=0, total_q=14, total_new=0, max_seqlen_k=8,
            cu_seqlens_q=a["cu_seqlens_q"].address,
            cu_seqlens_k=a["cu_seqlens_k"].address,
            cache_seqlens=0, cu_seqlens_new=0, stream=77,
        )
        self.check(
            self.only("varlen_forward"),
            q=triple(a["q"], 1024, 128), k=triple(a["k"], 256, 128),
            v=triple(a["v"], 256, 128), out=triple(out, 1024, 128), total_k=8,
            lse=0, softmax_scale=0, softcap=0, sinks=0, stream=77,
        )

    def test_options(self):
        sinks = torch.Tensor([8], torch.float32)
        attention.flash_attn_varlen_func(
            **self.arguments(), softmax_scale=0.25, window_size=(15, 3), softcap=30.0,
            s_aux=sinks, batch_invariant=True, deterministic=True,
        )
        self.check(
            self.only("plan_create"),
            causal=0, window_left=15, window_right=3, batch_invariant=1,
        )
        self.check(
            self.only("varlen_forward"),
            softmax_scale=0.25, softcap=30, sinks=sinks.address,
        )

    def test_causal_closes_the_right_side(self):
        attention.flash_attn_varlen_func(
            **self.arguments(), causal=True, window_size=(15, 3)
        )
        self.check(self.only("plan_create"), causal=1, window_left=15, window_right=0)

    def test_returns(self):
        a = self.arguments()
        out, lse = attention.flash_attn_varlen_func(**a, return_softmax_lse=True)
        self.assertEqual((out.shape, lse.shape), ((14, 8, 128), (8, 14)))
        self.assertIs(lse.dtype, torch.float32)
        self.check(self.only("varlen_forward"), lse=lse.address)
        out, lse, probs = attention.flash_attn_varlen_func(**a, return_attn_probs=True)
        self.assertEqual(lse.shape, (8, 14))
        self.assertIsNone(probs)
        given = bf16(14, 8, 128)
        self.assertIs(attention.flash_attn_varlen_func(**a, out=given), given)

    def test_paged(self):
        a = self.arguments()
        a["k"], a["v"] = bf16(9, 256, 2, 128), bf16(9, 256, 2, 128)
        table = ints(3, 5)
        attention.flash_attn_varlen_func(**a, causal=True, block_table=table)
        update = self.only("plan_update")
        self.check(update, batch=3, append=0, max_seqlen_k=1280, cu_seqlens_k=0)
        self.assertNotEqual(update["cache_seqlens"], "0")
        self.check(
            self.only("mixed_forward"),
            cache__k=a["k"].address, cache__v=a["v"].address, num_blocks=9,
            block_size=256, k_block_stride=65536, k_slot_stride=256,
            k_head_stride=128, v_block_stride=65536, v_slot_stride=256,
            v_head_stride=128, block_table="%d:5:5" % table.address,
            append_total_tokens=0,
        )

    def test_strided_views(self):
        a = self.arguments()
        a["q"] = bf16(14, 8, 128, strides=(8 * 256, 256, 1))
        a["k"] = bf16(8, 2, 128, strides=(1, 2048, 16))  # copied: rows are torn
        attention.flash_attn_varlen_func(**a)
        fields = self.only("varlen_forward")
        self.check(fields, q=triple(a["q"], 2048, 256))
        self.assertTrue(fields["k"].endswith(":256:128"))
        self.assertNotEqual(fields["k"].split(":")[0], str(a["k"].address))

    def test_strides_of_single_elements_do_not_matter(self):
        a = self.arguments()
        a["k"] = bf16(1, 1, 128, strides=(3, 7, 1))
        a["v"] = bf16(1, 1, 128, strides=(3, 7, 1))
        attention.flash_attn_varlen_func(**a)
        self.check(self.only("varlen_forward"), k=triple(a["k"], 128, 128))

    def test_plans_are_kept(self):
        a = self.arguments()
        attention.flash_attn_varlen_func(**a)
        attention.flash_attn_varlen_func(**a)
        a["q"] = bf16(200, 8, 128)  # the same power of four
        attention.flash_attn_varlen_func(**a)
        self.assertEqual([c for c, _ in calls()].count("plan_create"), 1)
        a["q"] = bf16(257, 8, 128)
        attention.flash_attn_varlen_func(**a)
        torch.cuda.stream = 5
        attention.flash_attn_varlen_func(**a)
        attention.flash_attn_varlen_func(**a, causal=True)
        created = [fields for call, fields in calls() if call == "plan_create"]
        self.assertEqual(
            [fields["max_total_q"] for fields in created], ["256"] + ["1024"] * 3
        )

    def test_capture_needs_a_call_before(self):
        a = self.arguments()
        torch.cuda.capturing = True
        with self.assertRaisesRegex(attention.AttentionError, "captured"):
            attention.flash_attn_varlen_func(**a)
        self.assertEqual(calls(), [])
        torch.cuda.capturing = False
        attention.flash_attn_varlen_func(**a)
        torch.cuda.capturing = True
        attention.flash_attn_varlen_func(**a)
        self.assertEqual([c for c, _ in calls()].count("varlen_forward"), 2)

    def test_refusals(self):
        cpu = torch.Device("cpu")
        other = torch.Device("cuda", 1)
        half = torch.float16
        cases = [
            (NotImplementedError, "^dropout_p", {"dropout_p": 0.1}),
            (NotImplementedError, "^alibi_slopes", {"alibi_slopes": bf16(8)}),
            (ValueError, "^softmax_scale is 0", {"softmax_scale": 0}),
            (ValueError, "^softmax_scale is -1", {"softmax_scale": -1.0}),
            (ValueError, "^s_aux has 3 entries", {"s_aux": torch.Tensor([3], torch.float32)}),
            (ValueError, "^cu_seqlens_q is int64", {"cu_seqlens_q": torch.Tensor([4], torch.int64)}),
            (ValueError, "^cu_seqlens_k has 3 entries, but", {"cu_seqlens_k": ints(3)}),
            (ValueError, "^q is on cpu", {"q": bf16(14, 8, 128, device=cpu)}),
            (ValueError, "^k is on device 1", {"k": bf16(8, 2, 128, device=other)}),
            (ValueError, "^v is float16", {"v": torch.Tensor([8, 2, 128], half)}),
            (ValueError, "^v has shape", {"v": bf16(9, 2, 128)}),
            (ValueError, "^k has shape", {"k": bf16(8, 2, 64), "v": bf16(8, 2, 64)}),
            (ValueError, "^q has 4 dimensions", {"q": bf16(1, 14, 8, 128)}),
            (ValueError, "^out has shape", {"out": bf16(14, 8, 64)}),
            (TypeError, "^k is a list", {"k": [1, 2]}),
            (ValueError, "^block_table is bfloat16", {
                "block_table": bf16(3, 2),
                "k": bf16(4, 16, 2, 128),
                "v": bf16(4, 16, 2, 128),
            }),
        ]
        for error, message, changes in cases:
            with self.subTest(message):
                with self.assertRaisesRegex(error, message):
                    attention.flash_attn_varlen_func(**{**self.arguments(), **changes})

    def test_gradients_are_refused(self):
        a = self.arguments()
        a["v"].requires_grad = True
        with self.assertRaisesRegex(NotImplementedError, "^v requires a gradient"):
            attention.flash_attn_varlen_func(**a)

    def test_the_librarys_errors(self):
        for code, error in (
            (3, ValueError),
            (11, ValueError),
            (12, NotImplementedError),
            (13, attention.AttentionError),
        ):
            LIBRARY.fake_fail(code, b"shape.head_dim is 72")
            with self.assertRaisesRegex(error, "shape.head_dim is 72"):
                attention.flash_attn_varlen_func(**self.arguments())

    def test_dense(self):
        q, k = bf16(3, 5, 8, 128), bf16(3, 7, 2, 128)
        out, lse, _ = attention.flash_attn_func(q, k, k, return_attn_probs=True)
        self.assertEqual((out.shape, lse.shape), (q.shape, (3, 8, 5)))
        self.check(self.only("plan_update"), batch=3, total_q=15, max_seqlen_k=21)


class KvCacheTest(AttentionTest):
    def arguments(self, batch=3, queries=1):
        return {
            "q": bf16(batch, queries, 8, 128),
            "k_cache": bf16(20, 32, 2, 128),
            "v_cache": bf16(20, 32, 2, 128),
            "k": bf16(batch, queries, 2, 128),
            "v": bf16(batch, queries, 2, 128),
            "cache_seqlens": ints(batch),
            "block_table": ints(batch, 4),
        }

    def test_decode(self):
        a = self.arguments()
        out = attention.flash_attn_with_kvcache(**a, causal=True)
        self.assertEqual(out.shape, (3, 1, 8, 128))
        self.check(
            self.only("plan_update"),
            batch=3, append=1, total_q=3, total_new=0, max_seqlen_k=128,
            cu_seqlens_q=0, cache_seqlens=a["cache_seqlens"].address,
            cu_seqlens_new=0,
        )
        self.check(
            self.only("decode_forward"),
            q=triple(a["q"], 1024, 128), append_k=triple(a["k"], 256, 128),
            append_v=triple(a["v"], 256, 128), append_total_tokens=3,
            rotary="0:0:0:0:0", block_size=32,
        )

    def test_several_queries_and_other_new_lengths(self):
        a = self.arguments(queries=5)
        a["k"], a["v"] = bf16(3, 2, 2, 128), bf16(3, 2, 2, 128)
        out, lse = attention.flash_attn_with_kvcache(**a, return_softmax_lse=True)
        self.assertEqual((out.shape, lse.shape), ((3, 5, 8, 128), (3, 8, 5)))
        self.assertEqual(lse.strides, (5, 15, 1))
        update = self.only("plan_update")
        self.check(update, batch=3, append=1, total_q=15, total_new=6)
        self.assertNotEqual(update["cu_seqlens_q"], "0")
        self.assertNotEqual(update["cu_seqlens_new"], "0")
        self.only("mixed_forward")

    def test_without_append(self):
        a = self.arguments()
        a["k"] = a["v"] = a["cache_seqlens"] = None
        attention.flash_attn_with_kvcache(**a)
        update = self.only("plan_update")
        self.check(update, append=0, total_q=3)
        self.assertNotEqual(update["cache_seqlens"], "0")

    def test_rotary(self):
        a = self.arguments()
        cos, sin = bf16(500, 32), bf16(500, 32)
        attention.flash_attn_with_kvcache(**a, rotary_cos=cos, rotary_sin=sin)
        self.check(self.only("plan_create"), rotate_queries=1)
        self.check(
            self.only("decode_forward"),
            rotary="%d:%d:500:64:1" % (cos.address, sin.address),
        )

    def test_cache_without_pages(self):
        a = self.arguments()
        a["block_table"] = None
        # Rows of 96 slots, 128 apart: pages of 32, three a row, rows four apart.
        for name in ("k_cache", "v_cache"):
            a[name] = bf16(7, 96, 2, 128, strides=(128 * 256, 256, 128, 1))
        attention.flash_attn_with_kvcache(**a, cache_batch_idx=ints(3))
        fields = self.only("decode_forward")
        self.check(
            fields,
            num_blocks=6 * 4 + 3, block_size=32, k_block_stride=32 * 256,
            k_slot_stride=256, k_head_stride=128,
        )
        self.assertTrue(fields["block_table"].endswith(":3:3"))
        self.check(self.only("plan_update"), max_seqlen_k=96)

    def test_cache_of_one_row(self):
        a = self.arguments(batch=1)
        a["block_table"] = None
        a["cache_seqlens"] = 7
        for name in ("k_cache", "v_cache"):
            a[name] = bf16(1, 4096, 2, 128)
        attention.flash_attn_with_kvcache(**a)
        self.check(self.only("decode_forward"), num_blocks=4, block_size=1024)

    def test_fused_cache_views(self):
        a = self.arguments()
        # [blocks, 2, slots, heads, dim], K and V its halves.
        strides = (2 * 32 * 256, 256, 128, 1)
        a["k_cache"] = bf16(20, 32, 2, 128, strides=strides)
        a["v_cache"] = bf16(20, 32, 2, 128, strides=strides)
        attention.flash_attn_with_kvcache(**a)
        self.check(self.only("decode_forward"), k_block_stride=16384, v_slot_stride=256)

    def test_refusals(self):
        cases = [
            (NotImplementedError, "^cache_leftpad", {"cache_leftpad": ints(3)}),
            (NotImplementedError, "^alibi_slopes", {"alibi_slopes": bf16(8)}),
            (NotImplementedError, "^num_splits", {"num_splits": 4}),
            (NotImplementedError, "^cache_batch_idx", {"cache_batch_idx": ints(3)}),
            (ValueError, "^cache_seqlens is None", {"cache_seqlens": None}),
            (ValueError, "^k and v have other", {"k": bf16(3, 2, 2, 128)}),
            (ValueError, "^k and v have other", {"v": None}),
            (ValueError, "^block_table has 2 rows", {"block_table": ints(2, 4)}),
            (ValueError, "^block_table has 3 rows", {"cache_seqlens": ints(4)}),
            (ValueError, "^v_cache has shape", {"v_cache": bf16(20, 16, 2, 128)}),
            (ValueError, "^k_cache has head_dim 64", {
                "k_cache": bf16(20, 32, 2, 64),
                "v_cache": bf16(20, 32, 2, 64),
            }),
            (ValueError, "^rotary_cos and rotary_sin", {"rotary_cos": bf16(500, 32)}),
            (ValueError, "^q has 3 dimensions", {"q": bf16(3, 8, 128)}),
        ]
        for error, message, changes in cases:
            with self.subTest(message):
                with self.assertRaisesRegex(error, message):
                    attention.flash_attn_with_kvcache(**{**self.arguments(), **changes})
        a = self.arguments(queries=4)
        with self.assertRaisesRegex(NotImplementedError, "^rotary_cos"):
            attention.flash_attn_with_kvcache(
                **a, rotary_cos=bf16(500, 32), rotary_sin=bf16(500, 32)
            )


class PagedTest(AttentionTest):
    def arguments(self):
        return {
            "q": bf16(40, 8, 128),
            "k_cache": bf16(20, 16, 2, 128),
            "v_cache": bf16(20, 16, 2, 128),
            "block_table": ints(3, 6),
            "k": bf16(40, 2, 128),
            "v": bf16(40, 2, 128),
        }

    def test_mixed(self):
        a = self.arguments()
        lengths, offsets = ints(3), ints(4)
        out = attention.paged_attention(
            **a, cache_seqlens=lengths, cu_seqlens_q=offsets, window_size=(63, 0)
        )
        self.assertEqual(out.shape, (40, 8, 128))
        self.check(
            self.only("plan_create"), causal=1, window_left=63, window_right=0
        )
        self.check(
            self.only("plan_update"),
            batch=3, append=1, total_q=40, max_seqlen_k=96,
            cu_seqlens_q=offsets.address, cache_seqlens=lengths.address,
        )
        self.check(self.only("mixed_forward"), append_total_tokens=40)

    def test_plan_of_an_iteration(self):
        a = self.arguments()
        plan = attention.Plan(8, 2, 128, max_batch=4, max_total_q=64)
        self.check(self.only("plan_create"), max_batch=4, max_total_q=64)
        plan.update(ints(3), ints(4), total_q=40, max_seqlen_k=96, append=True)
        attention.paged_attention(**a, plan=plan)
        attention.paged_attention(**a, plan=plan)
        names = [call for call, _ in calls()]
        self.assertEqual(names.count("plan_update"), 1)
        self.assertEqual(names.count("mixed_forward"), 2)
        with self.assertRaisesRegex(ValueError, "^k is None"):
            attention.paged_attention(**{**a, "k": None, "v": None}, plan=plan)
        with self.assertRaisesRegex(ValueError, "^plan is for"):
            attention.paged_attention(**{**a, "q": bf16(40, 4, 128)}, plan=plan)
        with self.assertRaisesRegex(ValueError, "^q has 39 tokens"):
            attention.paged_attention(**{**a, "q": bf16(39, 8, 128)}, plan=plan)
        plan.close()
        plan.close()
        self.only("plan_destroy")

    def test_sinks_of_another_type_are_converted(self):
        sinks = bf16(8)
        attention.paged_attention(
            **self.arguments(), cache_seqlens=ints(3), cu_seqlens_q=ints(4), s_aux=sinks
        )
        fields = self.only("mixed_forward")
        self.assertNotIn(fields["sinks"], ("0", str(sinks.address)))


class MovesTest(AttentionTest):
    def test_scatter(self):
        k, v = bf16(9, 2, 128), bf16(9, 2, 128)
        k_cache, v_cache = bf16(20, 16, 2, 128), bf16(20, 16, 2, 128)
        slots = torch.Tensor([9], torch.int64)
        attention.cache_scatter(k, v, k_cache, v_cache, slots)
        self.check(
            self.only("cache_scatter"),
            num_kv_heads=2, head_dim=128, k=triple(k, 256, 128), total_tokens=9,
            slot_mapping=slots.address, cache__k=k_cache.address, block_size=16,
        )
        with self.assertRaisesRegex(ValueError, "^slot_mapping is int32"):
            attention.cache_scatter(k, v, k_cache, v_cache, ints(9))

    def test_gather(self):
        k, v = bf16(9, 2, 128), bf16(9, 2, 128)
        k_cache, v_cache = bf16(20, 16, 2, 128), bf16(20, 16, 2, 128)
        table, offsets = ints(3, 4), ints(4)
        attention.cache_gather(k_cache, v_cache, table, offsets, k, v)
        self.check(
            self.only("cache_gather"),
            batch=3, cu_seqlens_k=offsets.address, total_k=9,
            block_table="%d:4:4" % table.address, v=triple(v, 256, 128),
        )

    def test_merge(self):
        a, b = bf16(9, 8, 128), bf16(9, 8, 128)
        lse_a = torch.Tensor([8, 9], torch.float32)
        lse_b = torch.Tensor([8, 9], torch.float32)
        out, lse = attention.merge_states(a, lse_a, b, lse_b)
        self.check(
            self.only("merge_states"),
            total_q=9, num_heads=8, a=triple(a, 1024, 128), lse_a=lse_a.address,
            b=triple(b, 1024, 128), lse_b=lse_b.address,
            out=triple(out, 1024, 128), lse=lse.address,
        )
        with self.assertRaisesRegex(ValueError, "^lse_b has shape"):
            attention.merge_states(a, lse_a, b, torch.Tensor([9, 8], torch.float32))


class DLPackTest(AttentionTest):
    """Tensors that offer DLPack and nothing else."""

    class Array:
        def __init__(self, tensor, code, bits, strides=True, offset=0):
            self.shape = tensor.shape
            n = len(tensor.shape)
            self.dims = (ctypes.c_int64 * n)(*tensor.shape)
            self.steps = (ctypes.c_int64 * n)(*tensor.strides)
            pointer = ctypes.POINTER(ctypes.c_int64)
            self.tensor = attention._DLTensor(
                tensor.address - offset, 2, 0, n, code, bits, 1,
                ctypes.cast(self.dims, pointer),
                ctypes.cast(self.steps, pointer) if strides else None,
                offset,
            )
            self.streams = []

        def __dlpack_device__(self):
            return (2, 0)

        def __dlpack__(self, stream=None):
            self.streams.append(stream)
            make = ctypes.pythonapi.PyCapsule_New
            make.restype = ctypes.py_object
            make.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
            return make(ctypes.addressof(self.tensor), b"dltensor", None)

    def test_varlen(self):
        q, k, out = bf16(14, 8, 128), bf16(8, 2, 128), bf16(14, 8, 128)
        fakes = [q, k, k, ints(4), ints(4)]
        kinds = [(4, 16)] * 3 + [(0, 32)] * 2
        arrays = [
            self.Array(t, code, bits, strides=i != 1, offset=64 * (i == 0))
            for i, (t, (code, bits)) in enumerate(zip(fakes, kinds))
        ]
        given = self.Array(out, 4, 16)
        result = attention.flash_attn_varlen_func(*arrays, 10, 7, out=given)
        self.assertIs(result, given)
        self.check(
            self.only("varlen_forward"),
            q=triple(q, 1024, 128), k=triple(k, 256, 128), out=triple(out, 1024, 128),
        )
        self.assertEqual(arrays[0].streams, [1])  # the legacy default stream
        with self.assertRaisesRegex(TypeError, "^out: no way to allocate"):
            attention.flash_attn_varlen_func(*arrays, 10, 7)


if __name__ == "__main__":
    unittest.main()
