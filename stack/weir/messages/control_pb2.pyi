from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class SignedOrder(_message.Message):
    __slots__ = ("order", "signature")
    ORDER_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    order: bytes
    signature: bytes
    def __init__(self, order: _Optional[bytes] = ..., signature: _Optional[bytes] = ...) -> None: ...

class Order(_message.Message):
    __slots__ = ("major", "minor", "probe", "number", "issued_by", "filters")
    MAJOR_FIELD_NUMBER: _ClassVar[int]
    MINOR_FIELD_NUMBER: _ClassVar[int]
    PROBE_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    ISSUED_BY_FIELD_NUMBER: _ClassVar[int]
    FILTERS_FIELD_NUMBER: _ClassVar[int]
    major: int
    minor: int
    probe: str
    number: int
    issued_by: str
    filters: FilterOrder
    def __init__(self, major: _Optional[int] = ..., minor: _Optional[int] = ..., probe: _Optional[str] = ..., number: _Optional[int] = ..., issued_by: _Optional[str] = ..., filters: _Optional[_Union[FilterOrder, _Mapping]] = ...) -> None: ...

class FilterOrder(_message.Message):
    __slots__ = ("toml",)
    TOML_FIELD_NUMBER: _ClassVar[int]
    toml: str
    def __init__(self, toml: _Optional[str] = ...) -> None: ...
