"""The structs of interleave_attention are those of attention/c_api.h.

STRUCT_LAYOUT: what print_struct_layout printed. C_API_HEADER: the header, whose
text says which structs and fields there are, so that none is left out of both.
"""

import ctypes
import os
import re
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import interleave_attention as attention  # noqa: E402

INTEGERS = (ctypes.c_int32, ctypes.c_int64)


def kind(field_type):
    if issubclass(field_type, ctypes.Structure):
        return "struct"
    if field_type in INTEGERS:
        return "int"
    return {
        ctypes.c_uint64: "unsigned",
        ctypes.c_float: "float",
        ctypes.c_void_p: "pointer",
    }[field_type]


def described_by_python(name):
    """[(field, offset, size, kind)], the whole struct last."""
    struct = getattr(attention, "_" + name)
    fields = []
    for field, field_type in struct._fields_:
        at = getattr(struct, field)
        fields.append((field, at.offset, at.size, kind(field_type)))
    return fields + [("-", 0, ctypes.sizeof(struct), "struct")]


def described_by_compiler():
    """{struct: as described_by_python}"""
    structs = {}
    with open(os.environ["STRUCT_LAYOUT"], encoding="utf-8") as lines:
        for line in lines:
            name, field, offset, size, what = line.split()
            structs.setdefault(name, []).append((field, int(offset), int(size), what))
    return structs


def named_in_header():
    """{struct: [field]}"""
    with open(os.environ["C_API_HEADER"], encoding="utf-8") as header:
        text = re.sub(r"/\*.*?\*/", "", header.read(), flags=re.S)
    found = re.findall(r"typedef struct \{(.*?)\} InterleaveAttention(\w+);", text, re.S)
    return {name: re.findall(r"(\w+);", body) for body, name in found}


class StructLayoutTest(unittest.TestCase):
    maxDiff = None

    def test_python_has_the_structs_of_the_header(self):
        in_python = {
            name[1:]
            for name, value in vars(attention).items()
            if isinstance(value, type)
            and issubclass(value, ctypes.Structure)
            and value is not attention._Sized
            and not name.startswith("_DL")
        }
        self.assertEqual(in_python, set(named_in_header()))
        self.assertEqual(len(in_python), 13)

    def test_every_field_is_compared(self):
        compiled = {
            name: [field for field, *_ in fields if field != "-"]
            for name, fields in described_by_compiler().items()
        }
        self.assertEqual(compiled, named_in_header())

    def test_fields_lie_where_the_compiler_puts_them(self):
        for name, fields in described_by_compiler().items():
            with self.subTest(name):
                self.assertEqual(described_by_python(name), fields)


if __name__ == "__main__":
    unittest.main()
