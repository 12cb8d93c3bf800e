"""Attention over contiguous and paged keys and values, for Python.

Needs nothing but ctypes and libinterleave_attention.so, which is looked for at
INTERLEAVE_ATTENTION_LIBRARY, beside this file, and in bazel-bin. Takes tensors
of PyTorch, or anything that offers DLPack.

    out = flash_attn_varlen_func(q, k, v, cu_seqlens_q, cu_seqlens_k, ...)
    out = flash_attn_with_kvcache(q, k_cache, v_cache, k=k, v=v, ...)
    out = paged_attention(q, k_cache, v_cache, block_table, cache_seqlens,
                          cu_seqlens_q, k, v)

The first two have the parameters, order and defaults of the flash-attn package,
so they can stand in for it; what they cannot do raises by the argument's name.
The third takes any mix of prompt chunks and decodes in one call.

Nothing here waits for the device or reads its memory, so all of it may be
captured into a CUDA graph once the same call ran outside of capture: that first
call allocates the workspace, one for each device, stream, shape and power of
four of the batch's size, which is kept for the life of the process.
"""

import ctypes
import os
import sys
import threading

__all__ = [
    "AttentionError",
    "Plan",
    "cache_gather",
    "cache_scatter",
    "flash_attn_func",
    "flash_attn_varlen_func",
    "flash_attn_with_kvcache",
    "load",
    "merge_states",
    "paged_attention",
]

_ABI_VERSION = 1


class AttentionError(RuntimeError):
    """A CUDA error, or a state in which the library cannot go on."""


# The structs of attention/c_api.h.


class _Shape(ctypes.Structure):
    _fields_ = [
        ("dtype", ctypes.c_int32),
        ("num_heads", ctypes.c_int32),
        ("num_kv_heads", ctypes.c_int32),
        ("head_dim", ctypes.c_int32),
    ]


class _Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("token_stride", ctypes.c_int64),
        ("head_stride", ctypes.c_int64),
    ]


class _Cache(ctypes.Structure):
    _fields_ = [
        ("k", ctypes.c_void_p),
        ("v", ctypes.c_void_p),
        ("num_blocks", ctypes.c_int64),
        ("block_size", ctypes.c_int64),
        ("k_block_stride", ctypes.c_int64),
        ("k_slot_stride", ctypes.c_int64),
        ("k_head_stride", ctypes.c_int64),
        ("v_block_stride", ctypes.c_int64),
        ("v_slot_stride", ctypes.c_int64),
        ("v_head_stride", ctypes.c_int64),
    ]


class _BlockTable(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("row_stride", ctypes.c_int64),
        ("max_blocks_per_seq", ctypes.c_int64),
    ]


class _Options(ctypes.Structure):
    _fields_ = [
        ("softmax_scale", ctypes.c_float),
        ("softcap", ctypes.c_float),
        ("sinks", ctypes.c_void_p),
    ]


class _Rotary(ctypes.Structure):
    _fields_ = [
        ("cos", ctypes.c_void_p),
        ("sin", ctypes.c_void_p),
        ("max_position", ctypes.c_int64),
        ("rotary_dim", ctypes.c_int32),
        ("interleaved", ctypes.c_int32),
    ]


class _Sized(ctypes.Structure):
    def __init__(self, **fields):
        super().__init__(size=ctypes.sizeof(type(self)), **fields)


class _PlanConfig(_Sized):
    _fields_ = [
        ("size", ctypes.c_uint64),
        ("shape", _Shape),
        ("causal", ctypes.c_int32),
        ("window_left", ctypes.c_int32),
        ("window_right", ctypes.c_int32),
        ("max_batch", ctypes.c_int32),
        ("max_total_q", ctypes.c_int64),
        ("max_total_new", ctypes.c_int64),
        ("batch_invariant", ctypes.c_int32),
        ("rotate_queries", ctypes.c_int32),
        ("portable_kernels", ctypes.c_int32),
        ("check_device_metadata", ctypes.c_int32),
        ("device", ctypes.c_int32),
        ("reserved", ctypes.c_int32),
    ]


class _Batch(_Sized):
    _fields_ = [
        ("size", ctypes.c_uint64),
        ("batch", ctypes.c_int32),
        ("append", ctypes.c_int32),
        ("total_q", ctypes.c_int64),
        ("total_new", ctypes.c_int64),
        ("max_seqlen_k", ctypes.c_int64),
        ("cu_seqlens_q", ctypes.c_void_p),
        ("cu_seqlens_k", ctypes.c_void_p),
        ("cache_seqlens", ctypes.c_void_p),
        ("cu_seqlens_new", ctypes.c_void_p),
        ("host_cu_seqlens_q", ctypes.c_void_p),
        ("host_cu_seqlens_k", ctypes.c_void_p),
        ("host_cache_seqlens", ctypes.c_void_p),
        ("host_cu_seqlens_new", ctypes.c_void_p),
    ]


class _VarlenParams(_Sized):
    _fields_ = [
        ("size", ctypes.c_uint64),
        ("q", _Tensor),
        ("k", _Tensor),
        ("v", _Tensor),
        ("total_k", ctypes.c_int64),
        ("out", _Tensor),
        ("lse", ctypes.c_void_p),
        ("lse_head_stride", ctypes.c_int64),
        ("options", _Options),
    ]


class _PagedParams(_Sized):
    _fields_ = [
        ("size", ctypes.c_uint64),
        ("q", _Tensor),
        ("cache", _Cache),
        ("block_table", _BlockTable),
        ("append_k", _Tensor),
        ("append_v", _Tensor),
        ("append_total_tokens", ctypes.c_int64),
        ("rotary", _Rotary),
        ("out", _Tensor),
        ("lse", ctypes.c_void_p),
        ("lse_head_stride", ctypes.c_int64),
        ("options", _Options),
    ]


class _ScatterParams(_Sized):
    _fields_ = [
        ("size", ctypes.c_uint64),
        ("shape", _Shape),
        ("k", _Tensor),
        ("v", _Tensor),
        ("total_tokens", ctypes.c_int64),
        ("slot_mapping", ctypes.c_void_p),
        ("cache", _Cache),
    ]


class _GatherParams(_Sized):
    _fields_ = [
        ("size", ctypes.c_uint64),
        ("shape", _Shape),
        ("cache", _Cache),
        ("block_table", _BlockTable),
        ("batch", ctypes.c_int64),
        ("cu_seqlens_k", ctypes.c_void_p),
        ("total_k", ctypes.c_int64),
        ("k", _Tensor),
        ("v", _Tensor),
    ]


class _MergeParams(_Sized):
    _fields_ = [
        ("size", ctypes.c_uint64),
        ("shape", _Shape),
        ("total_q", ctypes.c_int64),
        ("a", _Tensor),
        ("lse_a", ctypes.c_void_p),
        ("b", _Tensor),
        ("lse_b", ctypes.c_void_p),
        ("out", _Tensor),
        ("lse", ctypes.c_void_p),
    ]


# The library.

_POINTER = ctypes.c_void_p
_SIGNATURES = {
    "workspace_bytes": [_POINTER, _POINTER],
    "plan_create": [_POINTER, _POINTER, ctypes.c_int64, _POINTER, _POINTER],
    "plan_update": [_POINTER, _POINTER, _POINTER],
    "plan_destroy": [_POINTER],
    "varlen_forward": [_POINTER, _POINTER, _POINTER],
    "decode_forward": [_POINTER, _POINTER, _POINTER],
    "mixed_forward": [_POINTER, _POINTER, _POINTER],
    "cache_scatter": [_POINTER, ctypes.c_int32, _POINTER],
    "cache_gather": [_POINTER, ctypes.c_int32, _POINTER],
    "merge_states": [_POINTER, ctypes.c_int32, _POINTER],
}
_INVALID_ARGUMENT, _OUT_OF_RANGE, _UNIMPLEMENTED = 3, 11, 12

_library = None
_lock = threading.Lock()
_plans = {}


def _candidates():
    here = os.path.dirname(os.path.abspath(__file__))
    name = "libinterleave_attention.so"
    root = os.path.dirname(os.path.dirname(here))
    return [
        os.path.join(here, name),
        os.path.join(root, "bazel-bin", "attention", name),
    ]


def load(path=None):
    """Loads the library, by default from where it is looked for."""
    global _library
    if path is None:
        path = os.environ.get("INTERLEAVE_ATTENTION_LIBRARY")
    if path is None:
        path = next((p for p in _candidates() if os.path.exists(p)), None)
    if path is None:
        raise AttentionError(
            "libinterleave_attention.so is neither at %s: set "
            "INTERLEAVE_ATTENTION_LIBRARY" % " nor at ".join(_candidates())
        )
    library = ctypes.CDLL(path)
    library.interleave_attention_abi_version.restype = ctypes.c_int32
    version = library.interleave_attention_abi_version()
    if version != _ABI_VERSION:
        raise AttentionError(
            "%s has ABI version %d, not %d" % (path, version, _ABI_VERSION)
        )
    library.interleave_attention_last_error.restype = ctypes.c_char_p
    for name, arguments in _SIGNATURES.items():
        function = getattr(library, "interleave_attention_" + name)
        function.argtypes = arguments
        function.restype = ctypes.c_int32
    _library = library
    return library


def _call(name, *arguments):
    library = _library or load()
    code = getattr(library, "interleave_attention_" + name)(*arguments)
    if code == 0:
        return
    message = library.interleave_attention_last_error().decode(errors="replace")
    if code in (_INVALID_ARGUMENT, _OUT_OF_RANGE):
        raise ValueError(message)
    if code == _UNIMPLEMENTED:
        raise NotImplementedError(message)
    raise AttentionError("%s (code %d)" % (message, code))


# Tensors.


class _View:
    """Where a tensor lies. Holds what keeps its memory alive."""

    __slots__ = ("data", "shape", "strides", "dtype", "device", "owner")


class _DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


_DLPACK_CUDA = (2, 13)  # device memory, managed memory
_DLPACK_DTYPES = {
    (0, 32): "int32",
    (0, 64): "int64",
    (2, 16): "float16",
    (2, 32): "float32",
    (4, 16): "bfloat16",
}


def _compact_strides(shape):
    strides = []
    size = 1
    for extent in reversed(shape):
        strides.insert(0, size)
        size *= extent
    return tuple(strides)


def _strides_that_matter(shape, strides):
    """The strides, with those of axes of one element as if compact."""
    if 1 not in shape and 0 not in shape:
        return strides
    result = list(strides)
    for axis in reversed(range(len(shape))):
        if shape[axis] <= 1:
            inner = axis + 1
            compact = inner == len(shape)
            result[axis] = 1 if compact else shape[inner] * result[inner]
    return tuple(result)


def _view_dlpack(value, name):
    device_type, device_id = value.__dlpack_device__()
    if device_type not in _DLPACK_CUDA:
        raise ValueError("%s is not on a CUDA device" % name)
    stream = _stream(value, device_id)
    # DLPack's 1 is the legacy default stream, which CUDA calls 0.
    capsule = value.__dlpack__(stream=stream or 1)
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype = ctypes.c_void_p
    get.argtypes = [ctypes.py_object, ctypes.c_char_p]
    tensor = _DLTensor.from_address(get(capsule, b"dltensor"))
    view = _View()
    view.data = (tensor.data or 0) + tensor.byte_offset
    view.shape = tuple(tensor.shape[i] for i in range(tensor.ndim))
    if tensor.strides:
        view.strides = tuple(tensor.strides[i] for i in range(tensor.ndim))
    else:
        view.strides = _compact_strides(view.shape)
    dtype = _DLPACK_DTYPES.get((tensor.code, tensor.bits))
    view.dtype = dtype or "DLPack type %d of %d bits" % (tensor.code, tensor.bits)
    view.device = device_id
    view.owner = (value, capsule)  # the capsule's end releases the memory
    return view


_dtype_names = {}


def _dtype_name(dtype):
    name = _dtype_names.get(dtype)
    if name is None:
        name = _dtype_names[dtype] = str(dtype).rpartition(".")[2]
    return name


def _view(value, name, dtype=None, ndim=None):
    if hasattr(value, "data_ptr"):
        device = value.device
        if device.type != "cuda":
            raise ValueError("%s is on %s, not on a CUDA device" % (name, device))
        view = _View()
        view.data = value.data_ptr()
        view.shape = tuple(value.shape)
        view.strides = value.stride()
        view.dtype = _dtype_name(value.dtype)
        view.device = device.index or 0
        view.owner = value
    elif hasattr(value, "__dlpack__") and hasattr(value, "__dlpack_device__"):
        view = _view_dlpack(value, name)
    else:
        raise TypeError(
            "%s is a %s, neither a torch tensor nor anything with DLPack"
            % (name, type(value).__name__)
        )
    view.strides = _strides_that_matter(view.shape, view.strides)
    if dtype is not None and view.dtype != dtype:
        raise ValueError("%s is %s, not %s" % (name, view.dtype, dtype))
    if ndim is not None and len(view.shape) != ndim:
        raise ValueError("%s has %d dimensions, not %d" % (name, len(view.shape), ndim))
    return view


def _rows(value, name):
    """The view of a [tokens, heads, head_dim] tensor, which is copied where its
    last axis is not contiguous."""
    view = _view(value, name, ndim=3)
    if view.strides[2] != 1 and hasattr(value, "contiguous"):
        return _view(value.contiguous(), name)
    return view


def _namespace(value):
    """The module that a tensor's kind comes from (torch, cupy, ...)."""
    module = sys.modules.get(type(value).__module__.partition(".")[0])
    if not hasattr(module, "arange") and hasattr(value, "__array_namespace__"):
        return value.__array_namespace__()
    return module


def _stream(like, device):
    cuda = getattr(_namespace(like), "cuda", None)
    if hasattr(cuda, "current_stream"):
        return cuda.current_stream(device).cuda_stream
    if hasattr(cuda, "get_current_stream"):
        return cuda.get_current_stream().ptr
    return 0


def _capturing(like):
    cuda = getattr(_namespace(like), "cuda", None)
    capturing = getattr(cuda, "is_current_stream_capturing", None)
    return capturing is not None and capturing()


def _empty(like, shape, dtype, name):
    namespace = _namespace(like)
    if hasattr(like, "new_empty"):
        return like.new_empty(shape, dtype=getattr(namespace, dtype))
    if hasattr(namespace, "empty") and hasattr(namespace, dtype):
        return namespace.empty(shape, dtype=getattr(namespace, dtype))
    raise TypeError(
        "%s: no way to allocate it from a %s; pass it" % (name, type(like).__name__)
    )


def _offsets(like, count, step):
    """int32 [count + 1]: 0, step, 2 * step, ..."""
    namespace = _namespace(like)
    kind = {"dtype": namespace.int32, "device": like.device}
    if step == 0:
        return namespace.full((count + 1,), 0, **kind)
    return namespace.arange(0, (count + 1) * step, step, **kind)


def _tensor(view, name, heads, head_dim, dtype, device):
    """A [tokens, heads, head_dim] tensor for the library."""
    _same_kind(view, name, dtype, device)
    if view.shape[1:] != (heads, head_dim):
        raise ValueError(
            "%s has shape %s, not [tokens, %d, %d]"
            % (name, list(view.shape), heads, head_dim)
        )
    if view.strides[2] != 1 and head_dim > 1:
        raise ValueError("%s: the head_dim axis is not contiguous" % name)
    return _Tensor(view.data, view.strides[0], view.strides[1])


def _same_kind(view, name, dtype, device):
    if view.dtype != dtype:
        raise ValueError("%s is %s, but q is %s" % (name, view.dtype, dtype))
    _same_device(view, name, device)


def _same_device(view, name, device):
    if view.device != device:
        raise ValueError(
            "%s is on device %d, but q is on device %d" % (name, view.device, device)
        )


def _index_array(value, name, count, device):
    """The address of an int32 array; None for None."""
    if value is None:
        return None
    view = _view(value, name, "int32", 1)
    _same_device(view, name, device)
    if view.shape[0] != count:
        raise ValueError("%s has %d entries, not %d" % (name, view.shape[0], count))
    if count > 1 and view.strides[0] != 1:
        raise ValueError("%s is not contiguous" % name)
    return view.data


def _shape_of(q, num_kv_heads):
    dtypes = {"bfloat16": 0, "float16": 1}
    if q.dtype not in dtypes:
        raise ValueError("q is %s; bfloat16 and float16 are supported" % q.dtype)
    return _Shape(dtypes[q.dtype], q.shape[1], num_kv_heads, q.shape[2])


def _cache_of(k_cache, v_cache, dtype, device):
    """A cache [num_blocks, block_size, num_kv_heads, head_dim] of any strides."""
    k = _view(k_cache, "k_cache", ndim=4)
    v = _view(v_cache, "v_cache", ndim=4)
    for view, name in ((k, "k_cache"), (v, "v_cache")):
        _same_kind(view, name, dtype, device)
        if view.strides[3] != 1 and view.shape[3] > 1:
            raise ValueError("%s: the head_dim axis is not contiguous" % name)
    if k.shape != v.shape:
        raise ValueError(
            "v_cache has shape %s, but k_cache %s" % (list(v.shape), list(k.shape))
        )
    cache = _Cache(k.data, v.data, k.shape[0], k.shape[1])
    cache.k_block_stride, cache.k_slot_stride, cache.k_head_stride = k.strides[:3]
    cache.v_block_stride, cache.v_slot_stride, cache.v_head_stride = v.strides[:3]
    return cache, k, v


def _table_of(block_table, batch, device):
    view = _view(block_table, "block_table", "int32", 2)
    _same_device(view, "block_table", device)
    if view.shape[0] != batch:
        raise ValueError(
            "block_table has %d rows for a batch of %d" % (view.shape[0], batch)
        )
    if view.shape[1] > 1 and view.strides[1] != 1:
        raise ValueError("block_table: its rows are not contiguous")
    return _BlockTable(view.data, view.strides[0], view.shape[1])


def _options_of(softmax_scale, softcap, s_aux, heads, device):
    """The options, and what must live until the launch is enqueued."""
    if softmax_scale is None:
        softmax_scale = 0.0  # the library's default, 1 / sqrt(head_dim)
    elif not softmax_scale > 0:
        raise ValueError("softmax_scale is %r; it must be positive" % softmax_scale)
    options = _Options(softmax_scale, softcap or 0.0, None)
    if s_aux is None:
        return options, None
    if hasattr(s_aux, "float") and _dtype_name(s_aux.dtype) != "float32":
        s_aux = s_aux.float()
    view = _view(s_aux, "s_aux", "float32", 1)
    _same_device(view, "s_aux", device)
    if view.shape[0] != heads:
        raise ValueError("s_aux has %d entries for %d heads" % (view.shape[0], heads))
    if heads > 1 and view.strides[0] != 1:
        raise ValueError("s_aux is not contiguous")
    options.sinks = view.data
    return options, view


def _window(window_size, causal):
    left, right = (-1, -1) if window_size is None else window_size
    left = -1 if left is None or left < 0 else int(left)
    right = -1 if right is None or right < 0 else int(right)
    return left, 0 if causal else right


def _refuse(**arguments):
    """Raises for the first argument that is set."""
    for name, is_set in arguments.items():
        if is_set:
            raise NotImplementedError("%s is not supported" % name)


def _refuse_gradients(**tensors):
    for name, tensor in tensors.items():
        if tensor is None or not getattr(tensor, "requires_grad", False):
            continue
        enabled = getattr(_namespace(tensor), "is_grad_enabled", None)
        if enabled is None or enabled():
            raise NotImplementedError(
                "%s requires a gradient; there is no backward pass" % name
            )


# Plans.


def _round_up(count, least):
    """Powers of four from `least`: few workspaces serve all batches."""
    while least < count:
        least *= 4
    return least


class Plan:
    """The schedule of an iteration, computed once for all of its layers.

        plan = Plan(32, 8, 128, max_batch=256, max_total_q=8192)
        plan.update(cache_seqlens, cu_seqlens_q, total_q=q.shape[0],
                    max_seqlen_k=block_table.shape[1] * 16, append=True)
        for layer in layers:
            out = paged_attention(..., plan=plan)

    It owns device memory, whose size depends on these arguments alone, and
    serves one stream at a time. It outlives the CUDA graphs that hold it.
    """

    def __init__(
        self,
        num_heads,
        num_kv_heads,
        head_dim,
        max_batch,
        max_total_q,
        *,
        dtype="bfloat16",
        causal=True,
        window_size=(-1, -1),
        max_total_new=0,
        batch_invariant=False,
        rotate_queries=False,
        portable_kernels=False,
        check_device_metadata=False,
        device=0,
    ):
        dtypes = {"bfloat16": 0, "float16": 1}
        name = _dtype_name(dtype)
        if name not in dtypes:
            raise ValueError("dtype is %s; bfloat16 and float16 are supported" % name)
        left, right = _window(window_size, causal)
        self._handle = None
        self.lock = threading.Lock()
        config = _PlanConfig(
            shape=_Shape(dtypes[name], num_heads, num_kv_heads, head_dim),
            causal=bool(causal),
            window_left=left,
            window_right=right,
            max_batch=max_batch,
            max_total_q=max_total_q,
            max_total_new=max_total_new,
            batch_invariant=bool(batch_invariant),
            rotate_queries=bool(rotate_queries),
            portable_kernels=bool(portable_kernels),
            check_device_metadata=bool(check_device_metadata),
            device=device,
        )
        handle = ctypes.c_void_p()
        _call(
            "plan_create", ctypes.byref(config), None, 0, None, ctypes.byref(handle)
        )
        self._handle = handle
        self.device = device
        self.shape = (name, num_heads, num_kv_heads, head_dim)
        self.batch = 0
        self.total_q = 0
        self.append = False
        self.total_new = 0
        self.uniform = False

    def update(
        self,
        cache_seqlens=None,
        cu_seqlens_q=None,
        *,
        total_q,
        max_seqlen_k,
        cu_seqlens_k=None,
        append=False,
        cu_seqlens_new=None,
        total_new=0,
        stream=None,
    ):
        """Computes the schedule of a batch from its lengths on the device.

        cache_seqlens [batch] are the lengths in the cache before this
        iteration's tokens; cu_seqlens_q [batch + 1] None means one query each.
        Contiguous keys have cu_seqlens_k [batch + 1] instead. max_seqlen_k is
        what no sequence passes: the capacity of a block table's row, or the
        rows of k.
        """
        lengths = cache_seqlens if cache_seqlens is not None else cu_seqlens_k
        if lengths is None:
            raise ValueError("cache_seqlens and cu_seqlens_k are both None")
        count = lengths.shape[0] - (0 if cache_seqlens is not None else 1)
        batch = _Batch(
            batch=count,
            append=bool(append),
            total_q=total_q,
            total_new=total_new,
            max_seqlen_k=max_seqlen_k,
            cu_seqlens_q=_index_array(
                cu_seqlens_q, "cu_seqlens_q", count + 1, self.device
            ),
            cu_seqlens_k=_index_array(
                cu_seqlens_k, "cu_seqlens_k", count + 1, self.device
            ),
            cache_seqlens=_index_array(
                cache_seqlens, "cache_seqlens", count, self.device
            ),
            cu_seqlens_new=_index_array(
                cu_seqlens_new, "cu_seqlens_new", count + 1, self.device
            ),
        )
        if stream is None:
            stream = _stream(lengths, self.device)
        _call("plan_update", self._handle, ctypes.byref(batch), stream)
        self.batch = count
        self.total_q = total_q
        self.append = bool(append)
        self.total_new = total_new or (0 if cu_seqlens_new is not None else total_q)
        self.uniform = cu_seqlens_q is None

    def close(self):
        """Frees the memory. Work that uses the plan must have ended."""
        if self._handle is not None:
            _call("plan_destroy", self._handle)
            self._handle = None


def _shared_plan(like, q, num_kv_heads, batch, total_q, total_new, stream, **options):
    max_batch = _round_up(batch, 64)
    max_total_q = _round_up(max(total_q, total_new), 256)
    key = (
        q.device,
        stream,
        q.dtype,
        q.shape[1],
        num_kv_heads,
        q.shape[2],
        max_batch,
        max_total_q,
        tuple(sorted(options.items())),
    )
    with _lock:
        plan = _plans.get(key)
        if plan is None:
            if _capturing(like):
                raise AttentionError(
                    "a CUDA graph is being captured, and no call of this size ran on "
                    "its stream before: run it once outside of capture, which "
                    "allocates the workspace"
                )
            plan = Plan(
                q.shape[1],
                num_kv_heads,
                q.shape[2],
                max_batch,
                max_total_q,
                dtype=q.dtype,
                device=q.device,
                **options,
            )
            _plans[key] = plan
        return plan


def _output(like, q, out):
    if out is None:
        out = _empty(like, q.shape, q.dtype, "out")
    view = _view(out, "out", ndim=3)
    if view.shape != q.shape:
        raise ValueError(
            "out has shape %s, but q %s" % (list(view.shape), list(q.shape))
        )
    return out, _tensor(view, "out", q.shape[1], q.shape[2], q.dtype, q.device)


def _lse(like, q, wanted):
    """float32 [heads, tokens], and its address; (None, None) unless wanted."""
    if not wanted:
        return None, None
    lse = _empty(like, (q.shape[1], q.shape[0]), "float32", "softmax_lse")
    return lse, _view(lse, "softmax_lse").data


def paged_attention(
    q,
    k_cache,
    v_cache,
    block_table,
    cache_seqlens=None,
    cu_seqlens_q=None,
    k=None,
    v=None,
    *,
    cu_seqlens_new=None,
    softmax_scale=None,
    causal=True,
    window_size=(-1, -1),
    softcap=0.0,
    s_aux=None,
    rotary_cos=None,
    rotary_sin=None,
    rotary_interleaved=False,
    batch_invariant=False,
    out=None,
    return_softmax_lse=False,
    plan=None,
):
    """Attention of any mix of prompt chunks and decodes over a paged cache.

    q [total_q, heads, head_dim]; k_cache, v_cache [blocks, block_size, kv_heads,
    head_dim] under any strides; block_table int32 [batch, blocks_per_sequence];
    cache_seqlens int32 [batch], the tokens in the cache before this call, -1 for
    a padding row; cu_seqlens_q int32 [batch + 1], None for one query each. k and
    v [total_new, kv_heads, head_dim] are appended in place first; they are the
    query tokens', unless cu_seqlens_new [batch + 1] says otherwise. The mask is
    aligned to the bottom right; windows include both ends. s_aux [heads] are
    attention sinks. With rotary_cos and rotary_sin [positions, rotary_dim / 2],
    queries and new keys are rotated by their positions.

    With a Plan that was updated for this batch, its lengths and mask count, and
    cache_seqlens, cu_seqlens_q, cu_seqlens_new, causal, window_size and
    batch_invariant are not read.

    Returns out like q, or (out, lse) with lse float32 [heads, total_q], natural
    logarithms, -infinity where a row sees no key.
    """
    _refuse_gradients(q=q, k=k, v=v)
    if (k is None) != (v is None):
        raise ValueError("%s is None, but not both" % ("k" if k is None else "v"))
    if (rotary_cos is None) != (rotary_sin is None):
        raise ValueError("rotary_cos and rotary_sin go together")
    if rotary_cos is not None and k is None:
        raise ValueError("rotary_cos needs k and v to append")
    view = _rows(q, "q")
    cache, k_view, v_view = _cache_of(k_cache, v_cache, view.dtype, view.device)
    if k_view.shape[3] != view.shape[2]:
        raise ValueError(
            "k_cache has head_dim %d, but q %d" % (k_view.shape[3], view.shape[2])
        )
    kv_heads = k_view.shape[2]
    params = _PagedParams(cache=cache)
    params.q = _tensor(view, "q", *view.shape[1:], view.dtype, view.device)
    alive = [k_view, v_view]
    total_new = 0
    if k is not None:
        new = [_rows(k, "k"), _rows(v, "v")]
        alive += new
        kind = (kv_heads, view.shape[2], view.dtype, view.device)
        params.append_k = _tensor(new[0], "k", *kind)
        params.append_v = _tensor(new[1], "v", *kind)
        if new[0].shape[0] != new[1].shape[0]:
            raise ValueError(
                "v has %d tokens, but k %d" % (new[1].shape[0], new[0].shape[0])
            )
        total_new = new[0].shape[0]
        params.append_total_tokens = total_new
    if rotary_cos is not None:
        tables = [_view(rotary_cos, "rotary_cos", view.dtype, 2)]
        tables += [_view(rotary_sin, "rotary_sin", view.dtype, 2)]
        alive += tables
        for table, name in zip(tables, ("rotary_cos", "rotary_sin")):
            _same_device(table, name, view.device)
            if table.shape != tables[0].shape:
                raise ValueError("rotary_sin has another shape than rotary_cos")
            if table.strides != _compact_strides(table.shape):
                raise ValueError("%s is not contiguous" % name)
        params.rotary = _Rotary(
            tables[0].data,
            tables[1].data,
            tables[0].shape[0],
            2 * tables[0].shape[1],
            bool(rotary_interleaved),
        )
    params.options, sinks = _options_of(
        softmax_scale, softcap, s_aux, view.shape[1], view.device
    )
    alive.append(sinks)
    out, params.out = _output(q, view, out)
    lse, params.lse = _lse(q, view, return_softmax_lse)
    stream = _stream(q, view.device)
    call = lambda: _call(  # noqa: E731
        "decode_forward" if plan.uniform else "mixed_forward",
        plan._handle,
        ctypes.byref(params),
        stream,
    )
    if plan is not None:
        params.block_table = _table_of(block_table, plan.batch, view.device)
        given = (view.dtype, view.shape[1], kv_heads, view.shape[2])
        if plan.shape != given:
            raise ValueError("plan is for %s, but q and k_cache are %s" % (plan.shape, given))
        if view.shape[0] < plan.total_q:
            raise ValueError(
                "q has %d tokens, but plan %d" % (view.shape[0], plan.total_q)
            )
        if plan.append != (k is not None):
            raise ValueError(
                "k is %s, but plan was updated with append=%s"
                % ("None" if k is None else "set", plan.append)
            )
        params.lse_head_stride = view.shape[0]
        with plan.lock:
            call()
        return (out, lse) if return_softmax_lse else out
    if cache_seqlens is None:
        raise ValueError("cache_seqlens is None")
    batch = cache_seqlens.shape[0]
    params.block_table = _table_of(block_table, batch, view.device)
    if cu_seqlens_new is None and k is not None and total_new < view.shape[0]:
        raise ValueError("k has %d tokens, but q %d" % (total_new, view.shape[0]))
    left, right = _window(window_size, causal)
    plan = _shared_plan(
        q,
        view,
        kv_heads,
        batch,
        view.shape[0],
        total_new,
        stream,
        causal=bool(causal),
        window_size=(left, right),
        batch_invariant=bool(batch_invariant),
        rotate_queries=rotary_cos is not None,
    )
    with plan.lock:
        plan.update(
            cache_seqlens,
            cu_seqlens_q,
            total_q=view.shape[0],
            max_seqlen_k=params.block_table.max_blocks_per_seq * cache.block_size,
            append=k is not None,
            cu_seqlens_new=cu_seqlens_new,
            total_new=total_new if cu_seqlens_new is not None else 0,
            stream=stream,
        )
        call()
    return (out, lse) if return_softmax_lse else out


def _contiguous_keys(
    q, k, v, cu_seqlens_q, cu_seqlens_k, softmax_scale, causal, window_size, softcap,
    s_aux, out, want_lse, batch_invariant,
):
    view = _rows(q, "q")
    k_view = _rows(k, "k")
    v_view = _rows(v, "v")
    if v_view.shape != k_view.shape:
        raise ValueError(
            "v has shape %s, but k %s" % (list(v_view.shape), list(k_view.shape))
        )
    kind = (view.shape[2], view.dtype, view.device)
    params = _VarlenParams(total_k=k_view.shape[0])
    params.q = _tensor(view, "q", view.shape[1], *kind)
    params.k = _tensor(k_view, "k", k_view.shape[1], *kind)
    params.v = _tensor(v_view, "v", k_view.shape[1], *kind)
    params.options, sinks = _options_of(
        softmax_scale, softcap, s_aux, view.shape[1], view.device
    )
    out, params.out = _output(q, view, out)
    lse, params.lse = _lse(q, view, want_lse)
    left, right = _window(window_size, causal)
    stream = _stream(q, view.device)
    plan = _shared_plan(
        q,
        view,
        k_view.shape[1],
        cu_seqlens_k.shape[0] - 1,
        view.shape[0],
        0,
        stream,
        causal=bool(causal),
        window_size=(left, right),
        batch_invariant=bool(batch_invariant),
    )
    with plan.lock:
        plan.update(
            None,
            cu_seqlens_q,
            cu_seqlens_k=cu_seqlens_k,
            total_q=view.shape[0],
            max_seqlen_k=k_view.shape[0],
            stream=stream,
        )
        _call("varlen_forward", plan._handle, ctypes.byref(params), stream)
    del sinks
    return out, lse


# What the flash-attn package offers.


def flash_attn_varlen_func(
    q,
    k,
    v,
    cu_seqlens_q,
    cu_seqlens_k,
    max_seqlen_q,
    max_seqlen_k,
    dropout_p=0.0,
    softmax_scale=None,
    causal=False,
    window_size=(-1, -1),
    softcap=0.0,
    alibi_slopes=None,
    deterministic=False,
    return_attn_probs=False,
    block_table=None,
    *,
    s_aux=None,
    return_softmax_lse=False,
    batch_invariant=False,
    out=None,
):
    """Attention of sequences of any lengths over contiguous or paged keys.

    As flash_attn.flash_attn_varlen_func. q [total_q, heads, head_dim]; k, v
    [total_k, kv_heads, head_dim], or the cache [blocks, block_size, kv_heads,
    head_dim] with block_table int32 [batch, blocks_per_sequence]; any block size
    that is a power of two up to 1,024, or 48 or 480. cu_seqlens_* int32 [batch +
    1]. max_seqlen_* are upper bounds, which nothing here needs. The result is
    always deterministic. s_aux [heads] are attention sinks. A row that sees no
    key is zeros, its lse -infinity; rows past cu_seqlens_q[-1] are not written.

    Returns out, (out, lse) with return_softmax_lse, or (out, lse, None) with
    return_attn_probs; lse is float32 [heads, total_q].
    """
    _refuse(dropout_p=dropout_p != 0, alibi_slopes=alibi_slopes is not None)
    _refuse_gradients(q=q, k=k, v=v)
    if cu_seqlens_q.shape[0] != cu_seqlens_k.shape[0]:
        raise ValueError(
            "cu_seqlens_k has %d entries, but cu_seqlens_q %d"
            % (cu_seqlens_k.shape[0], cu_seqlens_q.shape[0])
        )
    want_lse = return_attn_probs or return_softmax_lse
    if block_table is None:
        out, lse = _contiguous_keys(
            q, k, v, cu_seqlens_q, cu_seqlens_k, softmax_scale, causal, window_size,
            softcap, s_aux, out, want_lse, batch_invariant,
        )
    else:
        result = paged_attention(
            q,
            k,
            v,
            block_table,
            cu_seqlens_k[1:] - cu_seqlens_k[:-1],
            cu_seqlens_q,
            softmax_scale=softmax_scale,
            causal=causal,
            window_size=window_size,
            softcap=softcap,
            s_aux=s_aux,
            batch_invariant=batch_invariant,
            out=out,
            return_softmax_lse=want_lse,
        )
        out, lse = result if want_lse else (result, None)
    if return_attn_probs:
        return out, lse, None
    return (out, lse) if return_softmax_lse else out


def flash_attn_func(
    q,
    k,
    v,
    dropout_p=0.0,
    softmax_scale=None,
    causal=False,
    window_size=(-1, -1),
    softcap=0.0,
    alibi_slopes=None,
    deterministic=False,
    return_attn_probs=False,
    *,
    s_aux=None,
):
    """Attention of a batch of equal lengths, as flash_attn.flash_attn_func.

    q [batch, queries, heads, head_dim], k and v [batch, keys, kv_heads,
    head_dim]. With return_attn_probs, (out, lse, None), lse [batch, heads,
    queries].
    """
    _refuse(dropout_p=dropout_p != 0, alibi_slopes=alibi_slopes is not None)
    _refuse_gradients(q=q, k=k, v=v)
    batch, queries, heads, head_dim = q.shape
    keys = k.shape[1]
    out, lse = _contiguous_keys(
        q.reshape(batch * queries, heads, head_dim),
        k.reshape(batch * keys, *k.shape[2:]),
        v.reshape(batch * keys, *v.shape[2:]),
        _offsets(q, batch, queries),
        _offsets(q, batch, keys),
        softmax_scale, causal, window_size, softcap, s_aux, None, return_attn_probs,
        False,
    )
    out = out.reshape(q.shape)
    if not return_attn_probs:
        return out
    return out, lse.reshape(heads, batch, queries).permute(1, 0, 2), None


def _as_pages(cache, name):
    """A contiguous cache [rows, slots, kv_heads, head_dim] as pages.

    Returns the pages, how many of them a row has, and the distance of rows in
    pages: pages are the largest that rows begin and end on.
    """
    view = _view(cache, name, ndim=4)
    rows, slots = view.shape[:2]
    slot = view.strides[1]
    distance = view.strides[0] // slot if slot else 0
    if rows > 1 and (slot == 0 or view.strides[0] % slot != 0):
        raise ValueError("%s: its rows are no whole number of slots apart" % name)
    page = 1
    while page < 1024 and slots % (2 * page) == 0 and distance % (2 * page) == 0:
        page *= 2
    if rows == 1:
        distance = slots
        page = 1
        while page < 1024 and slots % (2 * page) == 0:
            page *= 2
    pages = ((rows - 1) * distance + slots) // page
    paged = cache.as_strided(
        (pages, page, *view.shape[2:]), (page * slot, *view.strides[1:])
    )
    return paged, slots // page, distance // page


def flash_attn_with_kvcache(
    q,
    k_cache,
    v_cache,
    k=None,
    v=None,
    rotary_cos=None,
    rotary_sin=None,
    cache_seqlens=None,
    cache_batch_idx=None,
    cache_leftpad=None,
    block_table=None,
    softmax_scale=None,
    causal=False,
    window_size=(-1, -1),
    softcap=0.0,
    rotary_interleaved=True,
    alibi_slopes=None,
    num_splits=0,
    return_softmax_lse=False,
    *,
    s_aux=None,
    batch_invariant=False,
    out=None,
):
    """Attention over a cache, appended to in place.

    As flash_attn.flash_attn_with_kvcache. q [batch, queries, heads, head_dim];
    k_cache, v_cache [blocks, block_size, kv_heads, head_dim] with block_table
    int32 [batch, blocks_per_sequence] and any block size that is a power of two
    up to 1,024, or 48 or 480; or without a table [rows, slots, kv_heads,
    head_dim], of which cache_batch_idx int32 [batch] picks rows. k and v [batch,
    new tokens, kv_heads, head_dim] go to the positions from cache_seqlens on. A
    row with cache_seqlens of -1 is padding: nothing is read or appended for it.

    Returns out like q, or (out, lse) with lse float32 [batch, heads, queries].
    """
    _refuse(
        cache_leftpad=cache_leftpad is not None,
        alibi_slopes=alibi_slopes is not None,
        num_splits=num_splits != 0,
    )
    _refuse_gradients(q=q, k=k, v=v)
    if len(q.shape) != 4:
        raise ValueError("q has %d dimensions, not 4" % len(q.shape))
    batch, queries, heads, head_dim = q.shape
    if k is not None and cache_seqlens is None:
        raise ValueError("cache_seqlens is None, but k is to be appended")
    if rotary_cos is not None and queries > 1:
        if not causal and _window(window_size, causal) == (-1, -1):
            raise NotImplementedError(
                "rotary_cos without causal or window_size rotates all queries alike, "
                "which is not supported"
            )
    if block_table is None:
        k_cache, pages, distance = _as_pages(k_cache, "k_cache")
        v_cache, v_pages, v_distance = _as_pages(v_cache, "v_cache")
        if k_cache.shape != v_cache.shape or (pages, distance) != (
            v_pages,
            v_distance,
        ):
            raise ValueError("v_cache is laid out otherwise than k_cache")
        namespace = _namespace(q)
        kind = {"dtype": namespace.int32, "device": q.device}
        rows = namespace.arange(0, batch, 1, **kind)
        if cache_batch_idx is not None:
            _index_array(cache_batch_idx, "cache_batch_idx", batch, _view(q, "q").device)
            rows = cache_batch_idx
        block_table = rows[:, None] * distance + namespace.arange(0, pages, 1, **kind)
    elif cache_batch_idx is not None:
        raise NotImplementedError("cache_batch_idx is not supported with block_table")
    if cache_seqlens is None:
        cache_seqlens = k_cache.shape[1] * block_table.shape[1]
    if isinstance(cache_seqlens, int):
        namespace = _namespace(q)
        cache_seqlens = namespace.full(
            (batch,), cache_seqlens, dtype=namespace.int32, device=q.device
        )
    new = 0 if k is None else k.shape[1]
    if k is not None and (k.shape[0] != batch or v is None or v.shape[:2] != k.shape[:2]):
        raise ValueError("k and v have other batches or lengths than q or each other")
    cu_seqlens_new = None
    if k is not None and new != queries:
        cu_seqlens_new = _offsets(q, batch, new)
    result = paged_attention(
        q.reshape(batch * queries, heads, head_dim),
        k_cache,
        v_cache,
        block_table,
        cache_seqlens,
        None if queries == 1 else _offsets(q, batch, queries),
        None if k is None else k.reshape(batch * new, *k.shape[2:]),
        None if v is None else v.reshape(batch * new, *v.shape[2:]),
        cu_seqlens_new=cu_seqlens_new,
        softmax_scale=softmax_scale,
        causal=causal,
        window_size=window_size,
        softcap=softcap,
        s_aux=s_aux,
        rotary_cos=rotary_cos,
        rotary_sin=rotary_sin,
        rotary_interleaved=rotary_interleaved,
        batch_invariant=batch_invariant,
        out=None if out is None else out.reshape(batch * queries, heads, head_dim),
        return_softmax_lse=return_softmax_lse,
    )
    if not return_softmax_lse:
        return result.reshape(q.shape)
    out, lse = result
    return (
        out.reshape(q.shape),
        lse.reshape(heads, batch, queries).permute(1, 0, 2),
    )


# The steps of the founding way, and the union of partial results.


def cache_scatter(k, v, k_cache, v_cache, slot_mapping):
    """Writes row t of k and v to slot slot_mapping[t] (int64) of the cache.

    A slot is block * block_size + place; negative ones are skipped.
    """
    view = _view(k, "k", ndim=3)
    v_view = _view(v, "v", ndim=3)
    cache, k_cache_view, _ = _cache_of(k_cache, v_cache, view.dtype, view.device)
    slots = _view(slot_mapping, "slot_mapping", "int64", 1)
    _same_device(slots, "slot_mapping", view.device)
    if slots.shape[0] != view.shape[0] or v_view.shape != view.shape:
        raise ValueError("k, v and slot_mapping differ in tokens")
    kind = (*k_cache_view.shape[2:], view.dtype, view.device)
    params = _ScatterParams(
        shape=_shape_of(view, view.shape[1]),
        k=_tensor(view, "k", *kind),
        v=_tensor(v_view, "v", *kind),
        total_tokens=view.shape[0],
        slot_mapping=slots.data,
        cache=cache,
    )
    stream = _stream(k, view.device)
    _call("cache_scatter", ctypes.byref(params), view.device, stream)


def cache_gather(k_cache, v_cache, block_table, cu_seqlens_k, k, v):
    """Copies the first cu_seqlens_k[b + 1] - cu_seqlens_k[b] tokens of each
    sequence b to the rows of k and v from cu_seqlens_k[b] on."""
    view = _view(k, "k", ndim=3)
    v_view = _view(v, "v", ndim=3)
    cache, k_cache_view, _ = _cache_of(k_cache, v_cache, view.dtype, view.device)
    batch = cu_seqlens_k.shape[0] - 1
    kind = (*k_cache_view.shape[2:], view.dtype, view.device)
    if v_view.shape != view.shape:
        raise ValueError("v has another shape than k")
    params = _GatherParams(
        shape=_shape_of(view, view.shape[1]),
        cache=cache,
        block_table=_table_of(block_table, batch, view.device),
        batch=batch,
        cu_seqlens_k=_index_array(
            cu_seqlens_k, "cu_seqlens_k", batch + 1, view.device
        ),
        total_k=view.shape[0],
        k=_tensor(view, "k", *kind),
        v=_tensor(v_view, "v", *kind),
    )
    stream = _stream(k, view.device)
    _call("cache_gather", ctypes.byref(params), view.device, stream)


def merge_states(a, lse_a, b, lse_b, *, out=None):
    """The attention over the union of two disjoint sets of keys.

    a, b [total_q, heads, head_dim]; lse_a, lse_b float32 [heads, total_q].
    Returns (out, lse).
    """
    view = _view(a, "a", ndim=3)
    b_view = _view(b, "b", ndim=3)
    if b_view.shape != view.shape:
        raise ValueError("b has another shape than a")
    kind = (*view.shape[1:], view.dtype, view.device)
    lses = []
    for value, name in ((lse_a, "lse_a"), (lse_b, "lse_b")):
        lse = _view(value, name, "float32", 2)
        _same_device(lse, name, view.device)
        if lse.shape != (view.shape[1], view.shape[0]):
            raise ValueError("%s has shape %s" % (name, list(lse.shape)))
        if lse.strides != _compact_strides(lse.shape):
            raise ValueError("%s is not contiguous" % name)
        lses.append(lse)
    out, out_tensor = _output(a, view, out)
    lse, address = _lse(a, view, True)
    params = _MergeParams(
        shape=_shape_of(view, view.shape[1]),
        total_q=view.shape[0],
        a=_tensor(view, "a", *kind),
        lse_a=lses[0].data,
        b=_tensor(b_view, "b", *kind),
        lse_b=lses[1].data,
        out=out_tensor,
        lse=address,
    )
    stream = _stream(a, view.device)
    _call("merge_states", ctypes.byref(params), view.device, stream)
    return out, lse
