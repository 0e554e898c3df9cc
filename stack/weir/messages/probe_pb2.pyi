from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Optional as _Optional

DESCRIPTOR: _descriptor.FileDescriptor

class Probe(_message.Message):
    __slots__ = ("major", "minor", "name", "site", "rank", "one_way")
    MAJOR_FIELD_NUMBER: _ClassVar[int]
    MINOR_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    SITE_FIELD_NUMBER: _ClassVar[int]
    RANK_FIELD_NUMBER: _ClassVar[int]
    ONE_WAY_FIELD_NUMBER: _ClassVar[int]
    major: int
    minor: int
    name: str
    site: str
    rank: int
    one_way: bool
    def __init__(self, major: _Optional[int] = ..., minor: _Optional[int] = ..., name: _Optional[str] = ..., site: _Optional[str] = ..., rank: _Optional[int] = ..., one_way: _Optional[bool] = ...) -> None: ...
