"""As much of torch as interleave_attention asks of it, without memory.

Tensors have addresses, shapes and strides, and no contents.
"""

import itertools

_addresses = itertools.count(1 << 20, 1 << 20)


class _DType:
    def __init__(self, name):
        self.name = name

    def __str__(self):
        return "torch." + self.name


float16 = _DType("float16")
bfloat16 = _DType("bfloat16")
float32 = _DType("float32")
int32 = _DType("int32")
int64 = _DType("int64")


class Device:
    def __init__(self, type, index=None):  # noqa: A002, as torch names it
        self.type = type
        self.index = index

    def __str__(self):
        return self.type if self.index is None else "%s:%d" % (self.type, self.index)


def _compact(shape):
    strides = []
    size = 1
    for extent in reversed(shape):
        strides.insert(0, size)
        size *= max(extent, 1)
    return tuple(strides)


class Tensor:
    def __init__(self, shape, dtype=bfloat16, device=None, strides=None, address=None):
        self.shape = tuple(shape)
        self.dtype = dtype
        self.device = device or Device("cuda", 0)
        self.strides = tuple(strides) if strides is not None else _compact(shape)
        self.address = address if address is not None else next(_addresses)
        self.requires_grad = False

    def data_ptr(self):
        return self.address

    def stride(self):
        return self.strides

    def _like(self, shape, strides=None, address=None, dtype=None):
        return Tensor(shape, dtype or self.dtype, self.device, strides, address)

    def new_empty(self, shape, dtype=None):
        return self._like(shape, dtype=dtype)

    def contiguous(self):
        return self if self.strides == _compact(self.shape) else self._like(self.shape)

    def float(self):
        return self._like(self.shape, dtype=float32)

    def as_strided(self, shape, strides):
        return self._like(shape, strides, self.address)

    def permute(self, *axes):
        return self._like(
            [self.shape[a] for a in axes],
            [self.strides[a] for a in axes],
            self.address,
        )

    def reshape(self, *shape):
        shape = shape[0] if isinstance(shape[0], (tuple, list)) else shape
        return self.contiguous()._like(shape, None, self.contiguous().address)

    def __getitem__(self, key):
        keys = key if isinstance(key, tuple) else (key,)
        shape, axis = [], 0
        for k in keys:
            if k is None:
                shape.append(1)
                continue
            shape.append(len(range(*k.indices(self.shape[axis]))))
            axis += 1
        return self._like(shape + list(self.shape[axis:]))

    def _binary(self, other):
        if not isinstance(other, Tensor):
            return self._like(self.shape)
        width = max(len(self.shape), len(other.shape))
        a = (1,) * (width - len(self.shape)) + self.shape
        b = (1,) * (width - len(other.shape)) + other.shape
        return self._like([max(x, y) for x, y in zip(a, b)])

    __add__ = __sub__ = __mul__ = _binary


def arange(start, stop, step, dtype, device):
    return Tensor([len(range(start, stop, step))], dtype, device)


def full(shape, value, dtype, device):
    tensor = Tensor(shape, dtype, device)
    tensor.value = value
    return tensor


def is_grad_enabled():
    return True


class _Stream:
    def __init__(self, cuda_stream):
        self.cuda_stream = cuda_stream


class cuda:  # noqa: N801, as torch names it
    stream = 0
    capturing = False

    @classmethod
    def current_stream(cls, device):
        return _Stream(cls.stream)

    @classmethod
    def is_current_stream_capturing(cls):
        return cls.capturing
