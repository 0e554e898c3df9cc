from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class CounterMessage(_message.Message):
    __slots__ = ("major", "minor", "probe", "worker", "epoch", "sequence", "interval_start_ms", "interval_ms", "order", "counters")
    MAJOR_FIELD_NUMBER: _ClassVar[int]
    MINOR_FIELD_NUMBER: _ClassVar[int]
    PROBE_FIELD_NUMBER: _ClassVar[int]
    WORKER_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    INTERVAL_START_MS_FIELD_NUMBER: _ClassVar[int]
    INTERVAL_MS_FIELD_NUMBER: _ClassVar[int]
    ORDER_FIELD_NUMBER: _ClassVar[int]
    COUNTERS_FIELD_NUMBER: _ClassVar[int]
    major: int
    minor: int
    probe: str
    worker: int
    epoch: int
    sequence: int
    interval_start_ms: int
    interval_ms: int
    order: int
    counters: _containers.RepeatedCompositeFieldContainer[Counter]
    def __init__(self, major: _Optional[int] = ..., minor: _Optional[int] = ..., probe: _Optional[str] = ..., worker: _Optional[int] = ..., epoch: _Optional[int] = ..., sequence: _Optional[int] = ..., interval_start_ms: _Optional[int] = ..., interval_ms: _Optional[int] = ..., order: _Optional[int] = ..., counters: _Optional[_Iterable[_Union[Counter, _Mapping]]] = ...) -> None: ...

class Counter(_message.Message):
    __slots__ = ("set", "label", "packets", "octets")
    SET_FIELD_NUMBER: _ClassVar[int]
    LABEL_FIELD_NUMBER: _ClassVar[int]
    PACKETS_FIELD_NUMBER: _ClassVar[int]
    OCTETS_FIELD_NUMBER: _ClassVar[int]
    set: str
    label: str
    packets: int
    octets: int
    def __init__(self, set: _Optional[str] = ..., label: _Optional[str] = ..., packets: _Optional[int] = ..., octets: _Optional[int] = ...) -> None: ...
