# SPDX-License-Identifier: Apache-2.0
"""Converts structs to and from D-Bus values. A struct is an a{sv}, with one entry per field.

The annotation of a field decides its D-Bus type: str gives s, bool b, int t, float d, list[X] an array of X, and a
struct a{sv}. FD gives h. A Meta with extra={"dbus": "u"} chooses another type. For the documentation, a Meta also has
the meaning (description) and the unit (extra={"unit": ...}) of the field. For validation, it has the limits of the value.
"""

import typing
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin

import msgspec
from msgspec import Meta

T = TypeVar("T")


class Struct(msgspec.Struct, frozen=True):
    """The base class of all structs. Decoding ignores unknown keys, because the sender may be newer than the receiver."""


# unsigned; without an upper limit, because msgspec does not support limits beyond 63 bits
U64 = Annotated[int, Meta(ge=0, extra={"dbus": "t"})]
I64 = Annotated[int, Meta(extra={"dbus": "x"})]
# an open file; the agent sends a descriptor and then closes its own
FD = Annotated[int, Meta(extra={"dbus": "h"})]
_BASIC = {str: "s", bool: "b", int: "t", float: "d"}


class Field:
    """A field of a struct: its type, D-Bus signature, meaning and unit."""

    def __init__(self, name: str, annotation: Any) -> None:
        self.name = name
        self.type, metas = split(annotation)
        self.signature = signature(annotation)
        self.meaning = next((meta.description for meta in reversed(metas) if meta.description), "")
        self.extra: dict[str, Any] = {}
        for meta in metas:
            self.extra |= meta.extra or {}
        self.unit: str = self.extra.get("unit", "")
        self.error: str = self.extra.get(
            "error", ""
        )  # kind of the error for a bad value; "": InvalidArgument


def split(annotation: Any) -> tuple[Any, list[Meta]]:
    """The type inside Annotated, and the list of its Metas."""
    if get_origin(annotation) is Annotated:
        inner, *rest = get_args(annotation)
        plain, metas = split(inner)
        return plain, metas + [meta for meta in rest if isinstance(meta, Meta)]
    return annotation, []


def signature(annotation: Any) -> str:
    """The D-Bus signature of a type. Raises TypeError if it has none."""
    plain, metas = split(annotation)
    for meta in reversed(metas):
        if meta.extra and "dbus" in meta.extra:
            return str(meta.extra["dbus"])
    if plain in _BASIC:
        return _BASIC[plain]
    if get_origin(plain) is Literal:
        return "s"
    if get_origin(plain) is list:
        return "a" + signature(get_args(plain)[0])
    if get_origin(plain) is dict or (isinstance(plain, type) and issubclass(plain, msgspec.Struct)):
        return "a{sv}"
    raise TypeError(f"{annotation} has no D-Bus type")


_fields: dict[type, tuple[Field, ...]] = {}


def fields(struct: type[Struct]) -> tuple[Field, ...]:
    """The fields of STRUCT in order."""
    if struct not in _fields:
        hints = typing.get_type_hints(struct, include_extras=True)
        _fields[struct] = tuple(Field(name, hints[name]) for name in struct.__struct_fields__)
    return _fields[struct]


def clean(text: str) -> str:
    """TEXT as valid UTF-8 without NUL. D-Bus carries no other text, but a file name may contain any bytes."""
    return text.encode("utf-8", "replace").decode().replace("\0", "")


def cleaned(value: Any) -> Any:
    """VALUE with each text in it clean, in lists and objects of any depth. JSON can write texts that are not clean."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, Mapping):
        return {cleaned(key): cleaned(entry) for key, entry in value.items()}
    return [cleaned(entry) for entry in value] if isinstance(value, list | tuple) else value


Packer = Callable[[Any, Any], Any]
_packers: dict[type, Packer] = {}


def pack(value: Any, annotation: Any, variant: Any) -> Any:
    """VALUE, whose type is ANNOTATION, in the form that D-Bus carries.

    VARIANT(signature, value, verify) makes a variant. VERIFY: whether VALUE may have another type than the signature says.
    """
    return packer(annotation)(value, variant)


def packer(annotation: Any) -> Packer:
    """The function that does the work of pack() for values of type ANNOTATION. To make it takes longer than to call it."""
    plain, _ = split(annotation)
    if get_origin(plain) is list:
        entry = packer(get_args(plain)[0])
        return lambda value, variant: [entry(each, variant) for each in value]
    if get_origin(plain) is dict:
        return lambda value, variant: {clean(key): loose(each, variant) for key, each in value.items()}
    if isinstance(plain, type) and issubclass(plain, msgspec.Struct):
        return _of_struct
    return _of_text if plain is str or get_origin(plain) is Literal else lambda value, _: value


def _of_text(value: str, _: Any) -> str:
    return value if value.isascii() and "\0" not in value else clean(value)


def _of_struct(value: Struct, variant: Any) -> dict[str, Any]:
    kind = type(value)
    if kind not in _packers:
        _packers[kind] = _for_struct(kind)
    found: dict[str, Any] = _packers[kind](value, variant)
    return found


def _for_struct(kind: type[Struct]) -> Packer:
    """The packer of the structs of type KIND."""
    # Only a number or a truth value can have a wrong type: a packer has made everything else.
    parts = [
        (field.name, field.signature, packer(field.type), field.signature in ("b", "t", "u", "x", "d"))
        for field in fields(kind)
    ]
    return lambda value, variant: {
        name: variant(signature, pack_field(getattr(value, name), variant), verify)
        for name, signature, pack_field, verify in parts
    }


def loose(value: Any, variant: Any) -> Any:
    """VALUE, a parameter of a message, as a variant. The type of VALUE decides the variant's D-Bus type."""
    if isinstance(value, bool):
        return variant("b", value)
    if isinstance(value, int):
        return variant("x", max(-(1 << 63), min(value, (1 << 63) - 1)))
    if isinstance(value, float):
        return variant("d", value)
    if isinstance(value, Mapping):
        return variant("a{sv}", {clean(str(key)): loose(entry, variant) for key, entry in value.items()})
    if isinstance(value, list | tuple):
        return variant("av", [loose(entry, variant) for entry in value])
    return variant("s", clean(str(value)))


def convert(value: Any, annotation: type[T]) -> T:
    """VALUE as an object of type ANNOTATION. Raises msgspec.ValidationError if it does not match.

    VALUE comes from JSON, or from D-Bus without variants.
    """
    return msgspec.convert(value, annotation, strict=True)


def structs(annotation: Any) -> Iterator[type[Struct]]:
    """The struct in ANNOTATION and the structs in its fields, outermost first."""
    plain, _ = split(annotation)
    if get_origin(plain) is list:
        yield from structs(get_args(plain)[0])
    elif isinstance(plain, type) and issubclass(plain, Struct):
        yield plain
        for field in fields(plain):
            yield from structs(field.type)
