from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Severity(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    SEVERITY_UNSPECIFIED: _ClassVar[Severity]
    SEVERITY_INFO: _ClassVar[Severity]
    SEVERITY_WARNING: _ClassVar[Severity]
    SEVERITY_CRITICAL: _ClassVar[Severity]
SEVERITY_UNSPECIFIED: Severity
SEVERITY_INFO: Severity
SEVERITY_WARNING: Severity
SEVERITY_CRITICAL: Severity

class Alert(_message.Message):
    __slots__ = ("major", "minor", "id", "reason", "probe", "subject", "severity", "opened_ms", "updated_ms", "closed_ms", "text", "values", "subject_kind", "technique", "peers", "ports", "probes", "score", "threshold", "query")
    class ValuesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    class PeersEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    class ProbesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    MAJOR_FIELD_NUMBER: _ClassVar[int]
    MINOR_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    PROBE_FIELD_NUMBER: _ClassVar[int]
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    SEVERITY_FIELD_NUMBER: _ClassVar[int]
    OPENED_MS_FIELD_NUMBER: _ClassVar[int]
    UPDATED_MS_FIELD_NUMBER: _ClassVar[int]
    CLOSED_MS_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    SUBJECT_KIND_FIELD_NUMBER: _ClassVar[int]
    TECHNIQUE_FIELD_NUMBER: _ClassVar[int]
    PEERS_FIELD_NUMBER: _ClassVar[int]
    PORTS_FIELD_NUMBER: _ClassVar[int]
    PROBES_FIELD_NUMBER: _ClassVar[int]
    SCORE_FIELD_NUMBER: _ClassVar[int]
    THRESHOLD_FIELD_NUMBER: _ClassVar[int]
    QUERY_FIELD_NUMBER: _ClassVar[int]
    major: int
    minor: int
    id: str
    reason: str
    probe: str
    subject: str
    severity: Severity
    opened_ms: int
    updated_ms: int
    closed_ms: int
    text: str
    values: _containers.ScalarMap[str, float]
    subject_kind: str
    technique: str
    peers: _containers.ScalarMap[str, int]
    ports: _containers.RepeatedScalarFieldContainer[int]
    probes: _containers.ScalarMap[str, int]
    score: float
    threshold: float
    query: str
    def __init__(self, major: _Optional[int] = ..., minor: _Optional[int] = ..., id: _Optional[str] = ..., reason: _Optional[str] = ..., probe: _Optional[str] = ..., subject: _Optional[str] = ..., severity: _Optional[_Union[Severity, str]] = ..., opened_ms: _Optional[int] = ..., updated_ms: _Optional[int] = ..., closed_ms: _Optional[int] = ..., text: _Optional[str] = ..., values: _Optional[_Mapping[str, float]] = ..., subject_kind: _Optional[str] = ..., technique: _Optional[str] = ..., peers: _Optional[_Mapping[str, int]] = ..., ports: _Optional[_Iterable[int]] = ..., probes: _Optional[_Mapping[str, int]] = ..., score: _Optional[float] = ..., threshold: _Optional[float] = ..., query: _Optional[str] = ...) -> None: ...

class Rule(_message.Message):
    __slots__ = ("major", "minor", "name", "detector", "off", "prefixes", "customer_ids", "probes", "parameters", "severity", "why")
    class ParametersEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    MAJOR_FIELD_NUMBER: _ClassVar[int]
    MINOR_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    DETECTOR_FIELD_NUMBER: _ClassVar[int]
    OFF_FIELD_NUMBER: _ClassVar[int]
    PREFIXES_FIELD_NUMBER: _ClassVar[int]
    CUSTOMER_IDS_FIELD_NUMBER: _ClassVar[int]
    PROBES_FIELD_NUMBER: _ClassVar[int]
    PARAMETERS_FIELD_NUMBER: _ClassVar[int]
    SEVERITY_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    major: int
    minor: int
    name: str
    detector: str
    off: bool
    prefixes: _containers.RepeatedScalarFieldContainer[str]
    customer_ids: _containers.RepeatedScalarFieldContainer[int]
    probes: _containers.RepeatedScalarFieldContainer[str]
    parameters: _containers.ScalarMap[str, float]
    severity: Severity
    why: str
    def __init__(self, major: _Optional[int] = ..., minor: _Optional[int] = ..., name: _Optional[str] = ..., detector: _Optional[str] = ..., off: _Optional[bool] = ..., prefixes: _Optional[_Iterable[str]] = ..., customer_ids: _Optional[_Iterable[int]] = ..., probes: _Optional[_Iterable[str]] = ..., parameters: _Optional[_Mapping[str, float]] = ..., severity: _Optional[_Union[Severity, str]] = ..., why: _Optional[str] = ...) -> None: ...
