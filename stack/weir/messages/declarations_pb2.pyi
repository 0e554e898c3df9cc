from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable
from typing import ClassVar as _ClassVar, Optional as _Optional

DESCRIPTOR: _descriptor.FileDescriptor

class Prefix(_message.Message):
    __slots__ = ("major", "minor", "prefix", "customer", "site", "tags", "national", "id", "customer_id", "site_id")
    MAJOR_FIELD_NUMBER: _ClassVar[int]
    MINOR_FIELD_NUMBER: _ClassVar[int]
    PREFIX_FIELD_NUMBER: _ClassVar[int]
    CUSTOMER_FIELD_NUMBER: _ClassVar[int]
    SITE_FIELD_NUMBER: _ClassVar[int]
    TAGS_FIELD_NUMBER: _ClassVar[int]
    NATIONAL_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    CUSTOMER_ID_FIELD_NUMBER: _ClassVar[int]
    SITE_ID_FIELD_NUMBER: _ClassVar[int]
    major: int
    minor: int
    prefix: str
    customer: str
    site: str
    tags: _containers.RepeatedScalarFieldContainer[str]
    national: bool
    id: int
    customer_id: int
    site_id: int
    def __init__(self, major: _Optional[int] = ..., minor: _Optional[int] = ..., prefix: _Optional[str] = ..., customer: _Optional[str] = ..., site: _Optional[str] = ..., tags: _Optional[_Iterable[str]] = ..., national: _Optional[bool] = ..., id: _Optional[int] = ..., customer_id: _Optional[int] = ..., site_id: _Optional[int] = ...) -> None: ...

class Probe(_message.Message):
    __slots__ = ("major", "minor", "name", "site", "rank", "one_way", "pseudonyms")
    MAJOR_FIELD_NUMBER: _ClassVar[int]
    MINOR_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    SITE_FIELD_NUMBER: _ClassVar[int]
    RANK_FIELD_NUMBER: _ClassVar[int]
    ONE_WAY_FIELD_NUMBER: _ClassVar[int]
    PSEUDONYMS_FIELD_NUMBER: _ClassVar[int]
    major: int
    minor: int
    name: str
    site: str
    rank: int
    one_way: bool
    pseudonyms: bool
    def __init__(self, major: _Optional[int] = ..., minor: _Optional[int] = ..., name: _Optional[str] = ..., site: _Optional[str] = ..., rank: _Optional[int] = ..., one_way: _Optional[bool] = ..., pseudonyms: _Optional[bool] = ...) -> None: ...
